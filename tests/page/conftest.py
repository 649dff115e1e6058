"""A report of two machines, and Chromium to look at it with."""

import contextlib
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[0:0] = [str(ROOT / "scripts"), str(ROOT / "tests" / "report")]

import synthetic  # noqa: E402
from attnscope_py import command  # noqa: E402
from testrunner.suites import chromium  # noqa: E402


@pytest.fixture(scope="session")
def report(tmp_path_factory):
    """The page's address. Of two machines, so that all there is to show and hide is there."""
    place = tmp_path_factory.mktemp("page")

    def rows(speed, isas, seed):
        """With what is drawn another way: disturbed rows, a preset, counters, a long pattern."""
        made = synthetic.sweep(speed, isas, seed, lengths=(128, 512, 2048, 8192))
        for row in made:
            row["cpu_share"] = 0.6 if row["keys"] == 512 else 1.0
        made[0]["counters"] = {"instructions": 5e6, "ipc": 2.5}
        for row in made[-1:]:
            name = row["id"].replace("/h1/kv1/", "/h32/kv8/")
            made.append(
                row | {"id": name, "name": name, "heads": 32, "kv_heads": 8, "presets": "llama-3-8b:prefill"}
            )
        return made

    files = [
        synthetic.write(
            place / f"{host}.json",
            made := rows(speed, isas, seed),
            host=host,
            checksums_differ=[{"id": made[0]["id"], "with": made[1]["id"]}],
        )
        for seed, (host, speed, isas) in enumerate(
            (("zebra", 1.0, ("scalar", "avx2")), ("ant", 0.3, ("avx2",)))
        )
    ]
    command.main([*files, "--out", str(place / "report")])
    return (place / "report" / "report.html").as_uri()


@pytest.fixture(scope="session")
def browser():
    program = chromium()
    if not program:
        pytest.skip("no Chromium here: scripts/setup.sh browser installs it")
    from playwright import sync_api

    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program)
        yield started
        started.close()


@contextlib.contextmanager
def visits(browser, report):
    """Opens the report in windows of their own; at the end nothing may have been loaded or complained of."""
    contexts, said, asked = [], [], []

    def open_page(width=1400, **options):
        context = browser.new_context(viewport={"width": width, "height": 900}, **options)
        context.set_default_timeout(60_000)  # against hanging; a loaded machine draws slowly
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: said.append(f"error: {error}"))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(report)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert said == []
    loaded = [url for url in asked if not url.startswith("data:")]
    assert loaded == [report] * len(contexts)


@pytest.fixture
def visit(browser, report):
    with visits(browser, report) as open_page:
        yield open_page


def draw_all(page):
    """Scrolls by every chart, so that the script draws it."""
    for plot in page.locator(".plot").all():
        plot.scroll_into_view_if_needed()
    for plot in page.locator(".plot").all():
        page.locator(f"#{plot.get_attribute('id')}[data-live]").wait_for()
    page.evaluate("scrollTo(0, 0)")
    return page


@pytest.fixture
def live(visit):
    """A window in which every chart is drawn by the script, to hide series in."""
    return draw_all(visit())


@pytest.fixture(scope="module")
def drawn(browser, report):
    """The same once, for all tests that only look at it."""
    with visits(browser, report) as open_page:
        yield draw_all(open_page())


@pytest.fixture
def look(visit, drawn):
    """The page at a width and in a colour scheme, drawn by the script or as still pictures."""

    def at(script, width=1400, scheme="light", media="screen"):
        if script:
            drawn.set_viewport_size({"width": width, "height": 900})
            drawn.emulate_media(color_scheme=scheme, media=media)
            return drawn
        return visit(width, color_scheme=scheme, java_script_enabled=False)

    return at
