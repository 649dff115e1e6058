"""The page: alone, readable without scripts, with words and tables for everything."""

import base64
import hashlib
import html.parser
import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import synthetic
from attnscope_py import cache, figures, fonts, interactive, page, theme
from attnscope_py.reading import load_run

CHARTS = {"scaling", "patterns", "efficiency", "speedup", "stages", "peak", "roofline", "memory"}
VOID = {"meta", "link", "br", "img", "input", "hr"}


class Element:
    def __init__(self, tag, attributes, parent):
        self.tag, self.attributes, self.parent, self.children, self.text = tag, attributes, parent, [], ""

    def all(self, tag=None):
        for child in self.children:
            if tag in (None, child.tag):
                yield child
            yield from child.all(tag)

    def words(self):
        return self.text + "".join(child.words() for child in self.children)


class Tree(html.parser.HTMLParser):
    """Elements of a page; a tag that is closed wrongly is an error."""

    def __init__(self, text):
        super().__init__()
        self.root = self.at = Element("", {}, None)
        self.feed(text)
        self.close()
        assert self.at is self.root, f"<{self.at.tag}> is not closed"

    def handle_starttag(self, tag, attributes):
        element = Element(tag, dict(attributes), self.at)
        self.at.children.append(element)
        if tag not in VOID:
            self.at = element

    def handle_startendtag(self, tag, attributes):
        self.at.children.append(Element(tag, dict(attributes), self.at))

    def handle_endtag(self, tag):
        assert self.at.tag == tag, f"</{tag}> closes <{self.at.tag}>"
        self.at = self.at.parent

    def handle_data(self, data):
        self.at.text += data


@pytest.fixture(scope="module")
def text(drawn):
    return (drawn / "report.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def tree(text):
    return Tree(text).root


# Guards self-containment: nothing that a browser would load, only our own scripts, and a policy that says the same.
def test_nothing_is_loaded(text, tree):
    scripts = list(tree.all("script"))
    assert [script.attributes for script in scripts] == [{"type": "application/json", "id": "charts"}, {}, {}]
    # What Vega says of its own schema and name spaces is never asked for, as tests/page sees.
    ours = text.replace(scripts[1].text, "")
    assert len(ours) < len(text) and not re.search(r"https?://", ours)
    assert not list(tree.all("link")) and not list(tree.all("iframe"))
    for element in tree.all():
        for name, value in element.attributes.items():
            assert not name.startswith("on")
            if name in ("src", "srcset", "data", "poster", "xlink:href"):
                pytest.fail(f"<{element.tag} {name}={value[:40]}>")
            if name == "href":
                assert element.tag == "a"
    for target in re.findall(r"url\(\s*[\"']?([^)\"']*)", ours):
        assert target.startswith(("data:font/woff;base64,", "#"))
    assert "@import" not in ours
    policy = next(e for e in tree.all("meta") if e.attributes.get("http-equiv") == "Content-Security-Policy")
    rules = dict(rule.strip().split(" ", 1) for rule in policy.attributes["content"].split(";"))
    assert rules["default-src"] == "'none'"
    hashes = [hashlib.sha256(script.text.encode()).digest() for script in scripts[1:]]
    assert rules["script-src"].split() == [f"'sha256-{base64.b64encode(h).decode()}'" for h in hashes]


# Guards the size of the page: the library once, and beside it less than that again for pictures and numbers.
def test_the_library_is_there_once(text, tree):
    _, library, ours = tree.all("script")
    assert text.count("window.vegaEmbed=") == 1 and library.text.count("window.vegaEmbed=") == 1
    assert len(ours.text) < 10_000
    assert len(library.text) < 1_000_000


# Guards what the script is told: a specification for every place of a chart, each with its series, and nothing more.
def test_every_plot_has_its_specification(tree):
    told = json.loads(next(e for e in tree.all("script") if e.attributes.get("id") == "charts").text)
    plots = {e.attributes["id"]: e for e in tree.all("div") if e.attributes.get("class") == "plot"}
    assert plots.keys() == told["panels"].keys()
    for name, plot in plots.items():
        series = json.loads(plot.attributes["data-series"])
        assert series and all(keys.keys() <= theme.TOGGLES.keys() for keys in series)
        assert "params" not in told["panels"][name]
    pressed = [e for e in tree.all("button") if e.attributes["aria-pressed"] == "true"]
    assert pressed
    for button in pressed:
        field, value = button.attributes["data-field"], button.attributes["data-value"]
        figure = button.parent.parent
        inside = [p for p in plots.values() if p.parent.parent is figure]
        assert any(
            value == keys.get(field) for p in inside for keys in json.loads(p.attributes["data-series"])
        )


# Guards what is kept from run to run: used as it is, made again when it is damaged or made of something else, done
# without where there is no place for it.
def test_cache(tmp_path, monkeypatch):
    made = []

    def take(made_of="1.0"):
        made.clear()
        return cache.cached("a.js", made_of, lambda: made.append(1) or "let µ = 1;\n"), len(made)

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert take() == ("let µ = 1;\n", 1)
    assert take() == ("let µ = 1;\n", 0)
    (kept,) = (tmp_path / "cache" / "attnscope").iterdir()
    for damage in (b"", b"let x = 2;", kept.read_bytes()[:-1], kept.read_bytes() + b"x", b"\xff"):
        kept.write_bytes(damage)
        assert take() == ("let µ = 1;\n", 1)
        assert take() == ("let µ = 1;\n", 0)
    assert take("1.1")[1] == 1
    for place in ("relative", "/dev/null/nowhere"):
        monkeypatch.setenv("XDG_CACHE_HOME", place)
        assert take() == ("let µ = 1;\n", 1)
    assert not (Path.cwd() / "relative").exists()
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.delenv("HOME", raising=False)
    assert take() == ("let µ = 1;\n", 1)


# Guards that what takes seconds to make, the library and the font, is made once for each user.
def test_library_and_font_are_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made = []
    monkeypatch.setattr(fonts, "_css", lambda: made.append("font") or "a")
    monkeypatch.setattr(
        interactive.vl_convert, "javascript_bundle", lambda *a, **k: made.append("library") or "b"
    )
    for _ in range(2):
        assert (fonts.css.__wrapped__(), interactive.library()) == ("a", "b")
    assert made == ["font", "library"]


# Guards the page against a script that would end before its end.
@pytest.mark.parametrize("text", ["a('</script>')", "a('<SCRIPT')", "a('<!--')", "a\r\nb"])
def test_script_that_cannot_stand_in_a_page(monkeypatch, text):
    monkeypatch.setattr(interactive, "library", lambda: text)
    with pytest.raises(ValueError, match="cannot stand inside a page"):
        interactive.scripts()


# Guards files beside the page: those that it links to are there, and nothing else is.
def test_files(drawn, tree):
    linked = {e.attributes["href"] for e in tree.all("a") if not e.attributes["href"].startswith("#")}
    assert linked == {path.name for path in drawn.iterdir()} - {"report.html"}
    assert {name.rsplit(".")[0] for name in linked} == CHARTS
    for anchor in tree.all("a"):
        if anchor.attributes["href"].startswith("#"):
            assert sum(e.attributes.get("id") == anchor.attributes["href"][1:] for e in tree.all()) == 1


# Guards SVG files: well-formed, on white, with their font inside and nothing to load.
def test_svg_files_stand_alone(drawn):
    for path in drawn.glob("*.svg"):
        svg = path.read_text(encoding="utf-8")
        ET.fromstring(svg)
        loads = re.sub(r'xmlns(:\w+)?="[^"]*"', "", svg)
        assert not re.search(r"https?://", loads)
        assert svg.count("@font-face") == 2
        assert 'fill="#ffffff"' in svg.replace("white", "#ffffff")[:60000]


# Guards that every chart has a table behind it, a caption, and words in place of each picture.
def test_every_chart_has_a_table_and_words(tree):
    figures = list(tree.all("figure"))
    assert len(figures) == len(CHARTS)
    for figure in figures:
        assert len(figure.attributes["aria-label"]) > 100
        pictures = list(figure.all("svg"))
        assert pictures
        for picture in pictures:
            assert picture.attributes["role"] == "img"
            assert len(picture.attributes["aria-label"]) > 40
        (caption,) = figure.all("figcaption")
        assert "gcc 12.2.0" in caption.words()
        tables = [t for d in figure.all("details") for t in d.all("table")]
        assert len(tables) == 1
        heads = len(list(tables[0].all("th")))
        rows = [r for body in tables[0].all("tbody") for r in body.all("tr")]
        assert rows and all(len(list(row.all("td"))) == heads for row in rows)


# Guards ids: pictures on one page share one name space.
def test_ids_are_unique(tree):
    ids = [e.attributes["id"] for e in tree.all() if "id" in e.attributes]
    assert len(ids) == len(set(ids))
    used = {
        m for e in tree.all() for v in e.attributes.values() if v for m in re.findall(r"url\(#([^)]+)\)", v)
    }
    assert used <= set(ids)


# Guards the summary: before the first chart, in words, with numbers.
def test_summary_comes_first(text):
    head = text[: text.index("<figure")]
    for subject in ("Growth", "ISA levels", "Algorithms", "Patterns", "Stages", "Limits"):
        assert f"<dt>{subject}</dt>" in head
    assert re.search(r"n\^2\.00 \[\d\.\d\d, \d\.\d\d\]", head)


# Guards dark mode: each colour of the charts' ink is turned over by the style sheet, under its exact name.
def test_dark_mode_reaches_the_charts(text):
    style = text[text.index("<style>") : text.index("</style>")]
    assert "prefers-color-scheme: dark" in style and "@media print" in style
    charts = text[text.index("<figure") :]
    turned = set(re.findall(r'\[(?:fill|stroke)="(#\w+)"\]', style))
    ours = {"#0072B2", "#D55E00", "#009E73", "#CC79A7", "#101418"}
    stages = {"#56B4E9", "#999999", "#C9B8E8", "#E69F00", "#F0E442"}
    drawn = set(re.findall(r'(?:fill|stroke)="(#\w+)"', charts))
    assert drawn <= turned | ours | stages


def strings(value):
    """All texts in a JSON document."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from strings(inner)


# Guards the page against its input: markup in a result file stays text.
def test_markup_is_text(run, tmp_path):
    evil = "<script>alert(1)</script>&\"'<b>"
    rows = synthetic.power_law(1.0, 2.0)
    rows[0] |= {"error_occurred": True, "error_message": evil}
    rows += [row | {"id": row["id"] + "/" + evil, "pattern": evil} for row in synthetic.power_law(3.0, 2.0)]
    file = synthetic.write(tmp_path / "r.json", rows, host=evil, cpu_brand=evil)
    done = run(file, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    made = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    tree = Tree(made).root
    assert not [e for e in tree.all("b")]
    told, *scripts = tree.all("script")
    assert "alert(1)" not in "".join(script.text for script in scripts)
    assert evil in {e.attributes.get("data-value") for e in tree.all("button")} | set(
        strings(json.loads(told.text))
    )
    assert "alert(1)" in tree.words()


# Guards rows without a chart: they are still in the report.
def test_rows_without_a_chart(tmp_path, run):
    rows = [synthetic.row("dense", "flash", "avx2", 128, [5.0] * 7), {"id": "BM_other", "real_time": 3.0}]
    file = synthetic.write(tmp_path / "r.json", rows, roofline=None)
    done = run(file, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert "no chart" in done.stdout
    tree = Tree((tmp_path / "out" / "report.html").read_text(encoding="utf-8")).root
    assert not list(tree.all("figure"))
    words = tree.words()
    assert "BM_other" in words and "Without a chart" in words


# Guards the table of the machine: nested fields by name, lists in one line.
def test_context_table(tmp_path):
    changes = {"machine": {"fields": {"vendor": "v"}}, "load_avg": [0.5, 1.0], "boost": None, "smt": True}
    run = load_run(synthetic.write(tmp_path / "r.json", synthetic.power_law(1.0, 2.0), **changes))
    rows = dict(page.context_table(run).rows)
    assert rows["machine.fields.vendor"] == "v"
    assert rows["load_avg"] == "0.5, 1"
    assert rows["smt"] == "yes"
    assert rows["caches[0].size"] == "49152"
    assert "boost" not in rows


# Guards what the footer says: of times and of what is fitted, which rest on different samples.
def test_footer(tmp_path):
    run = load_run(synthetic.write(tmp_path / "r.json", synthetic.power_law(1.0, 2.0)))
    text = page.render([run], [], [], [], [], []).decode()
    footer = text[text.index("<footer>") : text.index("</footer>")]
    assert "Times are medians" in footer and figures.FASTEST in footer
