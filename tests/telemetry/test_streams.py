"""Logs of several engines in one stream: told apart by the names that collectors print, else given no alpha."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from labsim.rollout.evidence import from_record
from labsim.telemetry import AcceptanceRecord, read
from labsim.telemetry.reader import replica
from labsim.telemetry.streams import taking_turns
from labsim.telemetry.sums import Observation, Sums
from scripts import engine_output as out
from tests.telemetry.helpers import has_warning, read_text

GOOD, BAD = (0.8, 0.62, 0.48), (0.5, 0.25, 0.1)
PREFIXES = {
    "kubectl": "[pod/vllm-{}-x7k2p/vllm] ",
    "compose": "vllm-{}  | ",
    "swarm": "llm_vllm.{}.k3j4h5@node1    | ",
    "stern": "vllm-7f9c4d-abc4{} vllm ",
    "syslog": "Mar  7 {time} node-{} vllm[4711]: ",
    "journald": "2026-03-07T{time}+0000 host vllm@{}[4711]: ",
    "ray": "(EngineCore pid=4711, ip=10.0.0.{}) ",
}


def merged(wording: str, *pods: out.Steps, prefix: str = "", windows: int = 20) -> str:
    """The pods' windows of 10 s, each some seconds behind the one before, in order of time."""
    lines = []
    for pod, steps in enumerate(pods):
        for i, some in enumerate(out.windows(steps, len(steps) // windows)):
            at = 10.0 * i + 3 * pod
            line = (
                out.sglang_line(some, 3, "outside", at=at)
                if wording == "sglang"
                else out.vllm_v0_line(steps[: (i + 1) * len(some)], 3, 0.7, at=at)
                if wording == "v0"
                else out.vllm_v1_line(some, 3, wording, at=at)
            )
            lines.append((at, prefix.format(pod + 1, time=out.stamp(at)[6:]) + line))
    return "".join(f"{line}\n" for _, line in sorted(lines))


def steps(*survivals: tuple[float, ...], count: int = 4_000) -> list[out.Steps]:
    return [out.draw_steps(seed, survival, count) for seed, survival in enumerate(survivals)]


def no_alpha(record: AcceptanceRecord) -> str:
    """Why the gate gets no alpha from it."""
    assert record.unpooled is not None and record.unpooled.parts == ()
    assert has_warning(record, f"mixed stream: {record.unpooled.reason}")
    evidence = from_record(record, 3, 3)
    assert evidence.alpha is None and record.unpooled.reason in evidence.missing
    return record.unpooled.reason


@pytest.mark.parametrize("collector", PREFIXES)
def test_a_name_in_front_tells_two_replicas_apart(collector: str) -> None:
    pods = steps(GOOD, BAD)
    record = read_text(merged("0.10.2", *pods, prefix=PREFIXES[collector]))
    found = sorted(part.record.alpha for part in record.unpooled.parts)
    assert found == pytest.approx(sorted(out.truth(pod, 3)["alpha"] for pod in pods))
    assert not has_warning(record, "mixed stream")


@pytest.mark.parametrize("wording", ["sglang", "v0"])
def test_other_engines_are_told_apart_by_it_too(wording: str) -> None:
    pods = steps(GOOD, BAD)
    record = read_text(merged(wording, *pods, prefix=PREFIXES["kubectl"]))
    found = sorted(part.record.alpha for part in record.unpooled.parts)
    assert found == pytest.approx(sorted(out.truth(pod, 3)["alpha"] for pod in pods), abs=0.01)


@pytest.mark.parametrize("collector", ["kubectl", "syslog"])
def test_ranks_of_sglang_are_seen_behind_a_name(collector: str) -> None:
    """Rank 1 repeats rank 0 and counts nothing."""
    [pod] = steps(GOOD)
    one = merged("sglang", pod, prefix=PREFIXES[collector])
    assert len(read_text(one + one.replace("TP0]", "TP1]")).windows) == len(read_text(one).windows) == 20


@pytest.mark.parametrize(
    "line",
    [
        "INFO 03-07 09:30:00 [metrics.py:96] SpecDecoding metrics: ...",
        "(APIServer pid=4711) INFO 03-07 09:30:00 [metrics.py:96] SpecDecoding metrics: ...",
        "[2026-03-07 09:30:00 TP0] Decode batch, ...",
        "2026-03-07T09:30:00.123456789Z INFO 03-07 09:30:00 SpecDecoding metrics: ...",
        "1772875800.123 | INFO SpecDecoding metrics: ...",
        "2026-03-07 09:30:00 | INFO | SpecDecoding metrics: ...",
        "0.05.123.015 I slot print_timing: id  0 | task 0 | draft acceptance = 0.6",
    ],
)
def test_a_line_without_a_name_has_none(line: str) -> None:
    assert replica(line) is None


@pytest.mark.parametrize("alike", [False, True])
def test_prints_that_cover_more_time_than_passed_are_of_several_engines(alike: bool) -> None:
    """Also where all accept alike by now: nothing says that they do."""
    why = no_alpha(read_text(merged("0.10.2", *steps(GOOD, GOOD if alike else BAD))))
    assert "its prints cover 2.0 times the time that has passed" in why and "kubectl logs --prefix" in why
    assert read_text(merged("0.10.2", *steps(GOOD))).unpooled is None


@pytest.mark.parametrize("wording", ["0.9", "sglang"])
@pytest.mark.parametrize("pods", [(GOOD, BAD), (GOOD, (0.7, 0.5, 0.35), (0.6, 0.35, 0.2), BAD)])
def test_engines_that_take_turns_are_seen_without_throughput(wording: str, pods: tuple) -> None:
    why = no_alpha(read_text(merged(wording, *steps(*pods))))
    assert "alpha goes to and fro between about" in why


def test_two_files_one_after_the_other_are_one_stream_too() -> None:
    good, bad = steps(GOOD, BAD)
    assert "to and fro" in no_alpha(read_text(merged("0.9", good) + merged("0.9", bad)))


def test_counters_of_two_v0_engines_are_told_from_windows() -> None:
    good, bad = steps(GOOD, BAD)
    why = no_alpha(read_text(merged("v0", good[:1_000], bad)))
    assert "not from one to the 2 lines later" in why


def test_the_first_of_several_files_is_named_too(tmp_path: Path) -> None:
    for name, pod in zip(("a.log", "b.log"), steps(GOOD, BAD), strict=True):
        (tmp_path / name).write_text(merged("0.10.2", pod))
    record = read([tmp_path / "a.log", tmp_path / "b.log"])
    assert {part.what for part in record.unpooled.parts} == {"a.log", "b.log"}


def windows(values: list[float]) -> list[Sums]:
    series = []
    for value in values:
        series.append(Sums())
        series[-1].add(Observation(alpha=value))
    return series


@pytest.mark.parametrize("kind", ["scatter", "wandering traffic", "a shift", "rare jumps"])
def test_one_engine_is_hardly_ever_taken_for_several(kind: str) -> None:
    alarms = 0
    for seed in range(200):
        rng, values, level = random.Random(seed), [], 0.0
        for i in range(rng.choice((16, 24, 60, 100))):
            level = 0.8 * level + rng.gauss(0, 0.05)
            values.append(
                0.5
                + rng.gauss(0, 0.02)
                + {
                    "scatter": 0.0,
                    "wandering traffic": level,
                    "a shift": 0.2 * (i > 10),
                    "rare jumps": 0.3 * (rng.random() < 0.1),
                }[kind]
            )
        alarms += taking_turns(windows(values), 0.001) is not None
    assert alarms <= 2
