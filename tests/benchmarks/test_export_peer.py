"""`speculators` loads our exports with its own loader and computes our logits, loss and gradients from them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
import export_peer
from ttt_step import peer_python


@pytest.mark.full
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_the_peer_computes_the_same_from_our_export(attention: str) -> None:
    try:
        python = peer_python()
    except ValueError as error:
        pytest.skip(str(error))
    found = export_peer.compare(attention, python)
    assert [one.variant for one in found] == list(export_peer.VARIANTS)
    assert all(one.agrees for one in found), found
    assert len({round(one.loss, 6) for one in found}) == len(found), "the variants differ, so the flags are read"
