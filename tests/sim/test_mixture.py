"""Mixed traffic against counting tokens and drafts one by one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labsim.sim.acceptance import acceptance_length, survival_from_constant
from labsim.sim.mixture import TrafficPart, mix


def rate(alpha_d: float, k: int) -> tuple[float, ...]:
    """A survival vector with a given accepted/drafted; its shape does not matter here."""
    return (alpha_d,) * k


CHAT, CODE = rate(0.7, 5), rate(0.4, 5)


def test_seventy_thirty_by_drafts_is_the_plain_average() -> None:
    mixture = mix([TrafficPart("chat", 0.7, CHAT), TrafficPart("code", 0.3, CODE)], "drafts")
    assert mixture.draft_acceptance_rate == pytest.approx(0.61)


def test_seventy_thirty_by_tokens_counted_by_hand() -> None:
    """1,350 tokens: 945 of chat need 945/4.5 = 210 drafts, 405 of code need 405/3 = 135."""
    mixture = mix([TrafficPart("chat", 0.7, CHAT), TrafficPart("code", 0.3, CODE)], "tokens")
    accepted, drafted = 210 * 3.5 + 135 * 2.0, (210 + 135) * 5
    assert mixture.draft_acceptance_rate == pytest.approx(accepted / drafted)
    assert mixture.acceptance_length == pytest.approx(1350 / 345)
    assert mixture.token_weighted == pytest.approx(0.61)


def test_requests_of_unequal_length_counted_by_hand() -> None:
    """7 chat answers of 450 tokens (100 drafts each) and 3 code answers of 900 tokens (300 drafts each)."""
    parts = [TrafficPart("chat", 0.7, CHAT, 450), TrafficPart("code", 0.3, CODE, 900)]
    mixture = mix(parts, "requests")
    assert mixture.draft_acceptance_rate == pytest.approx((700 * 3.5 + 900 * 2.0) / (1600 * 5))
    assert mixture.request_weighted == pytest.approx(0.7 * 0.7 + 0.3 * 0.4)
    assert mixture.acceptance_length == pytest.approx((7 * 450 + 3 * 900) / 1600)


@given(st.floats(0.01, 0.99), st.floats(0, 1), st.floats(0, 1), st.sampled_from(["drafts", "tokens", "requests"]))
def test_the_counter_never_reads_above_the_token_average(share: float, a: float, b: float, share_of: str) -> None:
    parts = [
        TrafficPart("a", share, survival_from_constant(a, 4)),
        TrafficPart("b", 1 - share, survival_from_constant(b, 4), output_tokens=100),
    ]
    mixture = mix(parts, share_of)
    assert mixture.draft_acceptance_rate <= mixture.token_weighted + 1e-12
    lengths = [acceptance_length(part.survival) for part in parts]
    assert min(lengths) - 1e-9 <= mixture.acceptance_length <= max(lengths) + 1e-9


@pytest.mark.parametrize(
    ("parts", "share_of", "says"),
    [
        ([], "tokens", "parts is empty"),
        ([TrafficPart("chat", -0.1, CHAT)], "tokens", "share of chat is -0.1"),
        ([TrafficPart("chat", 0, CHAT)], "tokens", "at least one above 0"),
        ([TrafficPart("chat", 1, CHAT)], "token", "did you mean 'tokens'"),
        ([TrafficPart("chat", 1, CHAT, 0)], "tokens", "output_tokens of chat is 0"),
    ],
)
def test_wrong_values_are_named(parts: list[TrafficPart], share_of: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        mix(parts, share_of)
