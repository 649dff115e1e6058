// Makes the page's still pictures live: values under the pointer, and series that can be hidden. Without this
// script, or where it fails, the still pictures stay.
"use strict";
(async () => {
  const { config, hidden, panels } = JSON.parse(document.getElementById("charts").textContent);
  const plots = [...document.querySelectorAll(".plot")];
  const buttons = [...document.querySelectorAll("button[data-field]")];
  const views = new Map();

  // What is hidden in a figure: by its own buttons, and by those of the whole page.
  function hiddenIn(figure) {
    return buttons
      .filter((b) => b.getAttribute("aria-pressed") === "false")
      .filter((b) => [null, figure].includes(b.closest("figure")))
      .map((b) => `${b.dataset.field}=${b.dataset.value}`);
  }

  const isHidden = (keys, off) =>
    Object.entries(keys).some(([field, value]) => off.includes(`${field}=${value}`));

  // In one live picture what is hidden by now.
  async function hide(plot) {
    const view = await views.get(plot);
    await view.signal(hidden, hiddenIn(plot.closest("figure"))).runAsync();
  }

  function update() {
    for (const plot of plots) {
      const off = hiddenIn(plot.closest("figure"));
      const series = JSON.parse(plot.dataset.series);
      plot.hidden = series.length > 0 && series.every((keys) => isHidden(keys, off));
      if (views.has(plot)) hide(plot);
    }
    const off = hiddenIn(null);
    for (const part of document.querySelectorAll("[data-machine]")) {
      part.hidden = isHidden({ machine: part.dataset.machine }, off);
    }
  }

  async function draw(plot) {
    const still = plot.querySelector("svg");
    const place = document.createElement("div");
    const params = [{ name: hidden, value: hiddenIn(plot.closest("figure")) }];
    // With `ast`, expressions are interpreted: the page forbids making code out of text.
    const options = { renderer: "svg", actions: false, ast: true, defaultStyle: false };
    const tooltip = { disableDefaultStyle: true };
    const { view } = await vegaEmbed(place, { ...panels[plot.id], config, params }, { ...options, tooltip });
    const svg = place.querySelector("svg");
    for (const name of ["role", "aria-label"]) svg.setAttribute(name, still.getAttribute(name));
    still.replaceWith(place);
    plot.dataset.live = "";
    return view;
  }

  // Texts stand where they do by the widths of their letters.
  await Promise.all([400, 700].map((weight) => document.fonts.load(`${weight} 12px "Source Sans Pro"`)));
  // Not all at once, which would take seconds: when they come near the window.
  const near = new IntersectionObserver(
    (entries) => {
      for (const { isIntersecting, target } of entries) {
        if (!isIntersecting || views.has(target)) continue;
        near.unobserve(target);
        views.set(target, draw(target));
        hide(target); // A button may have been pressed while it was made.
      }
    },
    { rootMargin: "50%" },
  );
  for (const plot of plots) near.observe(plot);
  for (const button of buttons) {
    button.addEventListener("click", () => {
      button.setAttribute("aria-pressed", String(button.getAttribute("aria-pressed") === "false"));
      update();
    });
  }
  for (const toggles of document.querySelectorAll(".toggles")) toggles.hidden = false;
})();
