"""Drafts of the course beside plain decoding: what their recipes say, and tables of what was served."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from labsim.lab import drift_lab, shipped_drafts
from labsim.lab.shipped_drafts import _told, first_shipped, interval_said, served_rows
from labsim.lab.tpot import FEWEST_TIMED, Request
from labsim.models.paths import data_directory
from labsim.sim.intervals import Interval

NANO = SimpleNamespace(name="nano")
SHIPPED = sorted(path.name.partition("-")[2] for path in (data_directory() / "drafts").glob("nano-*"))


@pytest.mark.parametrize("kind", SHIPPED)
def test_every_draft_of_the_course_says_how_it_was_trained(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipped_drafts, "load_drafter", lambda *_: object())
    one = first_shipped(NANO, kind)
    assert one and min(one.parameters, one.steps, one.tokens, one.answer_tokens) > 100
    assert list(one.training) and one.name.startswith({"small": "small", "mtp": "MTP, "}.get(kind, "EAGLE-3"))


def test_the_first_kind_that_is_there_is_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys) -> None:
    (tmp_path / "drafts" / "nano-mtp").mkdir(parents=True)
    recipe = {
        "recipe": {"ttt": 1},
        "result": {"parameters": 5, "steps": 6, "tokens": 7},
        "training_answer_tokens": 8,
    }
    recipe["begin"] = json.loads(json.dumps(recipe)) | {"training_answer_tokens": 2}
    (tmp_path / "drafts" / "nano-mtp" / "recipe.json").write_text(json.dumps(recipe))
    monkeypatch.setattr("labsim.drafts.load.data_directory", lambda: tmp_path)
    monkeypatch.setattr(shipped_drafts, "load_drafter", lambda *_: object())
    one = first_shipped(NANO, "eagle3", "mtp")
    assert one and (one.parameters, one.ttt, one.steps, one.tokens, one.answer_tokens) == (5, 1, 12, 14, 8)
    assert one.name == "MTP, without TTT"
    assert first_shipped(NANO, "eagle3", "eagle3.1") is None
    assert "No eagle3 or eagle3.1 draft comes with the course for nano" in capsys.readouterr().out


def test_a_damaged_draft_is_not_taken_for_a_missing_one(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    def damaged(directory: Path, target: object) -> None:
        raise ValueError(f"{directory.name} is damaged")

    monkeypatch.setattr(drift_lab, "load_target", lambda _: NANO)
    monkeypatch.setattr(drift_lab, "trained", damaged)
    asked = {"renderings": {"own": ("own", True)}, "prompts": 2, "k": 1}
    assert drift_lab.probed_in_service("nano", ["eagle4"], **asked) == []
    assert "No eagle4 draft comes with the course for nano" in capsys.readouterr().out
    with pytest.raises(ValueError, match=r"nano-eagle3\.1 is damaged"):
        drift_lab.probed_in_service("nano", ["eagle3.1"], **asked)


def test_a_small_drafts_passes_count_as_tokens_read() -> None:
    document = {"parameters": 1, "steps": 2, "training_tokens": 30, "recipe": {"epochs": 4}}
    assert _told("small", document) == (1, 0, 2, 120, 30)


def test_no_interval_and_no_p95_of_a_few_requests() -> None:
    few = [Request((1, 2, 3), (2, 0), 4.0)] * (FEWEST_TIMED - 1)
    enough = [*few, few[0]]
    low_high = Interval(0.5, 1.25)
    assert interval_said(low_high, few) == "19 requests: no interval"
    assert interval_said(low_high, enough) == "0.50 to 1.25"
    rows = served_rows({"a": few, "b": enough, "c": [Request((1, 2, 3), (0, 0), 4.0)]}, 3)
    assert [one["P95 TPOT (ms)"] for one in rows] == ["-", "4.0", "-"]
    assert [one["conditional by depth"] for one in rows] == ["0.50 1.00 0.00", "0.50 1.00 0.00", "-"]
    assert rows[0]["tokens per step"] == "2.00" and rows[0]["mean TPOT (ms)"] == "4.0"


def test_all_drafts_together_stay_a_small_download() -> None:
    sizes = {path.parent.name: path.stat().st_size for path in data_directory().glob("drafts/*/*.safetensors")}
    assert sum(sizes.values()) <= 60e6, sizes
    assert sizes["smollm2-small"] <= 20e6
