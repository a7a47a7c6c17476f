"""Does the draft's head say the tokens that it was trained to say?

`d2t` holds offsets: draft id i stands for target id i + d2t[i]. `t2d` is membership. So an honest pair satisfies

    d2t >= 0,   d2t never falls,   t2d.sum() == N,   t2d true exactly at i + d2t[i]

and every fault of the mapping breaks one of them, except one: a consistent pair of *another* training (head rows
permuted), which only the head's rows or the acceptance show. That more ids were asked for than tokens were seen cannot
be told either: the padding is consistent.

Decoding stays lossless with any mapping. What it costs is acceptance, all of it.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from ..drafts.eagle_dialects import DraftConfig
from ..models.fields import LARGEST_ID
from .check import Check, fault, ok, warning
from .on_disk import OnDisk

NOTHING = "no error, text still right, acceptance length about 1"


def mapping_checks(disk: OnDisk, config: DraftConfig) -> list[Check]:
    """d2t and t2d against draft_vocab_size and each other. Kinds with the target's whole vocabulary need neither."""
    size, vocab = config.draft_vocab_size, config.vocab_size
    d2t, t2d = disk.tensors.get("d2t"), disk.tensors.get("t2d")
    if d2t is None:
        if size == vocab:
            return [ok("d2t", f"not needed: the head says all {vocab} tokens")]
        return [
            fault(
                "d2t: missing",
                f"a head of {size} of {vocab} tokens without d2t",
                f"draft id i is taken for target id i: {NOTHING}",
                "restore d2t from the training"
                + ("" if t2d is None else "; t2d holds it: its true places in order"),
            )
        ]  # fmt: skip
    checks = list(offsets(d2t, t2d, size, vocab)) + list(membership(d2t, t2d, size, vocab))
    if not checks:
        checks.append(ok("d2t", f"{size} of {vocab} tokens, offsets that never fall" + (
            ", t2d agrees" if t2d is not None else "; no t2d, which engines do not need")))  # fmt: skip
    return checks


def offsets(d2t: torch.Tensor, t2d: torch.Tensor | None, size: int, vocab: int) -> Iterator[Check]:
    """d2t alone."""
    if d2t.ndim != 1 or d2t.is_floating_point() or d2t.dtype == torch.bool or d2t.shape != (size,):
        yield fault(
            "d2t: shape",
            f"d2t is {d2t.dtype} of shape {tuple(d2t.shape)}; right is int64 ({size},)",
            "the engine stops, or maps another head's ids",
            "take d2t and the head from the same training",
        )
        return
    d2t = d2t.long()
    if size and not -LARGEST_ID <= int(d2t.min()) <= int(d2t.max()) <= LARGEST_ID:  # the sum below would wrap around
        yield out_of_vocabulary(int(d2t.max()), vocab)
        return
    ids = torch.arange(size) + d2t
    if not bool(d2t.any()):
        if size == vocab:
            return
        honest = t2d is not None and t2d.shape == (vocab,) and torch.equal(t2d.bool(), torch.arange(vocab) < size)
        make = warning if honest else fault
        yield make(
            "d2t: zeros",
            f"all {size} offsets are 0: draft id i stands for target id i"
            + (", and t2d says the same" if honest else ""),
            NOTHING,
            "if the draft vocabulary is not the first ids, the mapping was lost when it was written: restore it from "
            "the training" + ("" if t2d is None else ", or from the true places of t2d"),
        )
        return
    ascending = bool((d2t.diff() > 0).all())
    if ascending and size and int(d2t[0]) >= 0 and int(d2t[-1]) < vocab and taken_for_ids(d2t, ids, t2d, vocab):
        yield fault(
            "d2t: absolute ids",
            f"d2t rises from {int(d2t[0])} to {int(d2t[-1])} and holds target ids where offsets belong",
            f"draft id i is taken for the target id i + id: {NOTHING}",
            "subtract the draft ids: d2t - arange(N)",
        )
        return
    if bool((ids.diff() < 0).any()) and says_the_same(ids, t2d, vocab):
        yield warning(
            "d2t: not ascending",
            f"the {size} tokens of t2d, not in the order of their ids",
            "engines that add the offset are right; `labsim generate` refuses it, and a trainer that slices the "
            "target's head by t2d permutes the rows",
            "sort the draft vocabulary by target id, and the head's rows with it",
        )
    elif int(d2t.min()) < 0:
        yield fault(
            "d2t: negative",
            f"d2t holds {int(d2t.min())}; offsets of ascending ids are never negative",
            NOTHING,
            "sort the draft vocabulary by target id, and the head's rows with it",
        )
    elif bool((d2t.diff() < 0).any()):
        at = int((d2t.diff() < 0).nonzero()[0])
        yield fault(
            "d2t: falls",
            f"d2t falls from {int(d2t[at])} to {int(d2t[at + 1])} at draft id {at + 1}: two ids for one token",
            "those rows draft the wrong tokens; acceptance lower",
            "sort the draft vocabulary by target id, and the head's rows with it",
        )
    elif int(ids[-1]) >= vocab:
        yield out_of_vocabulary(int(ids[-1]), vocab)


def out_of_vocabulary(leads_to: int, vocab: int) -> Check:
    return fault(
        "d2t: out of the vocabulary",
        f"d2t leads to the target id {leads_to} of {vocab}",
        "an index error in the engine's scatter, or another target's tokens",
        "take the mapping of the training for this target",
    )


def says_the_same(ids: torch.Tensor, t2d: torch.Tensor | None, vocab: int) -> bool:
    """Whether t2d is true exactly at these ids, each of them once."""
    if t2d is None or t2d.shape != (vocab,) or int(ids.min()) < 0 or int(ids.max()) >= vocab:
        return False
    return len(ids.unique()) == len(ids) == int(t2d.bool().sum()) and bool(t2d.bool()[ids].all())


def taken_for_ids(d2t: torch.Tensor, ids: torch.Tensor, t2d: torch.Tensor | None, vocab: int) -> bool:
    """Strictly ascending values are ids if t2d says so, or if as offsets they would leave the vocabulary."""
    if t2d is not None and t2d.shape == (vocab,):
        return bool(t2d.bool()[d2t].all())
    return int(ids[-1]) >= vocab


def membership(d2t: torch.Tensor, t2d: torch.Tensor | None, size: int, vocab: int) -> Iterator[Check]:
    """t2d alone, and against d2t."""
    if t2d is None:
        return
    remedy = "write t2d anew from d2t: true exactly at i + d2t[i]"
    if t2d.shape != (vocab,):
        yield fault(
            "t2d: another vocabulary",
            f"t2d is of shape {tuple(t2d.shape)}; right is ({vocab},), the target's tokens",
            "the mapping is another target's: acceptance length about 1",
            "take d2t and t2d of the training for this target",
        )
        return
    if int(t2d.bool().sum()) != size:
        yield fault(
            "t2d: counted wrong",
            f"t2d is true at {int(t2d.bool().sum())} places, and the head says {size} tokens",
            "a trainer that slices the target's head by t2d trains against the wrong rows",
            remedy,
        )
    if d2t.shape == (size,) and not d2t.is_floating_point():
        ids = torch.arange(size) + d2t.long()
        inside = ids[(ids >= 0) & (ids < vocab)]
        expected = torch.zeros(vocab, dtype=torch.bool)
        expected[inside] = True
        if int(t2d.bool().sum()) == size and not torch.equal(expected, t2d.bool()):
            differing = int((expected != t2d.bool()).sum())
            yield fault(
                "t2d: disagrees",
                f"t2d and i + d2t[i] differ at {differing} of {vocab} tokens",
                "one of the two is of another training; a fine-tuning from it permutes the head's rows",
                "keep the one that the head's rows belong to; " + remedy,
            )
