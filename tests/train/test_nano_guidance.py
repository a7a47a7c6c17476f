"""Drills and hints of nano's training, against transformers' own attention weights and losses."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
import torch

from labsim.train.nano.guidance import Guidance, drill
from labsim.train.nano.model import build_model, next_token_loss
from labsim.train.nano.recipe import Recipe
from labsim.train.nano.templates import BOS_ID, SPECIAL_TOKENS

RECIPE = Recipe(
    vocab_size=300,
    hidden_size=32,
    num_layers=4,
    num_heads=4,
    num_kv_heads=2,
    intermediate_size=48,
    max_positions=128,
    bf16=False,
    drills=3,
    drill_length=24,
    drill_weight=0.7,
    hint_weight=0.3,
)
ROWS = torch.randint(20, 300, (2, 16), generator=torch.Generator().manual_seed(0))


def test_a_drill_repeats_its_piece() -> None:
    rng = random.Random(1)
    for _ in range(50):
        tokens, period = drill(rng, [20, 21, 22, 23, 24], 300, 64)
        assert len(tokens) == 64
        assert tokens[0] == BOS_ID
        assert 4 <= period <= 32
        assert tokens[1 + period :] == tokens[1 : 64 - period]
        assert min(tokens[1:]) >= len(SPECIAL_TOKENS)


def recorded(guidance: Guidance, hint: bool) -> tuple[list[float], torch.Tensor, list[int]]:
    """The three losses, and the drills that they were made of."""
    seen = []
    handle = guidance.model.register_forward_pre_hook(lambda _m, _a, k: seen.append(k["input_ids"]), with_kwargs=True)
    losses = [loss.item() for loss in guidance.losses(ROWS, hint=hint)]
    handle.remove()
    drills_BT = seen[-1]
    periods = [next(p for p in range(4, 13) if torch.equal(row[1 + p :], row[1 : len(row) - p])) for row in drills_BT]
    return losses, drills_BT, periods


def test_losses_are_those_of_the_definition() -> None:
    model = build_model(RECIPE, 3)
    model.set_attn_implementation("eager")
    with torch.no_grad():
        for layer in model.model.layers:  # attention that is not nearly uniform
            layer.self_attn.q_proj.weight.mul_(20)
            layer.self_attn.k_proj.weight.mul_(20)
    guidance = Guidance(model, RECIPE)
    [total, rows, copied], drills_BT, periods = recorded(guidance, hint=True)
    assert rows == pytest.approx(next_token_loss(model, ROWS, False).item(), rel=1e-5)
    with torch.no_grad():
        out = model(input_ids=drills_BT, output_attentions=True, use_cache=False)
    log_p = out.logits.log_softmax(-1)
    losses = [
        -log_p[b, t - 1, drills_BT[b, t]].item()
        for b, p in enumerate(periods)
        for t in range(p + 2, drills_BT.shape[1])
    ]
    assert copied == pytest.approx(sum(losses) / len(losses), rel=1e-4)

    def missed(layer: int, heads: list[int], right: object, start: object) -> float:
        values = []
        for b, period in enumerate(periods):
            for t in range(start(period), drills_BT.shape[1]):
                for head in heads:
                    mass = sum(out.attentions[layer][b, head, t, j].item() for j in right(t, period))
                    values.append(-torch.tensor(mass).log().item())
        return sum(values) / len(values)

    def after(t: int, period: int) -> list[int]:
        return [j for j in range(1, t + 1) if (j - t - 1) % period == 0]

    previous = missed(1, [0, 1, 2, 3], lambda t, _: [t - 1], lambda _: 1)
    found = [missed(layer, [0, 2], after, lambda period: period) for layer in guidance.induction_layers]
    hint = previous + sum(found) / len(found)
    assert total == pytest.approx(rows + 0.7 * copied + 0.3 * hint, rel=1e-3)


def test_the_hint_can_be_left_out_and_so_can_the_drills() -> None:
    guidance = Guidance(build_model(RECIPE, 3), RECIPE)
    total, rows, copied = (loss.item() for loss in guidance.losses(ROWS, hint=False))
    assert total == pytest.approx(rows + 0.7 * copied, rel=1e-5)
    bare = Guidance(build_model(RECIPE, 3), replace(RECIPE, drills=0))
    total, rows, copied = (loss.item() for loss in bare.losses(ROWS, hint=True))
    assert total == rows
    assert copied == 0


def test_the_same_rows_draw_the_same_drills() -> None:
    guidance = Guidance(build_model(RECIPE, 3), RECIPE)
    assert torch.equal(recorded(guidance, hint=False)[1], recorded(guidance, hint=False)[1])
