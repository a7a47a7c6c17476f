"""Every planted bug turns the check red that is meant for it, and without it the check is green."""

from __future__ import annotations

import pytest
import torch

from labsim.attention import lse
from labsim.parallel import logical
from labsim.parallel.layout import Layout
from tests.attention.ranks import attention_on_a_rank, ttt_on_a_rank
from tests.attention.sequence_reference import draws, expected, ttt_inputs
from tests.mutants.sequence_parallel import MUTANTS, Mutant, planted

TOLERANCE = 1e-10
ROOM = 1e4  # a planted bug must stand out by so much, or the test could pass by luck


def errors(
    layout: Layout, heads: int = 8, kv_heads: int = 2, scale: float = 1.0, steps: int = 2
) -> tuple[float, float]:
    """Largest error of the output, and of the gradients, relative to their own largest entry."""
    given = [scale * x for x in ttt_inputs(steps, heads, kv_heads, layout.length)]
    dout = draws([given[0].shape], seed=8)[0]
    out, _, gradients = expected(given, dout, layout.documents)
    parts = logical.run(ttt_on_a_rank, layout, given, dout, "reference", ring=layout.ring, ulysses=layout.ulysses)
    found = [layout.join([part[1][index] for part in parts], 2) for index in range(len(gradients))]
    whole = layout.join([part[0] for part in parts], 2)
    return worst(whole, out), max(worst(a, b) for a, b in zip(found, gradients, strict=True))


def full_attention() -> float:
    layout = Layout(29, 2, 2, "zigzag")
    given = ttt_inputs(0, 8, 2, 29)
    dout = draws([given[0].shape], seed=8)[0]
    out, _, _ = expected(given, dout, causal=False)
    parts = logical.run(attention_on_a_rank, layout, given, dout, False, ring=2, ulysses=2)
    return worst(layout.join([part[0] for part in parts], 2), out)


def merge_alone() -> float:
    """Softmax in two halves, differentiated through the merge."""
    scores, values = (x.requires_grad_() for x in draws([(1, 1, 3, 8), (1, 1, 8, 5)]))
    halves = [
        (s.softmax(-1) @ v, s.logsumexp(-1)) for s, v in zip(scores.split(4, -1), values.split(4, 2), strict=True)
    ]
    merged = torch.autograd.grad(lse.merge(*halves[0], *halves[1])[0].square().sum(), scores)[0]
    whole = torch.autograd.grad((scores.softmax(-1) @ values).square().sum(), scores)[0]
    return worst(merged, whole)


def empty_sets() -> float:
    """Two sets without a key merge to one without, and the third set alone remains."""
    nothing = torch.zeros(1, 1, 3, 5, dtype=torch.float64), torch.full((1, 1, 3), -torch.inf, dtype=torch.float64)
    out, log = draws([(1, 1, 3, 5), (1, 1, 3)])
    return worst(lse.merge(*lse.merge(*nothing, *nothing), out, log)[0], out)


CHECKS = {
    "output": lambda: errors(Layout(37, 2, 2, "zigzag"))[0],
    "gradients": lambda: errors(Layout(37, 3, 1, "zigzag"))[1],
    "large logits": lambda: errors(Layout(37, 2, 1, "zigzag"), scale=30.0)[0],
    "empty sets": empty_sets,
    "few key heads": lambda: errors(Layout(37, 1, 4, "zigzag"))[0],
    "documents": lambda: errors(Layout(37, 2, 1, "zigzag", (12, 25)))[0],
    "full attention": full_attention,
    "merge alone": merge_alone,
}


def worst(found: torch.Tensor, exact: torch.Tensor) -> float:
    """Largest error relative to the exact value's largest entry; not a number counts as infinite."""
    error = float((found.double() - exact).abs().max() / exact.abs().max())
    return error if error == error else float("inf")


@pytest.mark.parametrize("name", CHECKS)
def test_the_check_passes_without_a_bug(name: str) -> None:
    assert CHECKS[name]() < TOLERANCE


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_the_bug_is_caught(mutant: Mutant) -> None:
    with planted(mutant):
        assert CHECKS[mutant.caught_by]() > ROOM * TOLERANCE, mutant.trap
