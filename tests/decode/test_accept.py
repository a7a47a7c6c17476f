"""Acceptance by itself: the emitted token has the target's distribution, whatever the draft."""

from __future__ import annotations

import pytest
import torch
from scipy.stats import chisquare

from labsim.decode import accept as accept_module
from labsim.decode.accept import accept_greedy, accept_sampled
from labsim.drafts.expand import draw_without_replacement
from labsim.drafts.protocol import Draft

TREE = Draft((5, 6, 7, 8, 9), (-1, -1, 0, 0, 2))


@pytest.mark.parametrize(
    ("choices", "path", "token", "kind"),
    [
        ([5, 8, 0, 0, 1, 0], (0, 3), 1, "bonus"),
        ([5, 7, 0, 9, 0, 2], (0, 2, 4), 2, "bonus"),
        ([5, 7, 0, 3, 0, 0], (0, 2), 3, "corrected"),
        ([6, 0, 4, 0, 0, 0], (1,), 4, "bonus"),
        ([1, 0, 0, 0, 0, 0], (), 1, "corrected"),
    ],
)
def test_greedy_follows_the_argmax_through_a_tree(
    choices: list[int], path: tuple[int, ...], token: int, kind: str
) -> None:
    outcome = accept_greedy(TREE, choices)
    assert (outcome.path, outcome.token, outcome.kind) == (path, token, kind)


def test_an_empty_draft_is_plain_decoding() -> None:
    outcome = accept_greedy(Draft(), [3])
    assert (outcome.path, outcome.token, outcome.kind) == ((), 3, "bonus")


def test_a_repeated_sibling_does_no_harm() -> None:
    assert accept_greedy(Draft((4, 4), (-1, -1)), [4, 2, 9]).path == (0,)


P = torch.tensor([0.5, 0.3, 0.15, 0.05, 0.0], dtype=torch.float64)
P_AFTER = torch.tensor([0.1, 0.2, 0.3, 0.4, 0.0], dtype=torch.float64)
Q = torch.tensor([0.1, 0.2, 0.4, 0.1, 0.2], dtype=torch.float64)


def first_tokens(make: object, trials: int = 20_000, seed: int = 0) -> torch.Tensor:
    """Counts of the first emitted token over many steps, each with a fresh draft from `make(generator)`."""
    generator = torch.Generator().manual_seed(seed)
    counts = torch.zeros(5)
    for _ in range(trials):
        draft = make(generator)
        p_NV = torch.stack([P] + [P_AFTER] * len(draft.tokens))
        outcome = accept_sampled(draft, p_NV, generator)
        counts[draft.tokens[outcome.path[0]] if outcome.path else outcome.token] += 1
    return counts


def drawn_chain(generator: torch.Generator) -> Draft:
    return Draft.chain([int(torch.multinomial(Q, 1, generator=generator))], Q[None])


def fixed_siblings(generator: torch.Generator) -> Draft:
    return Draft((2, 0, 4), (-1, -1, -1))


def drawn_siblings(generator: torch.Generator) -> Draft:
    tokens, q = draw_without_replacement(Q[None], 3, generator)
    return Draft(tuple(tokens), (-1, -1, -1), torch.stack(q))


MAKERS = {"chain drawn from q": drawn_chain, "fixed siblings": fixed_siblings, "drawn siblings": drawn_siblings}


def p_value(counts: torch.Tensor) -> float:
    assert counts[4] == 0, "a token that the target never says was emitted"
    return chisquare(counts[:4].numpy(), (P[:4] * counts.sum()).numpy()).pvalue


@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS.keys())
def test_the_first_token_has_the_targets_distribution(maker: object) -> None:
    assert p_value(first_tokens(maker)) > 1e-3


@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS.keys())
def test_it_would_show_if_a_rejection_drew_from_p(maker: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accept_module, "residual", lambda p_V, token, q_V: p_V)
    assert p_value(first_tokens(maker)) < 1e-9


def test_it_would_show_if_siblings_were_judged_by_the_whole_q() -> None:
    """Drawn without replacement but judged as if each came from the full q."""

    def wrong(generator: torch.Generator) -> Draft:
        tokens, _ = draw_without_replacement(Q[None], 3, generator)
        return Draft(tuple(tokens), (-1, -1, -1), Q.repeat(3, 1))

    assert p_value(first_tokens(wrong)) < 1e-6


def test_the_acceptance_probability_is_the_overlap_of_p_and_q() -> None:
    generator = torch.Generator().manual_seed(1)
    trials, accepted = 20_000, 0
    for _ in range(trials):
        outcome = accept_sampled(drawn_chain(generator), torch.stack([P, P_AFTER]), generator)
        accepted += bool(outcome.path)
    expected = float(torch.minimum(P, Q).sum())
    assert abs(accepted / trials - expected) < 4 * (expected * (1 - expected) / trials) ** 0.5


def test_the_bonus_comes_from_the_row_after_the_accepted_token() -> None:
    generator = torch.Generator().manual_seed(2)
    p_NV = torch.tensor([[0, 1, 0], [0, 0, 1]], dtype=torch.float64)
    outcome = accept_sampled(Draft.chain([1]), p_NV, generator)
    assert (outcome.path, outcome.token, outcome.kind) == ((0,), 2, "bonus")
