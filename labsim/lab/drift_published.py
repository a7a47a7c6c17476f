"""Figures of the attention-drift paper (arXiv 2605.09992), as two summaries of it agree on; its text was not at hand.

Nothing here is measured by this course. `SIZES` are root mean squares: of the target's states that the draft reads, of
what `fc` makes of them, and of the state handed on at depths 1 and 8. `LENGTHS` are acceptance lengths of
Llama-3.1-8B drafts, before and after the change. `KEPT` is the share of the acceptance length that is left under noise.
"""

from __future__ import annotations

SIZES: dict[str, dict[str, float]] = {
    "Llama-3.1-8B": {"low": 0.56, "middle": 0.58, "high": 0.78, "after fc": 12.46, "depth 1": 3.92, "depth 8": 14.02},
    "Qwen3.5-35B": {"low": 0.03, "middle": 0.12, "high": 0.21, "after fc": 0.89, "depth 1": 3.47, "depth 8": 5.92},
    "gpt-oss-120B": {"low": 3, "middle": 163, "high": 1455, "after fc": 583, "depth 1": 497, "depth 8": 647},
}

LENGTHS: dict[str, tuple[float, float]] = {
    "own template": (2.74, 2.73),
    "own, no BoS": (2.28, 2.65),
    "no template": (1.69, 2.61),
    "neither": (1.34, 2.59),
}

KEPT: dict[str, dict[str, tuple[float, ...]]] = {
    "EAGLE-3": {"state": (0.82, 0.05, 0.0), "embedding": (0.99, 0.86, 0.64)},
    "EAGLE-3.1": {"state": (0.99, 0.58, 0.22), "embedding": (0.98, 0.93, 0.75)},
}
PINNED: dict[str, tuple[float, float]] = {"EAGLE-3": (3.06, 1.33), "EAGLE-3.1": (3.15, 2.09)}
