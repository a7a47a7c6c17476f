"""Probes of a real model's drafts: what is shipped says what it should, and what is measured is what is kept."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from labsim.lab import drift_real as real
from labsim.lab.answered import answered
from labsim.models.load import load_target
from labsim.models.paths import data_directory


def test_the_shipped_probes_are_of_the_shipped_target_and_drafts() -> None:
    found = real.open_real("smollm2")
    assert found.sink.token == 0 and 0.4 < found.sink.shares[0] < 0.5
    for one in found.drafts:
        recipe = json.loads((data_directory() / "drafts" / f"smollm2-{one.kind}" / "recipe.json").read_text())
        assert one.trained == recipe["recipe"]["ttt"]
        assert len(one.by_text) == found.answers == one.chains.documents
        for probe in ("hidden_norm", "sink_mass", "recent_mass", "self_mass", "entropy"):
            assert len(one.by_depth(probe)) == real.DEPTH
        shares = one.by_depth("self_mass")
        assert all(0 <= s.mean <= 1 and s.low < s.mean < s.high for s in shares)


def test_what_is_measured_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """nano has answers and drafts of its own: the same command on it, with two short answers."""
    nano = load_target("nano", device="cpu")
    texts = answered(nano, {"chat": 2}, "held_out", max_new_tokens=12, longest=100)
    probes = real.probe_real(nano, texts, depth=3)
    assert [one.kind for one in probes.drafts] == ["eagle3", "eagle3.1"] and probes.sink.token is None
    (tmp_path / "drift").mkdir()
    real.write_real(probes, tmp_path / "drift" / "nano")
    monkeypatch.setattr(real, "data_directory", lambda: tmp_path)
    again = real.open_real("nano")
    assert (again.target, again.answers, again.tokens, again.fingerprint) == (
        "nano", len(texts), sum(one.answer_tokens for one in texts), probes.fingerprint,
    )  # fmt: skip
    for one, other in zip(
        probes.drafts[0].by_depth("hidden_norm"), again.drafts[0].by_depth("hidden_norm"), strict=True
    ):
        assert one.mean == pytest.approx(other.mean, rel=1e-5)
    (tmp_path / "drift" / "nano" / real.FILE).write_text('{"target": "nano"}')
    with pytest.raises(ValueError, match="does not hold probes"):
        real.open_real("nano")
    shutil.rmtree(tmp_path / "drift")
    with pytest.raises(ValueError, match="no probes are shipped for 'nano'"):
        real.open_real("nano")
