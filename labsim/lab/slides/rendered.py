"""What only a browser shows of a deck: whether each slide fits, whether its text can be read, whether it starts clean.

Each slide is brought up with all its fragments, at 1280 x 720. Overflow is what reaches below or beside the slide, or
is cut by a box inside it. Contrast (WCAG 2 AA, as rendered) and the names of pictures and controls are judged by
axe-core, the checker that browsers' own tools use.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .. import assets
from .chromium import HEIGHT, WIDTH, opened

if TYPE_CHECKING:
    from playwright.sync_api import Browser

RULES = (
    "color-contrast",
    "image-alt",
    "role-img-alt",
    "svg-img-alt",
    "label",
    "select-name",
    "button-name",
    "link-name",
)

_SLIDES = "() => Reveal.getSlides().map((slide) => Reveal.getIndices(slide)).map(({h, v}) => [h, v || 0])"
_SHOW = "([h, v]) => Reveal.slide(h, v, 1000)"
_MEASURE = """([width, height]) => {
  const slide = Reveal.getCurrentSlide(), said = [];
  if (slide.scrollHeight > height) said.push(`is ${slide.scrollHeight} px high; right: ${height} at most`);
  if (slide.scrollWidth > width) said.push(`is ${slide.scrollWidth} px wide; right: ${width} at most`);
  for (const box of slide.querySelectorAll("*")) {
    if (box.closest("details.code, .notes, mjx-container, svg, .celltag_preview") || box.clientHeight < 2) continue;
    const style = getComputedStyle(box), name = box.className || box.localName;
    const cut = (part, flow) => !["visible", "clip"].includes(flow) && box[`scroll${part}`] > box[`client${part}`] + 1;
    if (cut("Width", style.overflowX)) said.push(`${name}: ${box.scrollWidth} px of width in ${box.clientWidth}`);
    if (cut("Height", style.overflowY)) said.push(`${name}: ${box.scrollHeight} px of height in ${box.clientHeight}`);
  }
  const words = slide.querySelector("h1, h2, h3, h4, p")?.textContent || "";
  return {said, title: words.slice(0, 60), size: Number(slide.querySelector(".page")?.style.zoom || 1)};
}"""
_AXE = """async (rules) => {
  const found = await axe.run(Reveal.getCurrentSlide(), {runOnly: rules, resultTypes: ["violations"]});
  return found.violations.flatMap(({id, nodes}) => nodes.map((node) => [id, node.html.slice(0, 90),
    [...node.any, ...node.all, ...node.none].map((check) => check.message).join("; ")]));
}"""


@dataclass(frozen=True)
class Finding:
    """A gate that a deck does not pass. `slide` counts from 1 as the deck shows it, 0 is the deck as a whole."""

    deck: str
    slide: int
    gate: str
    text: str

    def __str__(self) -> str:
        where = f"{self.deck}, slide {self.slide}" if self.slide else self.deck
        return f"{where}: {self.gate}: {self.text}"


@dataclass(frozen=True)
class Rendered:
    """What a deck showed: its number of slides, the size of its smallest page (1 is full size), its faults."""

    slides: int
    smallest: float
    findings: tuple[Finding, ...]


def look_at(browser: Browser, deck: Path, *, pictures: Path | None = None) -> Rendered:
    """Go through a deck slide by slide; with `pictures`, also keep one of each in that folder.

    Raises DeckBroken when the deck does not come up.
    """
    found: list[Finding] = []
    sizes = [1.0]
    with opened(browser, deck) as (page, faults):
        page.add_script_tag(content=(assets.fetch("axe-core") / "axe.min.js").read_text(encoding="utf-8"))
        slides = page.evaluate(_SLIDES) if not faults else []
        for number, place in enumerate(slides, start=1):
            page.evaluate(_SHOW, place)
            measured = page.evaluate(_MEASURE, [WIDTH, HEIGHT])
            sizes.append(measured["size"])
            title = f'"{measured["title"]}" '
            found += [Finding(deck.name, number, "overflow", title + one) for one in measured["said"]]
            for rule, html, message in page.evaluate(_AXE, list(RULES)):
                found.append(Finding(deck.name, number, rule, f"{html} ({message})"))
            if pictures is not None:
                page.screenshot(path=pictures / f"{deck.name.partition('.')[0]}-{number:02}.png")
        found += [Finding(deck.name, 0, "starts clean", fault) for fault in dict.fromkeys(faults)]
    return Rendered(len(slides), min(sizes), tuple(found))
