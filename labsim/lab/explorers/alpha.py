"""Explorers of notebook 01: what alpha buys, and how sure a log is of it."""

from __future__ import annotations

from ...sim.intervals import draft_acceptance_interval, survival_intervals
from ...sim.speedup import breakeven_draft_acceptance_rate, speedup, tokens_per_step
from ..explorer import Explorer, Frame, Reference, Series, Slider, explore

ALPHAS = tuple(i / 20 for i in range(21))

# Survival at K = 3 measured on Llama-3.1-8B, H100, vLLM 0.10.1 (data/calibration/accept_stats_llama31_8b_H100.csv).
SHAPES = {
    "EAGLE, GSM8K": (0.675, 0.437, 0.279),
    "EAGLE, chat": (0.622, 0.381, 0.252),
    "n-gram, chat": (0.160, 0.128, 0.107),
}


def what_alpha_buys() -> Explorer:
    """Speedup against alpha, read in both ways; sliders for K and the overhead of a speculative step."""
    return explore(
        _alpha_frame,
        {
            "k": Slider("draft length K", (1, 2, 3, 4, 5, 6, 8), value=5, unit="tokens"),
            "overhead": Slider("overhead of a step", (0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1.0), value=0.1),
        },
        title="What alpha buys",
        x_label="alpha",
        y_label="speedup (x)",
        reference=Reference(1.0, "no gain"),
    )


def _alpha_frame(k: int, overhead: float) -> Frame:
    drafted = [speedup(tokens_per_step(a, k), overhead) for a in ALPHAS]
    per_token = [speedup(tokens_per_step(a, k, per_token=True), overhead) for a in ALPHAS]
    breakeven = breakeven_draft_acceptance_rate(overhead, k)
    at = ALPHAS.index(0.7)
    text = (
        f"K = {k}, overhead {overhead:g}: alpha 0.7 means {drafted[at]:.2f}x if it is accepted/drafted and "
        f"{per_token[at]:.2f}x if it is per token. Break-even accepted/drafted: {breakeven:.3f}."
    )
    return Frame(
        [Series("accepted/drafted", ALPHAS, drafted), Series("per token", ALPHAS, per_token)],
        text=text,
        alt=f"Two rising curves of speedup over alpha. {text}",
        mark=(breakeven, "break-even, accepted/drafted") if breakeven <= 1 else None,
    )


def how_sure_is_a_log() -> Explorer:
    """Survival by position with its interval; sliders for the number of drafts seen and the kind of draft."""
    return explore(
        _log_frame,
        {
            "drafts": Slider("drafts in the log", (15, 50, 100, 300, 1000, 3000, 10000), value=100),
            "shape": Slider("measured on", tuple(SHAPES), value="EAGLE, chat"),
        },
        title="How sure is a log?",
        x_label="position in the draft",
        y_label="survival",
        y_range=(0.0, 1.0),
    )


def _log_frame(drafts: int, shape: str) -> Frame:
    survival = SHAPES[shape]
    ends = survival_intervals(survival, drafts)
    alpha = draft_acceptance_interval(survival, drafts)
    text = (
        f"{shape}, {drafts} drafts: alpha (accepted/drafted) {sum(survival) / len(survival):.3f}, "
        f"95 % interval {alpha.low:.3f} to {alpha.high:.3f}."
    )
    positions = [str(i) for i in range(1, len(survival) + 1)]
    bars = Series("survival, 95 %", positions, survival, [e.low for e in ends], [e.high for e in ends], kind="bar")
    return Frame([bars], text=text, alt=f"Bars of survival that fall with position. {text}")
