"""`labsim train` and `labsim eval` from the command line, as the README shows them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from labsim.cli import labsim
from labsim.train.ttt import run


def call(*arguments: str) -> Result:
    return CliRunner().invoke(labsim, arguments)


@pytest.fixture(scope="module")
def draft(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, object]]:
    out = tmp_path_factory.mktemp("draft")
    result = call(
        *("train", "--target", "nano", "--draft", "eagle3.1", "--ttt", "2", "--data", "shipped", "--steps", "4"),
        *(
            "--seq",
            "256",
            "--seed",
            "0",
            "--evaluate-every",
            "4",
            "--features",
            str(out / "states"),
            "--domains",
            "chat",
        ),
        *("--out", str(out / "draft"), "--json"),
    )
    assert result.exit_code == 0, result.output
    return out / "draft", json.loads(result.stdout)


def test_train_prints_its_contract(draft: tuple[Path, dict[str, object]]) -> None:
    out, report = draft
    wanted = {"draft", "steps", "loss", "per_depth_accuracy", "acceptance_length", "tokens_per_second"}
    assert wanted | {"peak_memory_bytes", "out"} <= report.keys()
    assert report["draft"] == "eagle3.1"
    assert report["out"] == str(out)
    assert {path.name for path in out.iterdir()} >= {"config.json", "model.safetensors", "loss.csv", "recipe.json"}


def test_a_draft_of_another_making_is_not_replaced(draft: tuple[Path, dict[str, object]], tmp_path: Path) -> None:
    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).write_bytes((draft[0] / name).read_bytes())
    command = ("train", "--target", "nano", "--draft", "eagle3.1", "--ttt", "1", "--data", "shipped", "--steps", "1")
    result = call(*command, "--seq", "64", "--domains", "chat", "--out", str(tmp_path))
    assert result.exit_code == 2 and "would be replaced" in result.output
    assert (tmp_path / "model.safetensors").read_bytes() == (draft[0] / "model.safetensors").read_bytes()


def test_with_all_states_on_disk_the_target_is_not_loaded(
    draft: tuple[Path, dict[str, object]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a 70B target only embedding, norm and head lie beside the draft; and the training is the same one."""
    wanted = []
    load = run.load_target

    def noting(name: str, *, layers: bool = True, **options: object):
        wanted.append(layers)
        return load(name, layers=layers, **options)

    monkeypatch.setattr(run, "load_target", noting)
    settings = ("--ttt", "2", "--steps", "4", "--seq", "256", "--seed", "0", "--evaluate-every", "4")
    result = call(
        *("train", "--target", "nano", "--draft", "eagle3.1", "--data", "shipped", "--domains", "chat", *settings),
        *("--features", str(draft[0].parent / "states"), "--out", str(tmp_path / "again"), "--json"),
    )
    assert result.exit_code == 0, result.output
    assert wanted == [False]
    again = json.loads(result.stdout)
    assert again["loss"] == draft[1]["loss"] and again["acceptance_length"] == draft[1]["acceptance_length"]


def test_eval_and_generate_take_the_draft(draft: tuple[Path, dict[str, object]]) -> None:
    result = call(
        *("eval", "--target", "nano", "--draft", str(draft[0]), "--data", "chat", "--k", "2", "--seeds", "1"),
        *("--prompts-per-seed", "2", "--max-new-tokens", "16", "--context", "300,400", "--json"),
    )
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)["rows"]
    assert [row["context"] for row in rows] == [300, 400]
    keys = {"data", "context", "acceptance_length", "interval", "conditional", "survival", "hidden_norm", "sink_mass"}
    assert all(keys | {"self_mass", "tpot_mean_ms", "tpot_p95_ms"} <= row.keys() for row in rows)
    assert all(len(row["hidden_norm"]) == 2 for row in rows)
    generated = call(
        *("generate", "--target", "nano", "--draft", str(draft[0]), "--prompt", "Hello!", "--k", "2", "--compare"),
        *("--max-new-tokens", "12", "--json"),
    )
    assert json.loads(generated.stdout)["identical"] is True


def test_eval_asks_in_other_ways_and_disturbs(draft: tuple[Path, dict[str, object]]) -> None:
    """Without template and opening token a prompt is a few tokens shorter; probes are there by depth."""
    asked = (
        "--data",
        "chat",
        "--k",
        "2",
        "--seeds",
        "1",
        "--prompts-per-seed",
        "2",
        "--max-new-tokens",
        "16",
        "--json",
    )
    rows = []
    for options in ((), ("--template", "none", "--no-bos", "--noise", "0.5"), ("--system", "unseen")):
        result = call("eval", "--target", "nano", "--draft", str(draft[0]), *asked, *options)
        assert result.exit_code == 0, result.output
        rows += json.loads(result.stdout)["rows"]
    own, bare, told = (row["prompt_tokens"] for row in rows)
    assert bare < own < told
    for row in rows:
        assert row["sink_token"] is None or row["sink_token"] < 4
        assert len(row["recent_mass"]) == len(row["entropy"]) == 2
        assert len(row["feature_norm"]) == 3 and row["fused_norm"] > 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("train", "--target", "nano", "--draft", "eagle2", "--data", "shipped", "--out", "x"), "eagle2"),
        (("train", "--target", "nano", "--draft", "mtp", "--data", "shipt", "--out", "x"), "'shipt'"),
        (
            ("train", "--target", "nano", "--draft", "mtp", "--data", "shipped", "--domains", "chta", "--out", "x"),
            "chta",
        ),
        (
            (
                "train",
                "--target",
                "nano",
                "--draft",
                "mtp",
                "--data",
                "shipped",
                "--out",
                "x",
                "--start-from",
                ".",
                "--draft-vocab-size",
                "9",
            ),
            "--start-from brings its own",
        ),
        (("eval", "--target", "nano", "--draft", "none"), "none"),
        (("eval", "--target", "nano", "--draft", "small", "--data", "poems"), "'poems'"),
        (("eval", "--target", "nano", "--draft", "small", "--k", "0"), "0"),
        (("eval", "--target", "nano", "--draft", "small", "--template", "zephir"), "did you mean 'zephyr'"),
        (("eval", "--target", "nano", "--draft", "small", "--noise", "0.5"), "feeds itself no state"),
        (("eval", "--target", "nano", "--draft", "small", "--data", ","), "--data is ','; right is a domain"),
        (("eval", "--target", "nano", "--draft", "mtp", "--noise-on", "embedding"), "give both or neither"),
    ],
)
def test_wrong_values_are_named(
    arguments: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = call(*arguments)
    assert result.exit_code == 2
    assert said in result.stderr
    assert result.stdout == ""
