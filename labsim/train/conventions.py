"""What other systems print about a draft, in this project's terms.

Three accuracies by depth are easily confused. With c_k(t) = 1 if the draft's first choice at depth k of the chain that
starts at t is the target's:

    marginal      m_k = mean of c_k                     chains that are already broken included
    survival      s_k = mean of c_1 c_2 ... c_k         joint; what serving engines count per position
    conditional   s_k / s_(k-1)

and acceptance length is 1 + s_1 + s_2 + ... : accepted tokens per step and the target's own one. A product of marginals
is not a survival: it drops the correlation of a chain's guesses, and is usually too low.

Nor do all mean the same places t. A trainer counts chains from every place of its answers; an engine starts one where
the last one ended, most often behind a rejected guess. Those are the harder places, so `vLLM` prints less than a sum
over all places (`labsim.train.ttt.estimate` walks as an engine does).

    system, figure                            what it is                                the target's token counted
    EAGLE getkacc                             survival of a self-fed chain of 5                 -
    EAGLE tau                                 tokens per cycle of a tree                        yes
    SpecForge, TorchSpec simulated_acc_len    m_1 + m_1 m_2 + ...                               no
    SpecForge, TorchSpec acc                  marginal                                          -
    speculators full_acc, cond_acc            survival, conditional                             -
    ModelOpt ar, specdec_bench                decoded acceptance length; conditional; joint     yes
    NeMo tau_sim, tau_real                    1 + sum of survival                               yes
    vLLM mean_acceptance_length, per_position 1 + accepted / drafts; survival                   yes

(Read in EAGLE cb7e084, SpecForge 0.2.0, TorchSpec 6f21829, speculators 0.9.0, Model-Optimizer a2fbac7, NeMo-Automodel
36044ad, vLLM ee4ceaa.)
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import isfinite
from operator import mul
from typing import Literal

Meaning = Literal["marginal", "survival", "conditional", "length", "length without the target's token", "tree length"]

FIGURES: dict[tuple[str, str], Meaning] = {
    ("eagle", "getkacc"): "survival",
    ("eagle", "tau"): "tree length",
    ("specforge", "simulated_acc_len"): "length without the target's token",
    ("specforge", "acc"): "marginal",
    ("torchspec", "simulated_acc_len"): "length without the target's token",
    ("torchspec", "acc"): "marginal",
    ("speculators", "full_acc"): "survival",
    ("speculators", "cond_acc"): "conditional",
    ("modelopt", "ar"): "length",
    ("modelopt", "conditional"): "conditional",
    ("modelopt", "joint"): "survival",
    ("nemo", "tau_sim"): "length",
    ("nemo", "tau_real"): "length",
    ("vllm", "mean_acceptance_length"): "length",
    ("vllm", "per_position"): "survival",
}


@dataclass(frozen=True)
class Converted:
    """A printed figure in this project's terms.

    Attributes:
        survival: by depth; None where a length alone does not tell it.
        acceptance_length: tokens per step, the target's own one included.
        exact: False where the figure does not determine these values.
        caveat: what to keep in mind when comparing.
    """

    survival: tuple[float, ...] | None
    acceptance_length: float
    exact: bool
    caveat: str


def convert(system: str, figure: str, values: float | Sequence[float]) -> Converted:
    """Read a figure that `system` printed: a length, or one share per depth.

    >>> convert("speculators", "cond_acc", [0.8, 0.5]).acceptance_length
    2.2
    >>> convert("specforge", "simulated_acc_len", 1.9).acceptance_length
    2.9

    Raises:
        ValueError: an unknown system or figure, shares outside 0..1, a survival that rises with depth, a length that
            its own definition forbids (below 1, or below 0 without the target's token).
    """
    meaning = meaning_of(system, figure)
    shares = (float(values),) if isinstance(values, int | float) else tuple(float(value) for value in values)
    name = f"{system} {figure}"
    if not shares or not all(map(isfinite, shares)):
        raise ValueError(f"{name} is {values!r}; right is a number or one per depth")
    if "length" in meaning:
        return converted_length(name, meaning, shares)
    if bad := [share for share in shares if not 0 <= share <= 1]:
        raise ValueError(f"{name} holds {bad[0]}; shares lie from 0 to 1")
    if meaning == "survival":
        if any(later > sooner for sooner, later in pairwise(shares)):
            raise ValueError(f"{name} rises with depth: {list(shares)}. A survival cannot; is it a marginal accuracy?")
        return Converted(shares, 1 + sum(shares), True, "exact for a chain")
    survival = tuple(accumulate(shares, mul))
    if meaning == "conditional":
        return Converted(survival, 1 + sum(survival), True, "exact for a chain")
    return Converted(
        survival,
        1 + sum(survival),
        False,
        "a product of marginals, which drops the correlation of a chain's guesses; usually too low",
    )


def converted_length(name: str, meaning: Meaning, values: tuple[float, ...]) -> Converted:
    """A single length."""
    if len(values) != 1:
        raise ValueError(f"{name} is one number, not {len(values)}")
    least = 0.0 if meaning == "length without the target's token" else 1.0
    if values[0] < least:
        reason = "it counts the target's own token, so it cannot lie below 1" if least else "it cannot lie below 0"
        raise ValueError(f"{name} is {values[0]}: {reason}")
    if meaning == "length":
        return Converted(None, values[0], True, "a length alone does not tell the survival")
    if meaning == "tree length":
        return Converted(None, values[0], False, "of a tree: a chain of the same draft is shorter")
    return Converted(
        None, 1 + values[0], False, "made of products of marginals, and without the target's token: one was added"
    )


def meaning_of(system: str, figure: str) -> Meaning:
    """ValueError for a system or figure that is not known."""
    found = FIGURES.get((system.lower(), figure.lower()))
    if found is None:
        known = [f"{one} {name}" for one, name in FIGURES]
        near = difflib.get_close_matches(f"{system} {figure}".lower(), known, 1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise ValueError(f"unknown figure {system!r} {figure!r}: {hint}(known: {', '.join(known)})")
    return found


def printed(
    system: str, figure: str, survival: Sequence[float], marginal: Sequence[float]
) -> float | tuple[float, ...]:
    """What `system` would print for a draft with these accuracies. ValueError as in `convert`."""
    meaning = meaning_of(system, figure)
    if meaning == "marginal":
        return tuple(marginal)
    if meaning == "survival":
        return tuple(survival)
    if meaning == "conditional":
        before = (1.0, *survival[:-1])
        return tuple(now / then if then else 0.0 for now, then in zip(survival, before, strict=True))
    if meaning == "length without the target's token":
        return sum(accumulate(marginal, mul))
    if meaning == "tree length":
        raise ValueError(f"{system} {figure} belongs to a tree; a chain's survival does not tell it")
    return 1 + sum(survival)
