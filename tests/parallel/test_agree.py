"""Ranks that mean different runs find out before the first step, all of them, and say what differs."""

from __future__ import annotations

import pytest

from labsim.parallel import logical
from labsim.parallel.agree import agree, number_of
from labsim.parallel.group import Alone
from labsim.parallel.mesh import Mesh


def compared(mesh: Mesh, rates: list[float]) -> str:
    try:
        agree(mesh.world, {"seed": 0, "learning_rate": rates[mesh.world.rank], "data": "7f"})
    except ValueError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("rates", "who"),
    [([1e-3, 1e-3, 1e-3], ""), ([1e-3, 1e-3, 2e-3], "rank 2 has"), ([1e-3, 2e-3, 3e-3], "ranks 1, 2 have")],
)
def test_every_rank_names_what_differs(rates: list[float], who: str) -> None:
    said = logical.run(compared, rates, ring=3)
    for rank, text in enumerate(said):
        assert (text == "") == (who == "")
        assert not who or (f"{who} another learning_rate" in text and f"on rank {rank}: {rates[rank]}" in text)


def test_one_rank_agrees_with_itself_and_digests_tell_values_apart() -> None:
    agree(Alone(), {"seed": 0})
    values = [None, 0, False, 0.0, "0", [0], {"a": 1, "b": 2}]
    assert len({number_of(value) for value in values}) == len(values)
    assert number_of({"a": 1, "b": 2}) == number_of({"b": 2, "a": 1})
