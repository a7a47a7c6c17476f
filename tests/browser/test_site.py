"""The site in a real browser with the network cut off: pages, sliders, search, light and dark, a phone."""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from labsim.lab.assets import copy
from labsim.lab.site.build import MATHJAX, Site, build_site
from labsim.lab.site.look import SCREENS, blocked, look
from tests.lab.site_course import course

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

LIGHT, DARK, PHONE = SCREENS
RING, ALPHA = "notebooks/10_ring_attention.html", "notebooks/01_alpha_and_k.html"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    folder = tmp_path_factory.mktemp("site")
    return build_site(course(folder), folder / "site", sources=folder / "sources")


@pytest.fixture
def opened(browser: Browser, site: Site) -> Iterator[Page]:
    """A page in which nothing outside the site is loaded; at the end nothing may have gone wrong in it."""
    with blocked(browser, LIGHT, site.out) as (context, faults):
        yield context.new_page()
        assert faults() == []


def address(site: Site, name: str) -> str:
    return (site.out / name).as_uri()


def test_the_site_keeps_to_every_rule_and_only_run_notebooks_are_pages(site: Site) -> None:
    assert site.problems == ()
    assert {ALPHA, RING, "index.html", "docs/results.html", "terminal.html", "search.html"} <= set(site.pages)
    assert sum(name.startswith("notebooks/") for name in site.pages) == 2


def test_pages_are_quiet_readable_and_fit_a_phone(browser: Browser, site: Site) -> None:
    assert look(browser, site.out, [ALPHA, RING]) == []
    assert look(browser, site.out, ["index.html", "docs/glossary.html", "docs/results.html"], [DARK, PHONE]) == []


FAULTS = {
    "wide": ('<div style="width:500px">x</div>', "is 508 pixels wide, 390 allowed; too wide: body > div"),
    "faint": ('<p style="color:#999">grey</p>', "contrast 2.85, 4.5 wanted: #999999 on #ffffff, body > p, 'grey'"),
    "faint in a fold": ("<details><p style='opacity:.4'>x</p></details>", "contrast 2.85, 4.5 wanted"),
    "faint in a drawing": ('<svg><text y="20" fill="#aaa">x</text></svg>', "contrast 2.32"),
    "loud": ("<script>console.error('oh')</script>", "console: oh"),
    "broken": ("<script>nothing.there</script>", "a script failed: nothing is not defined"),
    "elsewhere": ("<script src='https://cdn.example/x.js'></script>", "asks for https://cdn.example/x.js"),
    "formula": ("<div class='math'>\\\\[x^2\\\\]</div>", "1 formulas are not typeset"),
    "undrawn": ("<div class='labsim-standalone'></div>", "a widget is not drawn"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_seen(browser: Browser, tmp_path: Path, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("labsim.lab.site.look.DRAWN_MS", 500)
    body, told = FAULTS[fault]
    page = '<!doctype html><meta name="viewport" content="width=device-width"><body>{}</body>'
    (tmp_path / "good.html").write_text(page.format("<p>black on white</p>"))
    (tmp_path / "bad.html").write_text(page.format(body))
    found = look(browser, tmp_path, ["good.html", "bad.html"], [PHONE])
    assert found and all(one.startswith("bad.html (phone): ") for one in found)
    assert told in "\n".join(found)


def test_formulas_are_typeset_by_what_the_site_carries(browser: Browser, tmp_path: Path) -> None:
    script = f'<script src="{copy("mathjax", tmp_path)}/{MATHJAX}"></script>'
    (tmp_path / "page.html").write_text(f"<!doctype html>{script}<body><div class='math'>\\[\\log e^x\\]</div></body>")
    assert look(browser, tmp_path, ["page.html"], [LIGHT]) == []


@pytest.mark.parametrize("name", [ALPHA, RING])
def test_a_slider_moves_the_drawing(opened: Page, site: Site, name: str) -> None:
    opened.goto(address(site, name))
    explorer = opened.locator(".labsim-explorer").first
    drawing, sentence = explorer.locator("svg.labsim-chart"), explorer.locator(".labsim-readout")
    before = drawing.inner_html(), sentence.inner_text()
    explorer.locator("input[type=range]").first.press("ArrowLeft")
    expect(sentence).not_to_have_text(before[1])
    assert drawing.inner_html() != before[0]


def test_dark_and_light_hold_for_explorers_and_figures_stay_on_white(opened: Page, site: Site) -> None:
    opened.goto(address(site, ALPHA))

    def background(place: str) -> str:
        return opened.locator(place).first.evaluate("one => getComputedStyle(one).backgroundColor")

    white = "rgb(255, 255, 255)"
    assert [background(place) for place in (".labsim-explorer", "article img")] == [white, white]
    toggle = opened.locator(".theme-toggle-content button")
    toggle.click()  # from the system's choice, light here, to the other one
    expect(opened.locator("body")).to_have_attribute("data-theme", "dark")
    assert background(".labsim-explorer") == background("body") != white
    assert background("article img") == white
    opened.reload()
    expect(opened.locator("body")).to_have_attribute("data-theme", "dark")


def test_hints_and_solution_are_there_and_closed(opened: Page, site: Site) -> None:
    opened.goto(address(site, ALPHA))
    folds = opened.locator(".labsim-folds").first
    expect(folds.locator("summary")).to_have_count(5)
    answer = folds.get_by_text("sum(alpha**i for i in range(k + 1))")
    expect(answer).to_be_hidden()
    folds.get_by_text("One right answer").click()
    expect(answer).to_be_visible()
    expect(folds.get_by_text("Right: 01.1.")).to_be_visible()


def test_search_finds_zigzag_in_a_plain_directory(opened: Page, site: Site) -> None:
    opened.goto(address(site, "index.html"))
    opened.get_by_placeholder("Search").fill("zigzag")
    opened.keyboard.press("Enter")
    opened.locator("#search-results a", has_text="How do tokens meet?").first.click()
    expect(opened).to_have_url(re.compile("10_ring_attention.html"))


def test_search_over_http_shows_where_the_word_stands(browser: Browser, site: Site) -> None:
    handler = functools.partial(Quiet, directory=str(site.out))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        page = browser.new_page()
        errors: list[str] = []
        page.on("response", lambda answer: errors.append(f"{answer.status} {answer.url}") if not answer.ok else None)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(f"http://127.0.0.1:{server.server_port}/search.html?q=zigzag")
        expect(page.locator("#search-results .context", has_text="zigzag").first).to_be_visible()
        page.close()
        server.shutdown()
    assert errors == []


class Quiet(SimpleHTTPRequestHandler):
    """Serves without a line per request."""

    def log_message(self, *arguments: object) -> None:
        pass
