"""Which benchmarks may be compared, and what the two latencies say about speculation."""

from __future__ import annotations

import pytest

from labsim.rollout import plan
from labsim.rollout.benches import no_chunk_gap, pair_up, speculates
from tests.rollout.samples import acceptance, bare_bench, inputs, spec_bench


@pytest.mark.parametrize(
    ("baselines", "candidates", "says"),
    [
        ([bare_bench(concurrency=8)], [spec_bench()], r"differ in concurrency: 8 in base\.txt, 32 in spec\.txt"),
        ([spec_bench("a")], [spec_bench("b")], "baseline benchmark a ran with speculation"),
        ([bare_bench("a")], [bare_bench("b")], "candidate benchmark b ran without speculation"),
        ([acceptance()], [spec_bench()], r"engine\.log holds no client benchmark"),
        ([bare_bench()], [acceptance()], r"engine\.log holds no client benchmark"),
        ([bare_bench(), bare_bench("c")], [spec_bench()], "c has concurrency 32"),
        ([bare_bench(), bare_bench("c", concurrency=1)], [spec_bench(concurrency=8)], "has concurrency 8"),
        ([bare_bench(concurrency=None), bare_bench("c")], [spec_bench()], "unstated"),
        ([bare_bench()], [spec_bench(), spec_bench("twice")], "twice has concurrency 32"),
    ],
)
def test_nonsense_pairs_are_refused(baselines: list, candidates: list, says: str) -> None:
    with pytest.raises(ValueError, match=says) as error:
        plan(inputs(baseline=tuple(baselines), candidate=tuple(candidates)))
    assert "\n" not in str(error.value) and "allowed" in str(error.value)


def test_two_clients_are_not_compared() -> None:
    sglang = spec_bench(record={"engine": "sglang"})
    base = bare_bench()
    vllm_base = type(base)(**{**vars(base), "engine": "vllm"})
    with pytest.raises(ValueError, match="two clients"):
        pair_up([vllm_base], [sglang])


def test_one_side_alone_is_still_checked() -> None:
    assert pair_up([bare_bench()], []) == () and pair_up([], [spec_bench()]) == ()
    with pytest.raises(ValueError, match="ran with speculation"):
        pair_up([spec_bench()], [])


def test_several_pairs_meet_by_concurrency() -> None:
    made = plan(
        inputs(
            baseline=(bare_bench("b32"), bare_bench("b1", concurrency=1)),
            candidate=(spec_bench("s1", concurrency=1, tpot_p99_ms=12.5), spec_bench("s32")),
        )
    )
    assert [(p.concurrency, p.baseline_file, p.candidate_file) for p in made.pairs] == [
        (1, "b1", "s1"),
        (32, "b32", "s32"),
    ]
    assert made.verdict == "no-go"
    assert [g.name for g in made.gates if g.passed is False] == ["tpot_p99 at concurrency 1"]
    assert len(made.gates) == 7


def test_speculation_shows_in_the_ratio_of_the_two_latencies() -> None:
    assert speculates(bare_bench()) is False
    assert speculates(bare_bench(itl_mean_ms=14.0, tpot_mean_ms=5.0)) is True
    assert speculates(bare_bench(itl_mean_ms=None)) is None
    assert speculates(spec_bench(itl_mean_ms=None)) is True


@pytest.mark.parametrize(
    ("engine", "itl", "tpot", "length", "is_gap"),
    [
        ("vllm", 57.98, 35.39, 1.64, True),  # printed runs
        ("vllm", 24.44, 9.38, 2.606, True),
        ("sglang", 8.72, 3.42, 2.55, True),  # SGLang before its #12064
        ("sglang", 3.20, 3.42, 2.55, False),  # and after it
        ("vllm", 3.42, 3.42, 2.55, False),  # AIPerf's inter-token latency is TPOT
        ("vllm", 10.0, 10.0, 1.02, True),  # hardly any acceptance: both are the same
    ],
)
def test_whether_itl_is_the_gap_between_chunks(
    engine: str, itl: float, tpot: float, length: float, is_gap: bool
) -> None:
    record = spec_bench(record={"engine": engine, "acceptance_length": length}, itl_mean_ms=itl, tpot_mean_ms=tpot)
    assert (no_chunk_gap(record) is None) == is_gap


def test_sglang_without_the_means_is_not_trusted() -> None:
    assert "too little" in no_chunk_gap(spec_bench(record={"engine": "sglang"}, itl_mean_ms=None))
    assert no_chunk_gap(spec_bench(itl_mean_ms=None)) is None


def test_step_ratio_and_speedup_of_a_pair() -> None:
    (pair,) = pair_up([bare_bench()], [spec_bench()])
    assert pair.step_ratio == pytest.approx(1.4) and pair.speedup == pytest.approx(2.0)
    (pair,) = pair_up([bare_bench()], [spec_bench(record={"engine": "sglang"}, itl_mean_ms=5.0)])
    assert pair.step_ratio is None, "a divided ITL is no step time"


def test_an_unstated_concurrency_is_told() -> None:
    made = plan(inputs(candidate=spec_bench(concurrency=None)))
    assert made.verdict == "go"
    assert any("spec.txt does not state its concurrency" in note for note in made.notes)
