"""What only a browser sees of a page: headless Chromium opens it with the network cut off.

`look` opens each page of a folder as a reader does, from the file, in light and in dark on a desktop and on a phone
390 pixels wide, with every fold open, and returns one sentence per broken rule:

- the page asks for nothing outside its folder, and writes no error to the console;
- every widget is drawn, every formula typeset;
- on the phone nothing but its own scrolling parts is wider than the screen;
- every text stands out from its background: a contrast of 4.5, of 3 where it is large (WCAG 2.2, AA).

Colours are measured as rendered: `look.js` composes each text's colour and what lies behind it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

PHONE = 390  # CSS pixels
DRAWN_MS = 20_000
_SCRIPT = Path(__file__).with_name("look.js")


@dataclass(frozen=True)
class Screen:
    """How a page is looked at."""

    name: str
    width: int
    height: int
    scheme: str


SCREENS = (
    Screen("light", 1280, 900, "light"),
    Screen("dark", 1280, 900, "dark"),
    Screen("phone", PHONE, 844, "light"),
)


def look(browser: Browser, folder: Path, pages: Iterable[str], screens: Iterable[Screen] = SCREENS) -> list[str]:
    """Open these pages of `folder` on these screens; the broken rules, a sentence each."""
    found: list[str] = []
    for screen in screens:
        with blocked(browser, screen, folder) as (context, faults):
            for name in pages:
                page = context.new_page()
                page.goto((folder / name).resolve().as_uri())
                seen = [*settled(page, screen), *faults()]
                found += [f"{name} ({screen.name}): {what}" for what in seen]
                page.close()
    return found


@contextmanager
def blocked(browser: Browser, screen: Screen, folder: Path) -> Iterator[tuple[BrowserContext, Any]]:
    """A context on that screen in which nothing outside `folder` is ever loaded. Its second part returns what was
    asked for in vain and what went wrong since it was called last."""
    context = browser.new_context(
        viewport={"width": screen.width, "height": screen.height}, color_scheme=screen.scheme, offline=True
    )
    context.set_default_timeout(60_000)
    inside = folder.resolve().as_uri() + "/"
    faults: list[str] = []

    def only_inside(route: Any) -> None:
        address = route.request.url
        if address.startswith((inside, "data:", "blob:")):
            route.continue_()
        else:
            faults.append(f"asks for {address[:120]}")
            route.abort()

    def listen(page: Page) -> None:
        page.on("pageerror", lambda error: faults.append(f"a script failed: {error}"))
        page.on("console", lambda told: faults.append(f"console: {told.text}") if told.type == "error" else None)

    def since_last() -> list[str]:
        told, faults[:] = list(dict.fromkeys(faults)), []
        return told

    context.route("**/*", only_inside)
    context.on("page", listen)
    try:
        yield context, since_last
    finally:
        context.close()


def settled(page: Page, screen: Screen) -> list[str]:
    """What is wrong with an open page, when its widgets are drawn and its mathematics is set."""
    page.evaluate("document.querySelectorAll('details').forEach((fold) => (fold.open = true))")
    undrawn = _undrawn(page)
    page.evaluate("() => window.MathJax?.startup?.promise?.then(() => null)")
    page.evaluate("document.getAnimations().forEach((one) => one.finish())")  # folds fade in
    script = _SCRIPT.read_text(encoding="utf-8")
    found = ["a widget is not drawn"] if undrawn else []
    if unset := page.locator(".math:not(:has(mjx-container))").count():
        found.append(f"{unset} formulas are not typeset")
    if screen.width <= PHONE:
        wide = page.evaluate(f"{script}; widest()")
        if wide["width"] > screen.width:
            found.append(
                f"is {wide['width']} pixels wide, {screen.width} allowed; too wide: {', '.join(wide['parts'])}"
            )
    for fault in page.evaluate(f"{script}; faint()"):
        found.append(
            f"contrast {fault['ratio']:.2f}, {fault['wanted']} wanted: {fault['colour']} on {fault['behind']}, "
            f"{fault['where']}, {fault['text']!r}"
        )
    return found


def _undrawn(page: Page) -> bool:
    """Whether a widget is still not drawn after a while that is long even on a busy machine."""
    from playwright.sync_api import TimeoutError as Late

    drawn = "[...document.querySelectorAll('.labsim-standalone')].every((one) => one.dataset.ready === 'yes')"
    try:
        page.wait_for_function(drawn, timeout=DRAWN_MS)
    except Late:
        return True
    return False


def _measured(page: Page, what: str) -> Any:
    return page.evaluate(f"(() => {{ {_SCRIPT.read_text(encoding='utf-8')}\nreturn {what}(); }})()")
