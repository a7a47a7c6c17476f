"""`labsim memory`: its document, its probe, and what it refuses."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from labsim.commands.memory import command
from labsim.sim.drafts import eagle3_parameters
from labsim.sim.targets import find_model

LLAMA = ["--target", "llama-3.1-8b", "--draft", "eagle3", "--seq", "131072", "--ttt", "7"]


def document(*arguments: str) -> dict:
    result = CliRunner().invoke(command, [*arguments, "--json"], standalone_mode=False)
    assert result.exception is None, result.exception
    return json.loads(result.stdout)


def test_the_document_of_a_known_target() -> None:
    found = document(*LLAMA, "--sp", "8")
    for attention in ("fused", "naive"):
        parts = found["per_rank"][attention]
        assert sum(v for name, v in parts.items() if name not in ("moment", "total")) == pytest.approx(parts["total"])
        assert {"parameters", "gradients", "optimizer", "features", "teacher", "logits", "activations"} <= set(parts)
    assert found["gradient_bytes"] == 4 * eagle3_parameters("llama-3.1-8b")
    assert found["per_rank"]["fused"]["optimizer"] == 8 * eagle3_parameters("llama-3.1-8b")
    assert found["per_rank"]["naive"]["total"] > 10 * found["per_rank"]["fused"]["total"]
    assert found["measured"] is False and "sequence parallelism" in found["not_measured"][1]


def test_the_first_remedies_need_no_second_gpu() -> None:
    """Claim A14: on one GPU of 141 GB the row of 131,072 tokens trains, with chunked logits and checkpointing."""
    found = document(*LLAMA, "--gpu", "h200")
    assert not found["fits"]
    assert [(one["remedy"], one["fits"]) for one in found["what_to_do"]] == [
        ("chunked logits", False),
        ("checkpointing", True),
    ]
    after = document(*LLAMA, "--gpu", "h200", "--chunked-logits", "--checkpointing")
    assert after["fits"]
    assert after["per_rank"]["fused"]["total"] == pytest.approx(found["what_to_do"][1]["bytes"]["total"])


def screen(*arguments: str) -> str:
    result = CliRunner().invoke(command, list(arguments), standalone_mode=False)
    assert result.exception is None, result.exception
    return result.stdout


def test_the_screen_shows_the_attention_that_is_judged() -> None:
    """128K is the row of 131,072 tokens; terabytes are not told to the megabyte."""
    row = ["--target", "llama-3.1-8b", "--draft", "eagle3", "--seq", "128K"]
    fused, naive = screen(*row), screen(*row, "--attention", "naive")
    assert "fused attention, per rank" in fused and "naive" not in fused
    assert "naive attention, per rank" in naive and "fused" not in naive
    total = document(*LLAMA)["per_rank"]["naive"]["total"] / 1e9
    assert total > 10_000 and f" {total:,.0f} GB\n" in naive
    assert f" {document(*LLAMA)['per_rank']['fused']['total'] / 1e9:,.1f} GB\n" in fused


def test_a_name_with_the_same_words_is_meant() -> None:
    with pytest.raises(ValueError, match=r"did you mean 'Llama-3\.3-70B'"):
        find_model("llama-70b")
    with pytest.raises(ValueError, match="did you mean 'Qwen3-Coder-30B-A3B'"):
        find_model("qwen3-coder-30b")


def test_a_target_that_fills_the_gpu_is_named_with_the_way_out() -> None:
    asked = ("--target", "llama-3.3-70b", "--seq", "131072", "--gpu", "h100")
    verdict = document(*asked)["verdict"]
    assert "141.1 GB on each rank are the target's weights" in verdict and "--features" in verdict
    assert "fewer steps" not in verdict, "nothing about the row makes room"
    assert verdict.endswith(document(*asked, "--no-target-weights")["verdict"])
    assert "--features" not in document("--target", "llama-3.1-8b", "--seq", "131072", "--gpu", "h100")["verdict"]


def test_the_probe_runs_the_step_and_the_formula_is_near() -> None:
    arguments = [
        "--target",
        "nano",
        "--ttt",
        "3",
        "--dtype",
        "fp32",
        "--draft-vocab-size",
        "512",
        "--probe",
        "--device",
        "cpu",
    ]
    short = document(*arguments, "--seq", "160")
    [row] = short["probe"]["rows"]
    assert short["measured"] and row["predicted"] == pytest.approx(row["peak"], rel=0.1)
    long = document(*arguments, "--seq", "1024", "--logit-chunk", "64")
    assert not long["measured"] and [row["positions"] for row in long["probe"]["rows"]] == [128, 256]
    assert long["dominates"] == "activations"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--target", "nosuch", "--seq", "4096"], "; and nano, smollm2, or a directory with a config.json"),
        (["--target", "lama-3.1-8b", "--seq", "4096"], "unknown model 'lama-3.1-8b'; did you mean 'Llama-3.1-8B'"),
        (["--target", "llama-3.1-8b", "--seq", "4096", "--gpu", "h1000"], "unknown gpu 'h1000'"),
        (["--target", "llama-3.1-8b", "--seq", "4096", "--draft-vocab-size", "200000"], "llama-3.1-8b has 128256"),
        (["--target", "llama-3.1-8b", "--seq", "4096", "--places", "5000"], "places is 5000; right is 1 to positions"),
        (["--target", "nano", "--seq", "64", "--device", "cpu"], "--device belongs to --probe"),
        (["--target", "nano", "--seq", "64", "--probe", "--sp", "2"], "--probe runs one rank"),
        (["--target", "nano", "--seq", "8", "--probe"], "a row of 7 TTT steps needs at least 10 tokens"),
        (["--target", "nano", "--seq", "4096", "--probe", "--ttt", "0"], "0 is not in the range"),
        (["--target", "llama-3.1-8b", "--seq", "1000000000"], "1000000000 is not in the range"),
        (["--target", "llama-3.1-8b", "--seq", "4096", "--ttt", "1000000000"], "1000000000 is not in the range"),
        (["--target", "llama-3.1-8b", "--seq", "4096", "--gpu", ""], "unknown gpu ''"),
        (["--target", "nano", "--seq", "64", "--probe", "--rows", "2"], "--probe runs one row"),
    ],
)
def test_wrong_values_end_in_one_line(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
