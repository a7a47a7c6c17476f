"""The claims: each rule on the course's metrics, and on planted ones that must turn its verdict."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from labsim.lab import drift_claims
from labsim.lab.claims.drift import WORDS
from labsim.lab.claims.findings import RULES, Finding, Value, Values, Verdict, compared, rule
from labsim.lab.claims.judge import PENDING, finding, judge
from labsim.lab.claims.store import load_directory, metrics_directory, values
from labsim.lab.claims.table import claims_file, read_claims
from labsim.lab.ttt_causes import Spread, claim_verdict

CLAIMS = read_claims()
RECORDED = load_directory(metrics_directory() / "ci")
MEASURED = values(RECORDED)
R, T, N, X, Y = Verdict.REPRODUCED, Verdict.TREND, Verdict.NOT, Verdict.REFUTED, Verdict.NOT_YET

_AL, _COUNT = "06.decoded_ratio_acceptance_length", "06.requests_decoded"

# What would have to be measured for another verdict. Every rule stands here with each verdict that it can give.
ENDS = ("", ".low", ".high")
PLANTED: list[tuple[str, dict[str, Value], Verdict]] = [
    ("S1", {}, R),
    ("S1", {"01.largest_identity_error": 0.2}, T),
    ("S1", {"01.tokens_if_accepted_over_drafted": 4.0}, X),
    ("S2", {}, R),
    ("S2", {"01.alpha_breakeven_bare": 0.04}, X),
    ("S3", {}, T),
    ("S3", {"02.rows_reaching_045": 12}, R),
    ("S3", {"02.breakeven_8b_h100_c256": 0.05}, X),
    ("S4", {}, X),
    ("S4", {"03.forwards_beyond_one_per_step_small": 1}, R),
    ("S4", {"04.forwards_per_step_at_most": 2.0}, R),
    ("S4", {"03.rejections_useless": False}, R),
    ("S5", {}, R),
    ("S5", {"02.complaint_chunk_gap_p99_change": 0.4}, T),
    ("S5", {"02.complaint_chunk_gap_p99_change": -0.1}, N),
    ("S6", {"05.length_eagle_1": 1.6, "05.length_eagle_3": 1.7, "05.length_eagle_2": 1.8}, T),
    ("S6", {"05.length_small": 1.9}, N),
    (
        "S6",
        {
            **{
                "05.length_small": 1.2,
                "05.length_small.high": 1.25,
                "05.length_eagle_1": 1.4,
                "05.length_eagle_1.low": 1.3,
            },
            **{
                "05.length_eagle_1.high": 1.5,
                "05.length_eagle_2": 1.6,
                "05.length_eagle_3": 1.8,
                "05.length_eagle_3.low": 1.7,
            },
        },
        R,
    ),
    ("S8", {}, R),
    ("S8", {"01.mixed_alpha_by_drafts": 0.58}, X),
    ("S9", {}, T),
    ("S9", {"02.eagle3_head_70b_gb": 1.0}, R),
    ("S9", {"02.kv_ratio_1b_to_head": 0.5}, X),
    ("S11", {}, X),
    ("S11", {"02.fp8_gigabytes_per_forward": 141.0}, T),
    ("S12", {}, X),
    ("S12", {"02.batch_1_speedup": 0.9}, R),
    ("S13", {}, X),
    ("S13", {"15.named_metric_exists": True}, R),
    ("E7", {}, R),
    ("E7", {"02.kimi_gb200_c4": 1.95}, T),
    ("E7", {"02.kimi_gb200_c1": 1.0}, N),
    ("A1", {f"{_AL}.low": 0.9, f"{_AL}.high": 1.3}, N),
    ("A1", {f"{_AL}.low": 2.1, f"{_AL}.high": 2.25}, R),
    ("A1", {f"{_AL}.low": 1.1, f"{_AL}.high": 1.3}, T),
    ("A2", {"06.decoded_ratio_mean_TPOT.low": 0.35, "06.decoded_ratio_mean_TPOT.high": 0.45, _COUNT: 19}, N),
    ("A2", {"06.decoded_ratio_mean_TPOT.low": 0.35, "06.decoded_ratio_mean_TPOT.high": 0.45}, R),
    ("A2", {"06.decoded_ratio_mean_TPOT.low": 0.5, "06.decoded_ratio_mean_TPOT.high": 0.7}, T),
    ("A2", {"06.decoded_ratio_mean_TPOT.low": 0.5, "06.decoded_ratio_mean_TPOT.high": 1.1}, N),
    ("A3", {"06.decoded_ratio_P95_TPOT.low": 0.6, "06.decoded_ratio_P95_TPOT.high": 0.8}, R),
    ("A3", {"06.decoded_ratio_P95_TPOT.low": 0.8, "06.decoded_ratio_P95_TPOT.high": 0.9}, T),
    ("A3", {"06.decoded_ratio_P95_TPOT.low": 0.8, "06.decoded_ratio_P95_TPOT.high": 1.2}, N),
    ("A4", {}, T),
    ("A4", {"08.formula_off_worst": 0.3}, N),
    ("A4", {"08.seven_steps_over_one": 7.0, "08.share_that_comes_once": 0.01}, R),
    ("A5", {}, R),
    ("A5", {"08.row_of_128k_fits": True}, X),
    ("A6", {}, R),
    ("A6", {"12.kept_by_8_ranks_over_an_eighth": 1.3}, T),
    ("A6", {"10.memory_of_a_doubling_from_4_on": 0.8}, N),
    ("A13", {}, R),
    ("A13", {"11.memory_ring_8_to_16_ranks": 0.7}, T),
    ("A13", {"11.memory_ulysses_over_ring_16_ranks_2_key_heads": 0.9}, N),
    ("A7", {}, R),
    ("A7", {"10.bytes_for_the_branch": 64}, X),
    ("A7", {"12.ring_bytes_for_the_branch": 64}, X),
    ("A7", {"10.branch_over_a_ring_equals_dense": False}, X),
    ("A8", {}, R),
    ("A8", {"09.late_backward_is_exact": False}, X),
    ("A8", {"09.error_64_blocks_float64": 1e-6}, X),
    ("A10", {"06.ttt_deep_survival_mtp.low": 0.01}, R),
    ("A10", {"06.ttt_deep_survival_mtp.low": -0.01}, T),
    ("A10", {"06.untrained_depth_2_falls_mtp": False}, N),
    ("A14", {}, T),
    ("A14", {"12.longest_on_one_141gb_gpu_all_remedies": 140_000}, X),
    ("A14", {"08.h100s_with_remedies_first": 16}, R),
    ("A15", {}, T),
    ("A15", {"08.doubling_adds_fused": 2.5}, R),
    ("A15", {"08.doubling_adds_naive": 2.0}, X),
    *((f"E{number}", {f"07.verdict_E{number}": words}, WORDS[words]) for number in range(1, 7) for words in WORDS),
]


@pytest.mark.parametrize(("claim", "changed", "verdict"), PLANTED, ids=lambda one: one if isinstance(one, str) else "")
def test_a_verdict_follows_the_metrics(claim: str, changed: dict[str, Value], verdict: Verdict) -> None:
    assert set(changed) <= set(RULES[claim].uses)
    assert finding(CLAIMS[claim], {**MEASURED, **changed}).verdict is verdict


def test_every_rule_has_planted_metrics_for_two_verdicts_at_least() -> None:
    given = {claim: {verdict for one, _, verdict in PLANTED if one == claim} for claim, _, _ in PLANTED}
    assert set(given) == set(RULES)
    assert all(len(verdicts) >= 2 for verdicts in given.values())


def test_every_claim_is_judged_or_said_to_be_pending() -> None:
    assert set(RULES) | set(PENDING) == set(CLAIMS)
    assert not set(RULES) & set(PENDING)


def test_every_metric_that_a_rule_uses_is_recorded() -> None:
    assert [(one.claim, use) for one in RULES.values() for use in one.uses if use not in MEASURED] == []


def test_the_verdict_of_every_measured_claim_is_not_left_open() -> None:
    judged = judge(CLAIMS, {"ci": MEASURED})
    assert {one.claim.id for one in judged if one.finding.verdict is Y} == set(PENDING)
    for one in judged:
        assert one.finding.why and not one.finding.why.endswith("."), one
        assert bool(one.finding.here) is (one.claim.id in RULES)


def test_a_missing_metric_is_no_verdict() -> None:
    without = {name: value for name, value in MEASURED.items() if name != "10.bytes_for_the_branch"}
    found = finding(CLAIMS["A7"], without)
    assert found == Finding("", Y, "no recorded metric 10.bytes_for_the_branch")


def test_a_rule_reads_only_what_it_names() -> None:
    with pytest.raises(KeyError, match=r"02\.b is not among the metrics that this rule names: 01\.a"):
        Values({"01.a": 1, "02.b": 2}, ["01.a"])["02.b"]
    with pytest.raises(ValueError, match="claim S1 has two rules"):
        rule("S1", "twice")(lambda claim, v: Finding("", Y, ""))


def test_a_larger_scale_stands_beside_where_all_its_metrics_are_there() -> None:
    laptop = {"01.alpha_breakeven_bare": 0.05, "01.speedup_of_a_useless_draft": 0.7}
    by_claim = {one.claim.id: one for one in judge(CLAIMS, {"ci": MEASURED, "laptop": laptop})}
    assert by_claim["S2"].finding.verdict is R and by_claim["S2"].at_scale["laptop"].verdict is X
    assert by_claim["S1"].at_scale == {}


REAL = {f"06.real_ratio_{kind}_acceptance_length{end}": 2.2 for kind in ("eagle3", "eagle3.1") for end in ENDS}
REAL |= {"06.real_tokens_per_step_eagle3": 2.2, "06.real_tokens_per_step_mtp": 1.0}
CLOCK = {f"06.real_ratio_eagle3_{name}_TPOT{end}": 0.41 for name in ("mean", "P95") for end in ENDS}


@pytest.mark.parametrize(
    ("claim", "metrics", "verdict"),
    [
        ("A1", REAL, R),
        ("A1", REAL | {"06.real_ratio_eagle3_acceptance_length.low": 1.01}, T),
        ("A1", REAL | {"06.real_ratio_eagle3_acceptance_length.low": 0.99}, N),
        ("A2", CLOCK, R),
        ("A2", CLOCK | {"06.real_ratio_eagle3_mean_TPOT.high": 1.1}, N),
        ("A3", CLOCK, T),
        ("A3", CLOCK | {"06.real_ratio_eagle3_P95_TPOT.high": 0.6}, R),
    ],
)
def test_a_real_model_has_rules_of_its_own_at_its_scale(
    claim: str, metrics: dict[str, Value], verdict: Verdict
) -> None:
    [judged] = judge({claim: CLAIMS[claim]}, {"ci": MEASURED, "laptop": metrics})
    found = judged.at_scale["laptop"]
    assert found.verdict is verdict and "SmolLM2" in found.here
    assert judged.finding == finding(CLAIMS[claim], MEASURED)


def test_without_their_metrics_the_common_rule_is_asked() -> None:
    [judged] = judge({"A1": CLAIMS["A1"]}, {"ci": MEASURED, "laptop": MEASURED})
    assert judged.at_scale["laptop"] == judged.finding


def test_words_and_comparison_are_those_of_the_notebooks() -> None:
    assert set(WORDS) == {drift_claims.REPRODUCED, drift_claims.TREND, drift_claims.NOT}
    for low, high in ((0.3, 0.5), (0.5, 0.7), (0.9, 1.1), (1.1, 1.3), (2.1, 2.2), (2.2, 2.5)):
        for claimed in ((0.41, 0.41), (0.56, 0.65), (2.2, 2.3)):
            ours = compared(low, high, claimed)
            assert ours is WORDS[claim_verdict(Spread((low + high) / 2, low, high), *claimed)]


def test_figures_are_read_as_written() -> None:
    assert CLAIMS["E7"].figures == (2.03, 1.71, 1.66)
    assert CLAIMS["S5"].figures == (25, 15), "P99 is a name"
    assert CLAIMS["S12"].figures == ()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda rows: rows.append(rows[1]), "claim S1 stands there twice"),
        (lambda rows: rows[1].__setitem__(1, "seed 002"), "source is 'seed 002'; known: guide, article, blog"),
        (lambda rows: rows[1].__setitem__(3, ""), "has an empty cell"),
        (lambda rows: rows[0].__setitem__(0, "name"), "columns are"),
    ],
)
def test_a_bad_claims_file_is_named(tmp_path: Path, change, says: str) -> None:
    with claims_file().open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    change(rows)
    with (tmp_path / "claims.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    with pytest.raises(ValueError, match=says):
        read_claims(tmp_path / "claims.csv")
