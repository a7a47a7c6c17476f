"""Bugs that sequence parallelism has had in public, as changes to this package's own text.

Each is planted for the length of a `with` block: the function that holds the text is compiled again with the change.
`trap` says what goes wrong; `caught_by` names the check of `tests/attention/test_planted_bugs.py` that must see it.
"""

from __future__ import annotations

import importlib
import inspect
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """`old` in the source of `place` ("module:function" or "module:Class.method") becomes `new`."""

    name: str
    place: str
    old: str
    new: str
    caught_by: str
    trap: str

    def __str__(self) -> str:
        return self.name


RING, TTT, LSE, KERNELS = (f"labsim.attention.{name}" for name in ("ring", "ttt", "lse", "kernels"))

MUTANTS = (
    Mutant(
        "naive merge",
        f"{LSE}:merge",
        "top = torch.maximum(lse_a, lse_b)",
        "top = torch.zeros_like(torch.maximum(lse_a, lse_b))",
        "large logits",
        "exp of a large logit overflows: infinite log-sum-exp, zero output",
    ),
    Mutant(
        "merge of two empty blocks",
        f"{LSE}:merge",
        "top = torch.where(empty, torch.zeros_like(top), top).detach()",
        "top = top.detach()",
        "empty sets",
        "(-inf) - (-inf) is NaN",
    ),
    Mutant(
        "masked row with a log-sum-exp of zero",
        f"{RING}:Ring.forward",
        'float("-inf")',
        "0.0",
        "output",
        "the kernel's masked rows leak exp(0 - l) of the weight",
    ),
    Mutant(
        "log-sum-exp of zeros",
        f"{RING}:Ring.forward",
        "merge(out[:, :, rows], lse[:, :, rows], *part)",
        "merge(out[:, :, rows], lse[:, :, rows], part[0], torch.zeros_like(part[1]))",
        "output",
        "a kernel that returns no log-sum-exp weighs all blocks alike",
    ),
    Mutant(
        "log-sum-exp in base two",
        f"{RING}:Ring.forward",
        "merge(out[:, :, rows], lse[:, :, rows], *part)",
        "merge(out[:, :, rows], lse[:, :, rows], part[0], part[1] / 0.6931471805599453)",
        "output",
        "bases mixed in silence",
    ),
    Mutant(
        "log-sum-exp in bfloat16",
        f"{RING}:Ring.forward",
        "merge(out[:, :, rows], lse[:, :, rows], *part)",
        "merge(out[:, :, rows], lse[:, :, rows], part[0], part[1].bfloat16())",
        "output",
        "off by several per cent",
    ),
    Mutant(
        "accumulator in bfloat16",
        f"{RING}:Ring.forward",
        "out = torch.zeros_like(q, dtype=lse_dtype(q))",
        "out = torch.zeros_like(q, dtype=torch.bfloat16); lse = out.float().new_full(q.shape[:-1], float('-inf'))",
        "output",
        "grows with the world size",
    ),
    Mutant(
        "backward with each block's own log-sum-exp",
        f"{RING}:Ring.backward",
        "lse[:, :, rows].contiguous()",
        "kernels.forward(q[:, :, rows], k[:, :, columns], v[:, :, columns], causal=block.causal, scale=scale)[1]",
        "gradients",
        "shares of several wholes",
    ),
    Mutant(
        "history's backward before the branch was merged",
        f"{TTT}:TTTAttention.backward",
        "dq, dk, dv = ctx.history.backward(dout, q, k, v, out, lse, scale)",
        "dq, dk, dv = ctx.history.backward(dout, q, k, v, *ctx.history.forward(q, k, v, scale), scale)",
        "gradients",
        "SpecForge before #536",
    ),
    Mutant(
        "gradients of keys one hop short",
        f"{RING}:Ring.backward",
        "dk, dv = following.wait()",
        "following.wait()",
        "gradients",
        "every block's gradients end on the wrong rank",
    ),
    Mutant(
        "backward on the first hop's keys",
        f"{RING}:Ring.backward",
        "k, v = coming.wait()",
        "coming.wait()",
        "gradients",
        "diffusers#14265: forward right, gradients of another block",
    ),
    Mutant(
        "gradients of keys and values exchanged",
        f"{RING}:Ring.backward",
        "self.group.shift([dk, dv], GRADIENTS)",
        "self.group.shift([dv, dk], GRADIENTS)",
        "gradients",
        "two messages of one shape posted in another order",
    ),
    Mutant(
        "own block's gradients only",
        f"{RING}:Ring.backward",
        "dk += before_k",
        "pass",
        "gradients",
        "what the ranks before have added is dropped",
    ),
    Mutant(
        "strided key heads",
        "labsim.attention.ulysses:repeat_kv",
        "x_BKLD.repeat_interleave(times, dim=1)",
        "x_BKLD.repeat(1, times, 1, 1)",
        "few key heads",
        "query head h reads key head h % K instead of h // (H / K)",
    ),
    Mutant(
        "tokens of the group in the wrong order",
        "labsim.attention.ulysses:swap",
        "received.unbind(0)",
        "received.flip(0).unbind(0)",
        "output",
        "an all-to-all whose parts are put together in another order",
    ),
    Mutant(
        "all-to-all that splits the batch",
        "labsim.attention.ulysses:swap",
        "torch.stack(x.chunk(group.size, dim=split))",
        "x.reshape(group.size, x.shape[0], *[n // group.size if i == split - 1 else n"
        " for i, n in enumerate(x.shape[1:])])",
        "output",
        "DeepSpeed#5808: samples mixed when the batch is above one",
    ),
    Mutant(
        "later keys are seen",
        "labsim.parallel.layout:blocks",
        "if causal and k_chunk.start > q_chunk.start:",
        "if False:",
        "output",
        "the causal mask is that of a contiguous shard, on a zigzag one",
    ),
    Mutant(
        "packed documents as one",
        "labsim.parallel.layout:borders",
        "layout.documents or (layout.length,)",
        "(layout.length,)",
        "documents",
        "attention runs across the border",
    ),
    Mutant(
        "padding is attended to",
        "labsim.parallel.layout:borders",
        "layout.documents or (layout.length,)",
        "layout.documents or (layout.padded,)",
        "full attention",
        "keys of zeros take their share of every softmax",
    ),
    Mutant(
        "branch without its group's sum",
        f"{TTT}:TTTAttention.backward",
        "(dl * q_g).sum(2)",
        "(dl * q_g)[:, :, 0]",
        "gradients",
        "with grouped heads a key's gradient is the sum over its queries",
    ),
    Mutant(
        "log-sum-exp without a gradient",
        f"{LSE}:merge",
        "lse_a, lse_b = at_least_float32(lse_a_BHS), at_least_float32(lse_b_BHS)",
        "lse_a, lse_b = at_least_float32(lse_a_BHS).detach(), at_least_float32(lse_b_BHS).detach()",
        "merge alone",
        "flash-attention#889: forward right, dq and dk a fifth off, no warning",
    ),
)

TRAINING = (
    Mutant(
        "loss divided by the number of ranks",
        "labsim.train.ttt.loop:add_gradients",
        "part.view_as(parameter)",
        "part.view_as(parameter) / mesh.size",
        "training",
        "a sum over ranks taken for a mean: gradients off by a factor",
    ),
    Mutant(
        "mean over each rank's own guesses",
        "labsim.train.ttt.part:Part.total",
        'return self.mesh.world.all_reduce(count, "sum over ranks")',
        'self.mesh.world.all_reduce(count, "sum over ranks"); return count.clamp(min=1) * self.mesh.size',
        "training",
        "ranks with few answer tokens weigh as much as those with many",
    ),
    Mutant(
        "tokens shifted inside the shard",
        "labsim.train.ttt.part:Part.tokens",
        "wanted = self.positions_L + 1 + step",
        "wanted = self.positions_L.roll(-1 - step)",
        "training",
        "a stranger's token at every seam, hardly visible in the loss",
    ),
    Mutant(
        "positions counted from zero on every rank",
        "labsim.drafts.recurrent:RecurrentDraft.ttt_forward",
        "positions_1L = view.positions_L[None]",
        "positions_1L = torch.arange(length)[None]",
        "training",
        "zigzag's two chunks stand far apart, and are rotated as neighbours",
    ),
    Mutant(
        "teacher one token early",
        "labsim.train.ttt.part:Part.judged",
        "guess_M = self.teacher_positions - 1 - step",
        "guess_M = self.teacher_positions - step",
        "training",
        "the boundary token of the neighbour's shard is judged by the wrong teacher",
    ),
)


@contextmanager
def planted(mutant: Mutant) -> Iterator[None]:
    """The package with the bug in it. ValueError when the text to change is not there exactly once."""
    module_name, path = mutant.place.split(":")
    module = importlib.import_module(module_name)
    owner, _, name = path.rpartition(".")
    holder = getattr(module, owner) if owner else module
    original = inspect.getattr_static(holder, name)
    source = textwrap.dedent(inspect.getsource(getattr(holder, name)))
    if (count := source.count(mutant.old)) != 1:
        raise ValueError(f"{mutant.name}: {mutant.place} holds {mutant.old!r} {count} times, not once")
    scope: dict[str, object] = {}
    exec(compile(source.replace(mutant.old, mutant.new), f"<{mutant.name}>", "exec"), vars(module), scope)
    changed = scope[name]
    users = [holder] if owner else [m for key, m in sys.modules.items() if key.split(".")[0] in ("labsim", "tests")]
    patched = [user for user in users if inspect.getattr_static(user, name, None) is original]
    try:
        for user in patched:
            setattr(user, name, changed)
        yield
    finally:
        for user in patched:
            setattr(user, name, original)
