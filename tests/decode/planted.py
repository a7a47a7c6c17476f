"""Bugs of a sampling decoder, planted for the tests that must see them."""

from __future__ import annotations

import pytest
import torch

from labsim.decode import generate as decoding
from labsim.decode.accept import Accepted
from labsim.drafts.protocol import Draft


def no_residual(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rejected token's replacement is drawn from the target's distribution as it is."""
    monkeypatch.setattr("labsim.decode.accept.residual", lambda p_V, token, q_V: p_V)


def bonus_from_the_row_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """The token behind a draft that was accepted whole is drawn one row too early."""
    right = decoding.accept_sampled

    def wrong(draft: Draft, p_NV: torch.Tensor, generator: torch.Generator) -> Accepted:
        outcome = right(draft, p_NV, generator)
        if outcome.kind == "corrected" or not outcome.path:
            return outcome
        row_V = p_NV[outcome.path[-1]]
        return Accepted(outcome.path, int(torch.multinomial(row_V, 1, generator=generator)), "bonus")

    monkeypatch.setattr(decoding, "accept_sampled", wrong)
