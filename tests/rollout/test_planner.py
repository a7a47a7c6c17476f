"""The plan as a document: contract of the JSON, nine stages, and an origin for every number."""

from __future__ import annotations

import json
import re
from itertools import product
from math import ceil

import pytest

from labsim.rollout import PlanInput, plan
from labsim.rollout.stages_live import drafts_of_a_canary, drafts_to_decide
from labsim.sim.intervals import draft_acceptance_interval
from labsim.telemetry.record import Part, Unpooled
from tests.rollout.samples import POINTS, SURVIVAL, acceptance, bare_bench, inputs, spec_bench

SHIFTED = Unpooled(
    "alpha shifts from 0.600 to 0.300 at 03-07 09:32:30: what comes after counts",
    (Part("since 03-07 09:32:30", acceptance(alpha=0.3, alpha_interval=(0.29, 0.31), survival=(0.5, 0.3, 0.1))),),
)
NUMBER = re.compile(r"(?<![\w.#-])\d[\d,]*(?:\.\d+)?")
TAG = re.compile(r"\[([^\]]+)\]")
ORIGINS = ("your input", "default", "formula", "published", "cost model", "mean ITL of", "your step times")


def variants() -> list[PlanInput]:
    """Plans of every shape: with and without each measurement, both engines, all rules, mixes, unknown targets."""
    made = []
    for log, base, spec, engine in product([True, False], [True, False], [True, False], ["vllm", "sglang"]):
        made.append(
            inputs(
                acceptance=acceptance() if log else None,
                baseline=bare_bench() if base else (),
                candidate=spec_bench() if spec else (),
                engine=engine,
            )
        )
    low = acceptance(alpha=0.3, alpha_interval=(0.29, 0.31), survival=(0.5, 0.3, 0.1))
    made += [
        inputs(acceptance=low),
        inputs(acceptance=low, rule="breakeven"),
        inputs(acceptance=low, rule="policy", policy=0.2),
        inputs(k=5),
        inputs(k=1, acceptance=acceptance(survival=None)),
        inputs(target="org/unknown"),
        inputs(gpu=None, concurrency=POINTS, step_times={1: (10, 13)}),
        inputs(concurrency=POINTS),
        inputs(acceptance=acceptance(unpooled=SHIFTED)),
        inputs(acceptance=acceptance(unpooled=Unpooled("it holds several draft lengths (4, 7): give one log per K"))),
        inputs(traffic={"chat": 0.7, "code": 0.3}, alpha_by={"chat": 0.7, "code": 0.4}),
        inputs(traffic={"a": 2, "b": 1}, alpha_by={"a": acceptance(), "b": low}, traffic_shares="requests"),
        inputs(concurrency=(4000,), context=4000),
        inputs(method="ngram", draft_checkpoint=None, engine="sglang"),
        inputs(candidate=spec_bench(record={"engine": "sglang"}, itl_mean_ms=5.0)),
        inputs(acceptance=acceptance(warnings=("windows drift from 0.5 to 0.7",))),
        inputs(acceptance=acceptance(alpha_interval=None, drafts=None, drafted=None, accepted=None, survival=None)),
    ]
    return made


def prose(document: str) -> list[str]:
    """The document's lines without code blocks, inline code, headings and references to stages."""
    lines, in_code = [], False
    for text in document.split("\n"):
        if text.startswith("```"):
            in_code = not in_code
        elif not in_code and not text.startswith("#"):
            lines.append(re.sub(r"stages? \d", "stage", re.sub(r"`[^`]*`", "", text)))
    assert not in_code
    return lines


@pytest.mark.parametrize("given", variants())
def test_every_number_has_an_origin(given: PlanInput) -> None:
    made = plan(given)
    document = made.to_markdown()

    def mark(found: re.Match[str]) -> str:
        """[] where the brackets hold an origin."""
        known = (*ORIGINS, *made.files, "rule of thumb", "lower bound from", "policy", "break-even")
        return "[]" if any(word in found[1] for word in known) else ""

    header: list[str] = []
    for text in prose(document):
        if text.startswith("|"):
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", text)[1:-1]]
            if set(text) <= set("|-"):
                continue
            if not header:
                header = cells
                continue
            assert len(cells) == len(header), text
            origins = [cells[i] for i, name in enumerate(header) if "from" in name]
            assert origins and all(origins), text
            continue
        header = []
        plain = TAG.sub(mark, text)
        for found in NUMBER.finditer(plain):
            assert "[]" in plain[found.end() :], f"{found[0]} has no origin in: {text}"


@pytest.mark.parametrize("given", variants())
def test_the_json_contract(given: PlanInput) -> None:
    report = json.loads(json.dumps(plan(given).to_dict(), allow_nan=False))
    assert report["verdict"] in ("go", "no-go", "measure-first") and report["rule"] == given.rule
    assert {"alpha", "alpha_lower", "breakeven", "gates", "stages", "commands"} <= report.keys()
    assert list(report["breakeven"]) == [str(c) for c in given.concurrency]
    results = [gate["passed"] for gate in report["gates"]]
    expected = "no-go" if False in results else "measure-first" if None in results else "go"
    assert report["verdict"] == expected
    for gate in report["gates"]:
        assert {"name", "value", "limit", "passed", "source"} <= gate.keys() and gate["source"]
        if gate["passed"] is not None:
            holds = gate["value"] >= gate["limit"] if gate["better"] == "at least" else gate["value"] <= gate["limit"]
            assert holds == gate["passed"]
        else:
            assert gate["reason"]
    assert [stage["number"] for stage in report["stages"]] == list(range(9))
    assert all(stage["body"].strip() for stage in report["stages"])


def test_every_measured_figure_names_its_file() -> None:
    base = bare_bench("runs/base.txt", tpot_p99_ms=17.31, ttft_p99_ms=233.17, itl_p99_ms=21.19, tpot_mean_ms=10.07)
    spec = spec_bench("runs/spec.txt", tpot_p99_ms=13.37, ttft_p99_ms=219.23, itl_p99_ms=61.61, tpot_mean_ms=5.03)
    log = acceptance(alpha=0.6121, alpha_interval=(0.5937, 0.6303), files=("logs/engine.log",))
    document = plan(inputs(baseline=base, candidate=spec, acceptance=log)).to_markdown()
    figures = {
        "runs/base.txt": ["17.31", "233.17", "21.19", "10.07"],
        "runs/spec.txt": ["13.37", "219.23", "61.61", "5.03"],
        "logs/engine.log": ["0.612", "0.594"],
    }
    for file, values in figures.items():
        for value in values:
            lines = [text for text in document.split("\n") if value in text]
            assert lines, f"{value} of {file} is not in the plan"
            assert all(file in text for text in lines), f"{value} without {file}"
    assert plan(inputs(baseline=base, candidate=spec, acceptance=log)).files == (
        "logs/engine.log",
        "runs/base.txt",
        "runs/spec.txt",
    )


def test_without_measurements_no_latency_is_named() -> None:
    made = plan(inputs(acceptance=None, baseline=(), candidate=()))
    assert made.verdict == "measure-first" and made.to_dict()["alpha"] is None
    latencies = re.findall(r"(\d[\d.]*) ms", "\n".join(prose(made.to_markdown())))
    assert {float(value) for value in latencies} == {100.0}, "the stall limit, an input"
    assert "no measured survival vector" in made.to_markdown()
    limits = next(stage for stage in made.stages if stage.name == "canary").body
    assert any("not measured: your baseline" in text for text in limits)


def test_rollback_limits_are_the_baselines_own_figures() -> None:
    made = plan(inputs(tpot_tolerance=0.05, ttft_tolerance=0.2, stall_limit_ms=150))
    text = "\n".join(next(stage for stage in made.stages if stage.name == "canary").body)
    assert "above 12.60 ms | 12.00 ms in base.txt x 1.05" in text
    assert "above 240.00 ms | 200.00 ms in base.txt x 1.2" in text
    assert "above 150 ms" in text and "below 0.550" in text
    assert "1 %, 5 %, 25 %, 100 %" in text


def test_drafts_to_decide_is_the_smallest_number() -> None:
    needed = drafts_to_decide(SURVIVAL, 0.55)
    assert draft_acceptance_interval(SURVIVAL, needed).low >= 0.55 > draft_acceptance_interval(SURVIVAL, needed - 1).low
    # z^2 var(n) / K^2 / (alpha - limit)^2 = 3.84 * 1.36 / 9 / 0.0025 = 232
    assert needed == pytest.approx(232, rel=0.05)
    # Real steps resemble one another, and a handful of requests decides nothing.
    assert drafts_of_a_canary(plan(inputs())) == 1000
    wide = plan(inputs(acceptance=acceptance(), policy=0.59))
    assert drafts_of_a_canary(wide) == ceil(2.25 * drafts_to_decide(SURVIVAL, 0.59)) > 10_000
    assert drafts_to_decide(SURVIVAL, 0.6) is None and drafts_to_decide(SURVIVAL, 0.7) is None


def test_the_stages_say_what_they_must() -> None:
    document = plan(inputs()).to_markdown()
    for words in (
        "`(latency - TTFT) / (output tokens - 1)`",
        "mean ITL / mean TPOT is the acceptance length",
        "`synthetic_acceptance_rates` is the survival vector itself",
        "num_speculative_tokens_per_batch_size",
        "vllm#49548",
        "vllm:spec_decode_num_accepted_tokens_total",
        "`spec_decode_metrics.accepted_tokens_per_request` does not exist",
        "chunk gap",
        "domain draft",
        "N-gram drafting",
        "**Off.**",
    ):
        assert words in document, words
    sglang = plan(inputs(engine="sglang")).to_markdown()
    assert "sglang:spec_accept_length" in sglang and "sglang#12064" in sglang and "vllm:spec_decode" not in sglang


def test_the_smaller_k_table() -> None:
    """alpha at K = 1, 2, 3 of the vector .8/.6/.4, and the speedup (1 + K alpha) / R at concurrency 128."""
    made = plan(inputs())
    rows = [text for text in made.stages[8].body if re.match(r"\| \d ", text)]
    assert [row.split(" | ")[1] for row in rows] == ["0.800", "0.700", "0.600"]
    ratio = made.points[-1].step_ratio
    assert rows[2].split(" | ")[3] == f"{2.8 / ratio:.2f}"


def test_defaults_and_inputs_are_told_apart() -> None:
    text = plan(inputs(policy=0.5, rule="policy")).to_markdown()
    assert "policy 0.5 [your input]" in text and "margin 0.05 [default]" in text and "`policy` [your input]" in text


def test_what_must_not_be_pooled_reaches_the_verdict() -> None:
    """0.6 before, 0.3 since: pooled it would pass break-even plus margin at 32 (0.22) with room, and the policy too."""
    since = plan(inputs(acceptance=acceptance(unpooled=SHIFTED)))
    assert (since.evidence.alpha, since.evidence.alpha_lower) == (0.3, 0.29)
    assert since.verdict == "no-go" and "shifts from 0.600 to 0.300 at 03-07 09:32:30" in since.decided_by
    assert since.commands.forced_acceptance is not None and "0.5, 0.3, 0.1" in str(since.commands.forced_acceptance)
    assert since.gates[0].source == "lower bound from engine.log, since 03-07 09:32:30"
    engines = Unpooled(
        "alpha is 0.300 on 1 and 0.600 on 0: the worst one counts",
        (Part("0", acceptance()), Part("1", SHIFTED.parts[0].record)),
    )
    worst = plan(inputs(acceptance=acceptance(unpooled=engines)))
    assert worst.evidence.alpha == 0.3 and worst.evidence.origin == "engine.log, 1"
    several = Unpooled("it holds several draft lengths (4, 7): give one log per K")
    for known in (None, 3):
        none = plan(inputs(acceptance=acceptance(k=None, survival=None, unpooled=several), acceptance_k=known))
        assert none.verdict == "measure-first" and none.evidence.alpha is None
        assert "several draft lengths (4, 7)" in none.gates[0].reason and "--alpha-k" not in none.gates[0].reason


def test_files_of_a_long_path_are_named_by_their_last_part() -> None:
    log, base = acceptance(files=("/a/very/long/path/engine.log",)), bare_bench("/a/very/long/path/base.txt")
    made = plan(inputs(acceptance=log, baseline=base))
    document = made.to_markdown()
    assert document.count("/a/very/long/path") == 1 and "Measured files lie in `/a/very/long/path`" in document
    assert made.files[0] == "/a/very/long/path/engine.log"
    same = plan(inputs(acceptance=log, baseline=bare_bench("/other/engine.log"))).to_markdown()
    assert "/a/very/long/path/engine.log" in same and "/other/engine.log" in same


@pytest.mark.parametrize("name", ["we|ird.log", "two\nlines.log", "[x].log"])
def test_odd_file_names_do_not_break_the_tables(name: str) -> None:
    document = plan(inputs(acceptance=acceptance(files=(name,)), baseline=bare_bench(name))).to_markdown()
    width = None
    for text in prose(document):
        if not text.startswith("|"):
            width = None
            continue
        cells = len(re.split(r"(?<!\\)\|", text))
        assert cells == (width or cells), text
        width = cells


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"k": 0}, "k is 0; allowed: a whole number of at least 1"),
        ({"k": 2.5}, "k is 2.5"),
        ({"concurrency": ()}, "concurrency is empty"),
        ({"concurrency": (1, 0)}, "concurrency is 0"),
        ({"gpu": "h10"}, "did you mean 'h100'"),
        ({"dtype": "fp7"}, "did you mean 'fp"),
        ({"engine": "vlm"}, "did you mean 'vllm'"),
        ({"method": "eagle4"}, "did you mean 'eagle"),
        ({"rule": "policies"}, "did you mean 'policy'"),
        ({"policy": 55}, "policy is 55.0; allowed: 0 to 1"),
        ({"margin": -0.1}, "margin is -0.1"),
        ({"stall_limit_ms": 0}, "stall_limit_ms is 0.0"),
        ({"tpot_tolerance": float("nan")}, "tpot_tolerance is nan"),
        ({"ttft_tolerance": -1}, "ttft_tolerance is -1"),
        ({"context": 0}, "context is 0"),
        ({"tensor_parallel": 0}, "tensor_parallel is 0"),
        ({"draft_checkpoint": None}, "draft_checkpoint is missing; allowed: a Hugging Face id or path, which eagle3"),
        ({"target": ""}, "target is ''"),
        ({"target": "--port 1"}, "no leading dash"),
        ({"traffic": {"chat": 1.0}}, "alpha_by is missing"),
        ({"alpha_by": {"chat": 1.0}}, "traffic is missing"),
        ({"traffic": {"chat": 1}, "alpha_by": {"chta": 0.5}}, "did you mean 'chta'"),
        ({"traffic": {"chat": 1}, "alpha_by": {"chat": 0.5, "code": 0.5}}, "unknown kind of traffic"),
        ({"traffic": {"chat": -1}, "alpha_by": {"chat": 0.5}}, "traffic chat is -1"),
        ({"traffic": {"chat": 0}, "alpha_by": {"chat": 0.5}}, "at least one share above 0"),
        ({"traffic": {"chat": 1}, "alpha_by": {"chat": 1.5}}, "alpha_by chat is 1.5"),
        ({"traffic_shares": "token"}, "did you mean 'tokens'"),
        (
            {"concurrency": POINTS, "step_times": {8: (1, 2)}},
            "step_times concurrency is 8; allowed: one of the concurrency points: 1, 32, 128",
        ),
        ({"step_times": {1: (0, 2)}}, "step_times at 1"),
    ],
)
def test_wrong_inputs_are_named(changes: dict, says: str) -> None:
    with pytest.raises(ValueError) as error:
        inputs(**changes)
    assert says in str(error.value) and "\n" not in str(error.value)
