// What the tests measure inside the page. Evaluates to an object of functions.
(() => {
  const seen = (element) => element.checkVisibility({ opacityProperty: true, visibilityProperty: true });
  const start = (element) => element.textContent.trim().slice(0, 60);
  const name = (element) => `${element.closest(".plot")?.id ?? element.tagName}: ${start(element)}`;
  const texts = (root) =>
    [...root.querySelectorAll("svg text")].filter((text) => text.textContent.trim() && seen(text));

  function luminance(colour) {
    const numbers = colour.match(/[\d.]+/g).map(Number);
    const linear = (v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    const [r, g, b] = numbers.slice(0, 3).map((v) => linear(v / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  }
  function contrast(a, b) {
    const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
    return (high + 0.05) / (low + 0.05);
  }
  // The colour behind an element of the page's own.
  function behind(element) {
    for (let at = element; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if (!/, 0\)$|transparent/.test(colour)) return colour;
    }
    return "rgb(255, 255, 255)";
  }
  const scrolls = (element) => ["auto", "scroll"].includes(getComputedStyle(element).overflowX);
  const slanted = (text) => {
    const { a, b } = text.getScreenCTM();
    return Math.abs(a * b) > 1e-6;
  };
  // A box of letters without the room above and below that its font keeps.
  const letters = (text) => {
    const { left, right, top, bottom } = text.getBoundingClientRect();
    const room = Math.min(bottom - top, right - left) * 0.2;
    return { left: left + 1, right: right - 1, top: top + room, bottom: bottom - room };
  };
  const lines = (text) => (text.querySelector("tspan") ? [...text.querySelectorAll("tspan")] : [text]);

  return {
    overlaps: () => [...document.querySelectorAll(".plot")].flatMap((plot) => {
      const all = texts(plot).filter((t) => !slanted(t)).map((t) => [t, letters(t)]);
      const found = [];
      all.forEach(([a, p], i) => all.slice(i + 1).forEach(([b, q]) => {
        const apart = p.left >= q.right || q.left >= p.right || p.top >= q.bottom || q.top >= p.bottom;
        if (!apart) found.push(`${name(a)} / ${b.textContent}`);
      }));
      return found;
    }),
    outside: () => texts(document).filter((text) => {
      const svg = text.ownerSVGElement.getBoundingClientRect();
      const box = text.getBoundingClientRect();
      const inside = box.left >= svg.left - 1 && box.right <= svg.right + 1;
      return !inside || box.top < svg.top - 1 || box.bottom > svg.bottom + 1;
    }).map(name),
    // What of the page is cut off: wider than its place, and not to be scrolled to.
    clipped: () => [...document.querySelectorAll("body, body *:not(svg *)")].filter((element) => {
      const { scrollWidth, clientWidth } = element;
      if (!seen(element) || scrollWidth <= clientWidth + 1 || clientWidth === 0) return false;
      return !element.closest(".plot, .scroll") || !scrolls(element.closest(".plot, .scroll"));
    }).map((element) => `${element.tagName}.${element.className}: ${start(element)}`),
    // In pixels of the screen.
    smallest: () => Math.min(...texts(document).map((text) => {
      const { a, b } = text.getScreenCTM();
      return parseFloat(getComputedStyle(text).fontSize) * Math.hypot(a, b);
    })),
    pale: (onBars) => {
      const found = [];
      for (const text of texts(document)) {
        const fill = getComputedStyle(text).fill;
        // Text on bars has their colours behind it.
        const papers = fill === onBars.text ? onBars.bars : [behind(text.closest(".plot"))];
        for (const paper of papers) {
          if (contrast(fill, paper) < 4.5) found.push(`${name(text)}: ${fill} on ${paper}`);
        }
      }
      for (const element of document.querySelectorAll("body *:not(svg *, script, svg)")) {
        const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
        if (!own || !seen(element)) continue;
        const ratio = contrast(getComputedStyle(element).color, behind(element));
        if (ratio < 4.5) found.push(`${name(element)}: ${ratio}`);
      }
      return found;
    },
    faint: () => {
      const found = new Set();
      for (const line of document.querySelectorAll(".plot .mark-line path, .plot .mark-symbol path")) {
        const style = getComputedStyle(line);
        if (!seen(line) || style.stroke === "none" || style.stroke === "transparent") continue;
        if (contrast(style.stroke, behind(line.closest(".plot"))) < 3) found.add(style.stroke);
      }
      return [...found];
    },
  };
})()
