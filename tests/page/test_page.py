"""The report in a real browser: what it draws, shows, hides, tells and loads."""

import re
import time
from collections import Counter
from pathlib import Path

import pytest
from attnscope_py import theme
from conftest import draw_all

MEASURES = (Path(__file__).parent / "page.js").read_text(encoding="utf-8")
FIGURES = ("scaling", "patterns", "efficiency", "speedup", "stages", "peak", "roofline", "memory", "machines")
OF_MODEL = ("roofline-2", "machines-2")  # of the one row that stands for a model's shape


def measure(page, name, *arguments):
    # A bare return value, so that a list arrives as one.
    function = MEASURES.strip().partition("\n")[2]  # without the comment
    return page.evaluate(f"(given) => ({function}).{name}(...given)", list(arguments))


def texts(page):
    """The texts of every plot, however often each."""
    found = page.evaluate(
        """[...document.querySelectorAll('.plot')]
        .map(plot => [plot.id, [...plot.querySelectorAll('svg text')].map(text => text.textContent)])"""
    )
    return {name: Counter(text for text in some if text.strip()) for name, some in found}


def wait(page, condition):
    """Until this expression holds. The page forbids code out of text, on which Playwright's own way rests."""
    deadline = time.monotonic() + 60  # against hanging; a loaded machine draws slowly
    while not page.evaluate(condition):
        assert time.monotonic() < deadline, f"never: {condition}"
        page.wait_for_timeout(50)


def point_at(page, mark):
    """Moves the pointer onto a mark, and returns what is then told."""
    mark.evaluate("e => e.scrollIntoView({block: 'center'})")
    # A busy browser joins movements: what comes to rest before it looks was never anywhere else.
    for _ in range(20):
        page.mouse.move(2, 2)
        wait(page, "!document.querySelector('.vg-tooltip.visible')")
        box = mark.bounding_box()
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        page.wait_for_timeout(200)
        if page.locator(".vg-tooltip.visible").count():
            return page.locator(".vg-tooltip").inner_text()
    raise AssertionError("nothing is told of " + mark.evaluate("e => e.outerHTML"))


def rgb(colour):
    return "rgb({}, {}, {})".format(*(int(colour[i : i + 2], 16) for i in (1, 3, 5)))


def strokes(page, figure, colour):
    """How many lines and markers of a figure have this colour."""
    return page.locator(f"#{figure} .plot:not([hidden]) path[stroke='{colour}']").count()


def button(page, field, value, figure=""):
    return page.locator(f"{'#' + figure if figure else '#machines'} button[data-field='{field}']").filter(
        has_text=re.compile(f"^{re.escape(value)}$")
    )


# Guards the page with its scripts: each chart is drawn again by them, from the same specification, with the
# same texts; visits() adds that nothing was loaded and no error came up.
def test_the_script_draws_the_same(look):
    still = look(script=False)
    assert still.locator("figure").evaluate_all("all => all.map(f => f.id)") == [*FIGURES, *OF_MODEL]
    page = look(script=True)
    assert page.locator(".plot").count() >= 20
    assert texts(page) == texts(still)
    labels = """[...document.querySelectorAll('.plot svg')]
        .map(svg => [svg.getAttribute('role'), svg.getAttribute('aria-label')])"""
    assert page.evaluate(labels) == still.evaluate(labels)


def first_drawn(page):
    """Scrolls to the first chart, and waits for it."""
    page.locator("#scaling .plot").first.scroll_into_view_if_needed()
    page.wait_for_selector("#scaling .plot[data-live]")


# Guards that charts are drawn when they come near, and not all at once.
def test_drawn_when_near(visit):
    page = visit()
    first_drawn(page)
    assert page.locator("#memory .plot[data-live]").count() == 0


# Guards the time that many charts take: each that comes in is run again once, and none that is there already.
def test_a_chart_runs_alone(visit):
    page = visit()
    first_drawn(page)
    page.evaluate(
        """() => {
            window.runs = [];
            const embed = vegaEmbed;
            vegaEmbed = async (...all) => {
                const result = await embed(...all);
                const number = runs.push(0) - 1;
                const runAsync = result.view.runAsync;
                result.view.runAsync = function () {
                    runs[number]++;
                    return runAsync.call(this);
                };
                return result;
            };
        }"""
    )
    draw_all(page)
    wait(page, "runs.length > 10 && runs.every((times) => times > 0)")
    assert set(page.evaluate("runs")) == {1}


# Guards showing and hiding a level: in its figure and nowhere else, and back.
def test_levels_can_be_hidden(live):
    page = live
    scalar, avx2 = theme.isa_colour("scalar"), theme.isa_colour("avx2")
    before = {name: (strokes(page, name, scalar), strokes(page, name, avx2)) for name in FIGURES}
    assert all(before["scaling"])
    button(page, "isa", "scalar", "scaling").click()
    wait(page, f"document.querySelectorAll(\"#scaling path[stroke='{scalar}']\").length === 0")
    assert strokes(page, "scaling", avx2) == before["scaling"][1]
    assert "scalar, zebra" not in page.locator("#scaling .plot").first.inner_text()
    for name in FIGURES[1:]:
        assert (strokes(page, name, scalar), strokes(page, name, avx2)) == before[name]
    button(page, "isa", "scalar", "scaling").click()
    wait(
        page,
        f"document.querySelectorAll(\"#scaling path[stroke='{scalar}']\").length === {before['scaling'][0]}",
    )


# Guards hiding what a plot is made of altogether: the plot goes with it.
def test_plots_of_what_is_hidden_go(live):
    page = live
    shown = page.locator("#scaling .plot:visible")
    before = shown.count()
    button(page, "variant", "causal · flash", "scaling").click()
    assert shown.count() == before - 2
    assert "causal" not in " ".join(shown.all_inner_texts())
    button(page, "stage", "softmax", "stages").click()
    wait(page, "![...document.querySelectorAll('#stages text')].some(t => t.textContent.includes('softmax'))")
    assert "pv" in " ".join(page.locator("#stages .plot").all_inner_texts())


# Guards choosing a machine: for the whole page, its summary included.
def test_machines_can_be_chosen(live):
    page = live
    button(page, "machine", "zebra").click()
    wait(
        page,
        """![...document.querySelectorAll('.plot')]
        .some(plot => plot.checkVisibility() && plot.textContent.includes('zebra'))""",
    )
    # The summary, and the analysis.
    assert page.locator("[data-machine='zebra']:visible").count() == 0
    assert page.locator("[data-machine='ant']:visible").count() == 2
    assert "ant" in " ".join(page.locator("#scaling .plot:visible").all_inner_texts())


# Guards a choice made before a chart is drawn: it holds when that comes.
def test_hidden_before_it_is_drawn(visit):
    page = visit()
    first_drawn(page)
    scalar = theme.isa_colour("scalar")
    assert page.locator("#efficiency .plot[data-live]").count() == 0
    button(page, "isa", "scalar", "efficiency").evaluate("b => b.click()")
    page.locator("#efficiency .plot").last.scroll_into_view_if_needed()
    wait(page, "document.querySelectorAll('#efficiency .plot:not([data-live], [hidden])').length === 0")
    wait(page, f"document.querySelectorAll(\"#efficiency path[stroke='{scalar}']\").length === 0")


# Guards the buttons without a mouse: reached and pressed by keyboard, and said to be pressed or not.
def test_buttons_by_keyboard(live):
    page = live
    one = button(page, "isa", "scalar", "scaling")
    one.focus()
    page.keyboard.press("Space")
    assert one.get_attribute("aria-pressed") == "false"
    page.keyboard.press("Enter")
    assert one.get_attribute("aria-pressed") == "true"


# Guards values under the pointer: those of the marker that is there, with their interval.
@pytest.mark.parametrize(
    ("plot", "says"),
    [
        ("plot-scaling-0", ("dense · naive", "avx2", "zebra", "128", "time of one call", " to ")),
        ("plot-roofline-0", ("GFLOP/s", "useful FLOP per compulsory byte")),
        ("plot-memory-0", ("workspace of one call", "KiB")),
        ("plot-stages-0", ("share", "%", "avx2")),
        ("plot-speedup-0", ("times as fast as scalar", "x")),
        ("plot-machines-0", ("time grows as n to the",)),
    ],
)
def test_hover_tells_values(look, plot, says):
    page = look(script=True)
    hovered = ".mark-rect path" if "stages" in plot else ".mark-symbol path[opacity='0']"
    told = []
    for mark in page.locator(f"#{plot} {hovered}").all():
        told.append(point_at(page, mark))
        if all(part in told[-1] for part in says):
            break
    else:
        pytest.fail(f"no mark of {plot} says {says}, but {told}")
    page.mouse.move(2, 2)
    wait(page, "!document.querySelector('.vg-tooltip.visible')")


# Guards the layout on a phone and on a wide screen, of still pictures and of live ones: nothing wider than the
# screen, cut off, outside its picture, on top of another text, or too small to read.
@pytest.mark.parametrize("script", [False, True])
@pytest.mark.parametrize("width", [400, 1400])
def test_nothing_is_cut_off(look, width, script):
    page = look(script, width)
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert measure(page, "clipped") == []
    assert measure(page, "outside") == []
    assert measure(page, "overlaps") == []
    assert measure(page, "smallest") > 8


# Guards narrow screens: every chart is seen whole; and what still has to be scrolled (a table) has a shadow over it.
@pytest.mark.parametrize("script", [False, True])
def test_charts_need_no_scrolling(look, script):
    page = look(script, 400)
    wider = """[...document.querySelectorAll('.plot')]
        .filter(plot => plot.checkVisibility() && plot.scrollWidth > plot.clientWidth + 1).map(plot => plot.id)"""
    assert page.evaluate(wider) == []
    cue = page.evaluate("getComputedStyle(document.querySelector('.scroll')).backgroundAttachment")
    assert cue.split(", ") == ["local", "local", "scroll", "scroll"]


# Guards what stands on the page beside charts: shapes of models in words and headings, analysis at every level,
# counters or why there are none, outputs that differ.
def test_analysis_is_on_the_page(visit):
    page = visit(java_script_enabled=False)
    text = page.inner_text("main")
    assert "llama-3-8b:prefill" in text and "differ by more than rounding" in text
    assert "Hardware counters of 1 row" in text
    titles = " ".join(page.locator("#analysis summary").all_inner_texts())
    for part in ("Growth", "Crossovers: naive against flash", "Tuning", "Speed-up"):
        assert part in titles, part
    crossovers = page.locator("#analysis table").filter(has_text="scalar / avx2").first.inner_text
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert "dense · flash" in crossovers()


# Guards the page without scripts: pictures, summary and tables are there, and nothing that would do nothing.
def test_without_scripts(visit):
    page = visit(java_script_enabled=False)
    assert page.locator(".plot svg:visible").count() == page.locator(".plot").count() > 0
    assert page.locator("button:visible").count() == 0
    assert page.locator("dl.says:visible").count() == 2
    summary = page.locator("#scaling details summary").last
    summary.click()
    assert page.locator("#scaling table").is_visible()


# Guards colours in both schemes: text by the 4.5 of WCAG 2, lines and markers by its 3.
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("script", [False, True])
def test_contrast(look, scheme, script):
    page = look(script, scheme=scheme)
    on_bars = {"text": rgb(theme.ON_BAR), "bars": [rgb(colour) for colour in theme.STAGE_COLOURS.values()]}
    assert measure(page, "pale", on_bars) == []
    assert measure(page, "faint") == []
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (paper == "rgb(255, 255, 255)") == (scheme == "light")


# Guards paper: no buttons, every chart, and no table that is cut off for being wide.
def test_print(look):
    page = look(script=True, width=700, media="print")
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert page.locator("button:visible").count() == 0
    assert page.locator(".plot svg:visible").count() == page.locator(".plot").count()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert measure(page, "clipped") == []
