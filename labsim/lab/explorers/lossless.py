"""Explorer of notebook 03: three words, and what comes out after a rejection."""

from __future__ import annotations

from ..exercises.by_hand import acceptance, emitted, residual
from ..explorer import Explorer, Frame, Series, Slider, explore

WORDS = ("yes", "no", "maybe")
TARGET, DRAFT = (0.6, 0.3, 0.1), (0.2, 0.2, 0.6)
LIKENESS = (0.0, 0.2, 0.4, 0.6, 0.8, 0.9)
SOURCES = ("the residual", "the target p", "the draft q")


def three_words() -> Explorer:
    """Target, draft and what comes out; sliders for how alike they are and for the source of the corrected word."""
    return explore(
        _frame,
        {
            "likeness": Slider("draft mixed with target", LIKENESS),
            "redraw": Slider("after a rejection, draw from", SOURCES),
        },
        title="What comes out?",
        x_label="word",
        y_label="probability",
        y_range=(0.0, 0.8),
    )


def _frame(likeness: float, redraw: str) -> Frame:
    p = list(TARGET)
    q = [likeness * a + (1 - likeness) * b for a, b in zip(TARGET, DRAFT, strict=True)]
    source = {"the residual": residual(p, q), "the target p": p, "the draft q": q}[redraw]
    out = emitted(p, q, source)
    error = max(abs(a - b) for a, b in zip(out, p, strict=True))
    verdict = (
        "exactly the target's distribution" if error < 1e-12 else f"off by up to {error:.3f}: the text has changed"
    )
    text = (
        f"{acceptance(p, q):.0%} of the drafted words are accepted. Corrected ones drawn from {redraw}: what comes out "
        f"is {verdict}."
    )
    return Frame(
        [
            Series("target p", WORDS, p, kind="bar"),
            Series("draft q", WORDS, q, kind="bar"),
            Series("what comes out", WORDS, out, kind="bar"),
        ],
        text=text,
        alt=f"Three bars for each of three words. {text}",
    )
