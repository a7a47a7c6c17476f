"""The behavioural check: draft on the target's own greedy text, as configured and in every other wiring.

A wiring is named as the fault when its chains are longer than the configured ones on the same places by more than
chance and more than a trifle:

    gain = mean over places of (accepted by the variant - accepted as configured)
    fault  if  the 99 % bootstrap interval of the gain, drawn over texts, lies above 0
           and gain > max(0.05, 10 % of what the configured draft accepts)

Texts are drawn, not places: places of one text are not independent. Several wirings may be better than a broken one
(each repairs a little); the best one is the finding.

A draft is as good as none where its first guesses are hardly ever right, or not clearly more often than by always
saying the one token that is commonest in these texts.

Shapes: P places, D texts, N draft vocabulary, V target vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from ..drafts.eagle import EagleDraft
from ..drafts.eagle_dialects import DraftConfig
from ..models.load import Target
from ..sim.intervals import Interval, wilson
from ..train.ttt.data import Document
from .check import Check, Told, fault, ok, unchecked, untold, warning
from .curve import Curve, Texts, commonest, greedy_texts, measure, read_texts
from .held_out import held_out_checks
from .on_disk import OnDisk
from .served import Served, served
from .target import TargetFacts
from .tensors import OWN_EMBEDDING
from .variants import Variant, variants

DRAWS, CONFIDENCE = 2000, 0.99
LEAST_GAIN, LEAST_SHARE = 0.05, 0.05
NOTHING = 0.05  # of the first guesses: below it a draft is as good as none
ROWS_LOOKED_AT = 256
SAME_EMBEDDING = 0.01  # relative: rounding to half precision is 3e-4


@dataclass(frozen=True)
class Tried:
    """One wiring on the same places as the configured one."""

    variant: Variant
    curve: Curve
    gain: float
    interval: Interval


@dataclass(frozen=True)
class Behaviour:
    """What running the target showed.

    Attributes:
        configured: None where the draft cannot be run at all; `checks` says why.
        tried: other wirings, the best one first.
    """

    configured: Curve | None
    tried: tuple[Tried, ...]
    checks: tuple[Check, ...]
    texts: int = 0


def behave(
    disk: OnDisk,
    config: DraftConfig,
    facts: TargetFacts,
    target: Target,
    texts: Sequence[Document] | None = None,
    told: Told = untold,
) -> Behaviour:
    """Run it. A draft that cannot be run is not an error: the static checks have named why."""
    try:
        draft = served(disk, config, target)
    except ValueError as error:
        return Behaviour(None, (), (unchecked("acceptance", f"it cannot be run: {error}"),))
    numbers = [*draft.draft.parameters(), *draft.draft.buffers()]
    if not all(bool(torch.isfinite(tensor).all()) for tensor in numbers):
        return Behaviour(None, (), (unchecked("acceptance", "it cannot be run: weights that are not numbers"),))
    others = list(variants(draft, disk, facts))
    layers = {layer for one in (draft, *(other.served for other in others)) for layer in one.layers}
    texts = greedy_texts(target, told=told) if texts is None else texts
    read = read_texts(target, texts, sorted(layers))
    configured, tried = measure(draft, read), []
    for variant in others:
        told("other wirings", len(tried), len(others))
        tried.append(compare(variant, configured, read))
    tried.sort(key=lambda one: one.gain, reverse=True)
    checks = [
        acceptance_check(configured, tried, commonest(read)),
        *held_out_checks(disk, draft, target, texts, read),
        *row_checks(draft, target),
        *embedding_checks(disk, target),
    ]
    return Behaviour(configured, tuple(tried), tuple(checks), len(texts))


def compare(variant: Variant, configured: Curve, read: Texts) -> Tried:
    """Gain per place, its interval over texts."""
    curve = measure(variant.served, read)
    difference_P = (curve.runs_P - configured.runs_P).double()
    texts = int(read.text_P.max()) + 1
    sums_D = torch.zeros(texts, dtype=torch.float64).index_add(0, read.text_P, difference_P).numpy()
    places_D = torch.bincount(read.text_P, minlength=texts).double().numpy()
    draws = np.random.default_rng(0).integers(0, texts, (DRAWS, texts))
    gains = sums_D[draws].sum(1) / np.maximum(1, places_D[draws].sum(1))
    tail = 50 * (1 - CONFIDENCE)
    low, high = np.percentile(gains, [tail, 100 - tail])
    return Tried(variant, curve, float(difference_P.mean()), Interval(float(low), float(high)))


def clearly_better(tried: Tried, configured: Curve) -> bool:
    return tried.interval.low > 0 and tried.gain > max(LEAST_GAIN, LEAST_SHARE * configured.accepted)


def acceptance_check(configured: Curve, tried: Sequence[Tried], constant: float) -> Check:
    """The best other wiring, if it is clearly better; else how much is accepted.

    `constant` is the share of first guesses that one token said everywhere would get right.
    """
    depths = " ".join(f"{share:.2f}" for share in configured.survival)
    if tried and clearly_better(tried[0], configured):
        best = tried[0]
        better = " ".join(f"{share:.2f}" for share in best.curve.survival)
        return fault(
            best.variant.name,
            f"{best.variant.says}, it accepts {best.curve.accepted:.2f} drafted tokens per chain, as configured "
            f"{configured.accepted:.2f} (gain {best.gain:.2f}, 99 % interval {best.interval.low:.2f} to "
            f"{best.interval.high:.2f}; by depth {better} against {depths})",
            best.variant.symptom,
            best.variant.remedy,
        )
    first = configured.survival[0]
    places = len(configured.runs_P)
    interval = wilson(round(first * places), places, CONFIDENCE)
    if interval.high < NOTHING or interval.low <= constant:
        return fault(
            "acceptance: nothing",
            f"{first:.1%} of the first guesses are right, where one token said everywhere has {constant:.1%}; none of "
            f"{len(tried)} other wirings is better",
            "acceptance length about 1",
            "an untrained head, the mapping or the embedding of another training, another target's draft: compare "
            "files with the training's output",
        )
    return ok(
        "acceptance",
        f"{configured.accepted:.2f} drafted tokens per chain of {len(configured.survival)} on {places} places of "
        f"greedy text, by depth {depths}; none of {len(tried)} other wirings is better",
    )


def embedding_checks(disk: OnDisk, target: Target) -> list[Check]:
    """An embedding that a draft brings along is a copy of the target's, unless it was trained."""
    own, theirs_VH = disk.tensors.get(OWN_EMBEDDING), target.model.embedding_VE.float().cpu()
    if own is None or own.shape != theirs_VH.shape:
        return []
    difference = float((own.float() - theirs_VH).norm() / theirs_VH.norm())
    if difference < SAME_EMBEDDING:
        return [ok("embedding copy", "the stored embedding is the target's")]
    return [
        warning(
            "embedding copy: differs",
            f"the stored embedding is {difference:.0%} away from the target's",
            "vLLM shares the target's embedding and does not read this one; acceptance lower there if it was trained",
            "right for a draft that trains its embedding (P-EAGLE does); otherwise it is of another target",
        )
    ]


def row_checks(draft: Served, target: Target) -> list[Check]:
    """Do the head's rows belong to the tokens that d2t names?

    A head that was started from the target's rows stays near them: of a sample of rows, the nearest row of the target's
    head, among those that the draft vocabulary names, is each one's own. Where the nearest is another's, the mapping
    is of another training. Rows that resemble nothing were not started so, and nothing is said.

    The mean row is taken off first: a vector added to all rows changes no probability, so training drifts along it.
    """
    module = draft.draft
    if not isinstance(module, EagleDraft) or module.config.generation != 3:
        return []
    if module.config.hidden_size != target.model.config.hidden_size:
        return []
    vocab, size = target.model.config.vocab_size, len(draft.ids_N)
    rows = torch.linspace(0, size - 1, min(size, ROWS_LOOKED_AT)).long()
    mine_NH, theirs_VH = (x.detach().float().cpu() for x in (module.lm_head.weight, target.model.head.weight_OI))
    mine_NH, theirs_VH = (torch.nn.functional.normalize(x - x.mean(dim=0), dim=-1) for x in (mine_NH, theirs_VH))
    mine_RH = mine_NH[rows]
    nearest = (mine_RH @ theirs_VH.T).max(dim=-1)
    if float((nearest.values > 0.5).double().mean()) < 0.9:
        return [unchecked("head rows", "the head's rows are not near the target's: it was not started from them")]
    named = draft.ids_N[rows]
    own = float((nearest.indices == named).double().mean())
    if own > 0.9:
        return [
            ok("head rows", f"{own:.0%} of {len(rows)} rows are nearest to the target's row of the token they name")
        ]
    inside = (named >= 0) & (named < vocab)
    return [
        fault(
            "head rows: another mapping",
            f"{own:.0%} of {len(rows)} rows are nearest to the target's row of the token that the mapping names"
            + ("" if bool(inside.all()) else "; some lead out of the vocabulary"),
            "no error, text still right, acceptance length about 1",
            "d2t and t2d are of another training than the head (a fine-tuning that counted tokens anew, a stale "
            "mapping file): restore the ones that the head was trained with",
        )
    ]
