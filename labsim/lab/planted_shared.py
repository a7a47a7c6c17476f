"""Trainings of a shared row with one fault each, to learn a fault by its symptom.

A faulty thing is the real one with one line of its text changed, compiled again into a class or function of its own;
the package stays as it is. Four faults sit in what a rank reads and where it stands (`FAULTS`), three in what ranks add
up (`SUMS`), two in the backward of attention (`BACKWARDS`).
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..attention import ttt, usp
from ..attention.ttt import TTTAttention
from ..attention.usp import USP
from ..drafts import recurrent
from ..drafts.eagle import EagleDraft
from ..drafts.recurrent import RecurrentDraft
from ..sim.errors import unknown_name
from ..train.ttt import loop, part
from ..train.ttt.part import Part


@dataclass(frozen=True)
class Planted:
    """`old` in the text of `place` becomes `new`; `what` says what that means."""

    place: Callable[..., Any]
    old: str
    new: str
    what: str


FAULTS = {
    "halo one short": Planted(
        Part.tokens,
        "inside = wanted < self.layout.length",
        "inside = (wanted < self.layout.length) & torch.stack("
        "[torch.isin(wanted - back, self.positions_L) for back in range(self.steps)]).any(0)",
        "the halo's last token is not loaded, and read as 0",
    ),
    "seam": Planted(
        Part.tokens,
        "wanted = self.positions_L + 1 + step",
        "wanted = self.positions_L.roll(-1 - step)",
        "tokens shift inside the shard: a stranger's at each seam",
    ),
    "positions from zero": Planted(
        RecurrentDraft.ttt_forward,
        "positions_1L = view.positions_L[None]",
        "positions_1L = torch.arange(len(view.positions_L))[None]",
        "every rank counts rotary positions from 0",
    ),
    "branch stands still": Planted(
        RecurrentDraft.ttt_forward,
        '(step if branch == "own" else 0)',
        "0",
        "rotary positions do not advance with the steps",
    ),
}
SUMS = {
    "divided": Planted(
        loop.add_gradients,
        "part.view_as(parameter)",
        "part.view_as(parameter) / mesh.size",
        "the sum of the ranks' gradients is divided by the number of ranks",
    ),
    "not reduced": Planted(
        loop.add_gradients,
        'summed = mesh.world.all_reduce(flat, "gradients").split(',
        'own = flat.clone(); mesh.world.all_reduce(flat, "gradients"); summed = own.split(',
        "every rank goes on with its own gradient",
    ),
    "mean of means": Planted(
        Part.total,
        'return self.mesh.world.all_reduce(count, "sum over ranks")',
        'self.mesh.world.all_reduce(count, "sum over ranks"); return count.clamp(min=1) * self.mesh.size',
        "each rank divides its loss by its own guesses, and the means are averaged",
    ),
}
BACKWARDS = {
    "history: own pair": Planted(
        TTTAttention.backward,
        "dq, dk, dv = ctx.history.backward(dout, q, k, v, out, lse, scale)",
        "dq, dk, dv = ctx.history.backward(dout, q, k, v, *ctx.history.forward(q, k, v, scale), scale)",
        "the history's backward runs with its own output and log-sum-exp, before the branch was merged",
    ),
    "branch: own LSE": Planted(
        TTTAttention.backward,
        "(branch_logits(q, branch[0::2], scale) - lse.unflatten(1, heads)[..., None]).exp()",
        "branch_logits(q, branch[0::2], scale).softmax(-1)",
        "the branch's backward takes its own log-sum-exp for that of the whole softmax",
    ),
}


def changed(fault: Planted, scope: dict[str, Any]) -> Callable[..., Any]:
    """The function with the fault in it, its names looked up in `scope`.

    ValueError when the text to change is not there exactly once.
    """
    source = textwrap.dedent(inspect.getsource(fault.place))
    if (count := source.count(fault.old)) != 1:
        raise ValueError(f"{fault.place.__qualname__} holds {fault.old!r} {count} times, not once")
    exec(compile(source.replace(fault.old, fault.new), f"<fault in {fault.place.__qualname__}>", "exec"), scope)
    found = scope[fault.place.__name__]
    return found.__func__ if isinstance(found, staticmethod) else found


def find(name: str, among: dict[str, Planted]) -> Planted:
    """ValueError, with the nearest match, for an unknown name."""
    if name not in among:
        raise unknown_name("fault", name, among)
    return among[name]


def faulty_part(name: str) -> type[Part]:
    """`Part` with this fault; the plain one where the fault sits elsewhere."""
    fault = find(name, FAULTS | SUMS)
    if fault.place not in (Part.tokens, Part.total):
        return Part
    return type("FaultyPart", (Part,), {fault.place.__name__: changed(fault, dict(vars(part)))})


def faulty_draft(name: str, draft: EagleDraft) -> EagleDraft:
    """A draft of the same weights with this fault; the draft itself where the fault sits elsewhere."""
    fault = find(name, FAULTS | SUMS)
    if fault.place is not RecurrentDraft.ttt_forward:
        return draft
    kind = type("FaultyDraft", (EagleDraft,), {"ttt_forward": changed(fault, dict(vars(recurrent)))})
    twin = kind(draft.config, draft.embedding_VH).to(draft.embedding_VH.dtype)
    twin.load_state_dict(draft.state_dict())
    return twin


def faulty_train(name: str) -> Callable[..., Any]:
    """`labsim.train.ttt.loop.train` with this fault in what ranks add up."""
    fault, scope = find(name, SUMS), dict(vars(loop))
    if fault.place is Part.total:
        scope["Part"] = faulty_part(name)
    else:
        changed(fault, scope)
    exec(compile(inspect.getsource(loop.train), f"<training with fault: {name}>", "exec"), scope)
    return scope["train"]


def faulty_attention(name: str) -> type[USP]:
    """USP with a fault of `BACKWARDS`."""
    backward = staticmethod(changed(find(name, BACKWARDS), dict(vars(ttt))))
    scope = dict(vars(usp)) | {"TTTAttention": type("FaultyTTT", (TTTAttention,), {"backward": backward})}
    exec(compile(textwrap.dedent(inspect.getsource(USP.with_lse)), "<USP with fault>", "exec"), scope)
    return type("FaultyUSP", (USP,), {"with_lse": scope["with_lse"]})
