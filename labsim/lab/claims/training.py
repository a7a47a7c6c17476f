"""Claims A1 to A16: EAGLE-3 against MTP, and what its training needs."""

from __future__ import annotations

from .findings import Finding, Values, Verdict, compared, near, rule, with_interval
from .table import Claim

_CHECKED = 0.10  # the memory formula is checked when counted bytes are within this share of it
_LINEAR = 0.05  # "linear" allows this share
_GRID = "trainings on nano that come with the course, three seeds"


_TOO_FEW = 20  # requests below which a bootstrap of times says nothing
_PAIR = "drafts that come with the course, decoded on nano, paired bootstrap over requests; trainings, three seeds"


@rule(
    "A1",
    _PAIR,
    *with_interval("06.decoded_ratio_acceptance_length", "06.agent_length_ratio_claimed_pair"),
    *with_interval("06.agent_length_ratio_ttt_alone"),
    "06.decoded_ours",
    "06.decoded_theirs",
    "06.requests_decoded",
)
def agent_length(claim: Claim, v: Values) -> Finding:
    pair = "06.decoded_ratio_acceptance_length"
    low, high = claim.figures
    return Finding(
        f"{v.spread(pair)} times",
        compared(v[pair + ".low"], v[pair + ".high"], (low, high)),
        f"{v['06.decoded_ours']} over {v['06.decoded_theirs']} on {v['06.requests_decoded']} agent requests of a few "
        f"hundred tokens; after minutes of training such a pair gives "
        f"{v.spread('06.agent_length_ratio_claimed_pair')}, and training-time test alone, in MTP itself, "
        f"{v.spread('06.agent_length_ratio_ttt_alone')}",
    )


_REAL = "SmolLM2-135M, drafts that come with the course, greedy decoding of agent requests"
_NEWER, _OLDER = (f"06.real_ratio_{kind}_acceptance_length" for kind in ("eagle3.1", "eagle3"))


@rule(
    "A1",
    _REAL,
    *with_interval(_NEWER, _OLDER),
    *(f"06.real_tokens_per_step_{kind}" for kind in ("eagle3", "mtp")),
    scale="laptop",
)
def real_length(claim: Claim, v: Values) -> Finding:
    low, high = claim.figures
    return Finding(
        f"EAGLE-3.1 {v.spread(_NEWER)} and EAGLE-3 {v.spread(_OLDER)} times MTP without TTT",
        compared(v[_OLDER + ".low"], v[_OLDER + ".high"], (low, high)),
        f"{v['06.real_tokens_per_step_eagle3']:.2f} tokens per step over {v['06.real_tokens_per_step_mtp']:.2f}",
    )


def _clock(claimed: tuple[float, float], name: str, v: Values) -> Finding:
    requests = v["06.requests_decoded"]
    if requests < _TOO_FEW:
        return Finding(f"{v[name]:.2f} of MTP's", Verdict.NOT, f"{requests} requests: no interval")
    return Finding(
        f"{v.spread(name)} of MTP's",
        compared(v[name + ".low"], v[name + ".high"], claimed),
        f"{requests} agent requests on two cores beside a target so small that the drafts' own time decides",
    )


_CLOCK = "wall clock on this machine, paired bootstrap over requests"


@rule("A2", _CLOCK, *with_interval("06.decoded_ratio_mean_TPOT"), "06.requests_decoded", timed=True)
def mean_tpot(claim: Claim, v: Values) -> Finding:
    share = claim.figures[0] / 100
    return _clock((share, share), "06.decoded_ratio_mean_TPOT", v)


@rule("A3", _CLOCK, *with_interval("06.decoded_ratio_P95_TPOT"), "06.requests_decoded", timed=True)
def p95_tpot(claim: Claim, v: Values) -> Finding:
    least, most = claim.figures
    return _clock((1 - most / 100, 1 - least / 100), "06.decoded_ratio_P95_TPOT", v)


@rule("A2", _REAL, *with_interval("06.real_ratio_eagle3_mean_TPOT"), timed=True, scale="laptop")
def real_mean_tpot(claim: Claim, v: Values) -> Finding:
    share, name = claim.figures[0] / 100, "06.real_ratio_eagle3_mean_TPOT"
    verdict = compared(v[name + ".low"], v[name + ".high"], (share, share))
    return Finding(f"{v.spread(name)} of MTP's", verdict, "wall clock of two cores")


@rule("A3", _REAL, *with_interval("06.real_ratio_eagle3_P95_TPOT"), timed=True, scale="laptop")
def real_p95_tpot(claim: Claim, v: Values) -> Finding:
    least, most = claim.figures
    name = "06.real_ratio_eagle3_P95_TPOT"
    verdict = compared(v[name + ".low"], v[name + ".high"], (1 - most / 100, 1 - least / 100))
    return Finding(f"{v.spread(name)} of MTP's", verdict, "wall clock of two cores, the slowest of few requests")


@rule(
    "A4",
    "counted bytes",
    "08.formula_off_real_step",
    "08.formula_off_worst",
    "08.formula_off_vocabulary",
    "08.steps_cost_the_same",
    "08.share_that_comes_once",
    "08.depth_of_the_target_adds",
    "08.seven_steps_over_one",
)
def memory_law(claim: Claim, v: Values) -> Finding:
    off = max(abs(v[f"08.formula_off_{part}"]) for part in ("real_step", "worst", "vocabulary"))
    linear = off <= _CHECKED and near(v["08.steps_cost_the_same"], 1, _LINEAR)
    product = near(v["08.seven_steps_over_one"], 7, _LINEAR) and v["08.share_that_comes_once"] < _LINEAR
    return Finding(
        f"a sum within {off:.1%} of the counted bytes; each further step costs {v['08.steps_cost_the_same']:.3f} of "
        f"the one "
        f"before; seven steps {v['08.seven_steps_over_one']:.2f} times one",
        Verdict.NOT if not linear else Verdict.REPRODUCED if product else Verdict.TREND,
        "linear in L and in k, and no product: the layers that are read enter once "
        f"({v['08.share_that_comes_once']:.0%} of a "
        f"token's bytes), and the target's depth adds {v['08.depth_of_the_target_adds']:g} bytes",
    )


@rule(
    "A5",
    "the formula of A4 at this size",
    "08.weights_of_the_1_4b_draft_fit",
    "08.row_of_128k_fits",
    "08.activations_over_weights_128k",
    "08.crossover_tokens_8b",
    "12.gb_of_128k_on_one_rank",
)
def activations_first(claim: Claim, v: Values) -> Finding:
    weights, row = v["08.weights_of_the_1_4b_draft_fit"], v["08.row_of_128k_fits"]
    return Finding(
        f"at 128K tokens activations are {v['08.activations_over_weights_128k']:.0f} times the weights; the row "
        f"{'fits' if row else 'does not fit'} one H100, the weights with gradients and moments "
        f"{'do' if weights else 'do not'}; a draft of the claim's size would need "
        f"{v['12.gb_of_128k_on_one_rank']:.0f} GB",
        Verdict.REPRODUCED if weights and not row else Verdict.REFUTED,
        f"from {v['08.crossover_tokens_8b']:,.0f} tokens on activations outweigh what the parameters need; "
        f"computed, not run; states on disk, so that nothing of the target but embedding, norm and head lies beside it",
    )


@rule(
    "A6",
    "counted live bytes",
    "10.memory_of_8_ranks_over_1",
    "10.memory_of_a_doubling_from_4_on",
    "11.memory_ring_8_to_16_ranks",
    "12.kept_by_8_ranks_over_an_eighth",
    "12.peak_of_8_ranks_over_1",
)
def per_rank(claim: Claim, v: Values) -> Finding:
    kept = v["12.kept_by_8_ranks_over_an_eighth"]
    halves = near(v["11.memory_ring_8_to_16_ranks"], 1 / 2, _LINEAR) and near(
        v["10.memory_of_a_doubling_from_4_on"], 1 / 2, _LINEAR
    )
    verdict = Verdict.NOT if not halves else Verdict.REPRODUCED if near(kept, 1, _LINEAR) else Verdict.TREND
    return Finding(
        f"a training step's rank of 8 keeps {kept:.2f} times an eighth, and its peak is "
        f"{v['12.peak_of_8_ranks_over_1']:.2f} of one rank's; attention from 8 to 16 ranks "
        f"{v['11.memory_ring_8_to_16_ranks']:.2f}",
        verdict,
        f"what a step keeps is divided; what passes through a rank is not, so that attention alone holds "
        f"{v['10.memory_of_8_ranks_over_1']:.2f} at 8 ranks, and halves from 4 ranks on",
    )


@rule(
    "A7",
    "bytes counted where they are sent",
    "10.bytes_for_the_branch",
    "10.bytes_forward_4_ranks",
    "10.branch_over_a_ring_equals_dense",
    "12.ring_bytes_for_the_branch",
)
def branch_at_home(claim: Claim, v: Values) -> Finding:
    sent = v["10.bytes_for_the_branch"] + v["12.ring_bytes_for_the_branch"]
    right = v["10.branch_over_a_ring_equals_dense"]
    return Finding(
        f"{sent} bytes for the branch, {v['10.bytes_forward_4_ranks']:,} for the history",
        Verdict.REPRODUCED if sent == 0 and right else Verdict.REFUTED,
        "a query's own later keys lie where the query lies, and the result equals dense attention"
        if right
        else "the result differs from dense attention",
    )


_EXACT = (
    "09.merged_pair_is_exact",
    "09.fusion_parity",
    "09.late_backward_is_exact",
    "09.branch_is_one_more_block",
    "09.two_ranks_are_exact",
    "10.ring_equals_dense",
    "10.real_ranks_equal_logical_ranks",
    "11.every_mesh_equals_dense",
    "11.real_mesh_equals_logical_ranks",
    "12.fusion_on_a_mesh",
    "12.curves_equal_float64",
    "12.real_ranks_train_alike",
)


@rule("A8", "float64 against dense softmax", *_EXACT, "09.error_64_blocks_float64", "09.detached_dq_off")
def one_normalisation(claim: Claim, v: Values) -> Finding:
    failed = [name for name in _EXACT if not v[name]]
    worst = v["09.error_64_blocks_float64"]
    exact = not failed and worst < 1e-12
    return Finding(
        f"{len(_EXACT) - len(failed)} of {len(_EXACT)} parity checks exact, forward and backward; 64 merges off by "
        f"{'at most 1e-12' if worst < 1e-12 else f'{worst:.0e}'}",
        Verdict.REPRODUCED if exact else Verdict.REFUTED,
        f"if backward gets the merged pair; with a detached log-sum-exp the output is right and dq is off by "
        f"{v['09.detached_dq_off']:.0%}"
        if exact
        else f"off: {', '.join(failed) or 'the merges'}",
    )


@rule(
    "A10",
    _GRID,
    "06.untrained_depth_2_falls_eagle3",
    "06.untrained_depth_2_falls_mtp",
    "06.ttt_equals_drafting",
    *with_interval("06.ttt_deep_survival_eagle3", "06.ttt_deep_survival_mtp"),
)
def chained_error(claim: Claim, v: Values) -> Finding:
    falls = v["06.untrained_depth_2_falls_mtp"] and v["06.untrained_depth_2_falls_eagle3"]
    lifted = v["06.ttt_deep_survival_mtp.low"] > 0
    return Finding(
        f"training-time test adds to the survival of the deepest guess: MTP "
        f"{v.spread('06.ttt_deep_survival_mtp', 3)}, EAGLE-3 "
        f"{v.spread('06.ttt_deep_survival_eagle3', 3)}",
        Verdict.REPRODUCED
        if falls and lifted and v["06.ttt_equals_drafting"]
        else Verdict.TREND
        if falls
        else Verdict.NOT,
        f"without it the second guess {'falls' if falls else 'does not fall'} in both architectures; a step of it is a "
        f"drafting step{'' if v['06.ttt_equals_drafting'] else ' only almost'}",
    )


@rule(
    "A13",
    "counted live bytes and operations of attention",
    "11.memory_ring_8_to_16_ranks",
    "11.memory_ulysses_8_to_16_ranks",
    "11.memory_ulysses_over_ring_16_ranks_2_key_heads",
    "11.memory_ulysses_over_ring_16_ranks_16_key_heads",
)
def heads_or_tokens(claim: Claim, v: Values) -> Finding:
    ring, ulysses = v["11.memory_ring_8_to_16_ranks"], v["11.memory_ulysses_8_to_16_ranks"]
    few = v["11.memory_ulysses_over_ring_16_ranks_2_key_heads"]
    many = v["11.memory_ulysses_over_ring_16_ranks_16_key_heads"]
    linear, high = near(ring, 1 / 2, _LINEAR), few > 1 and not near(ulysses, 1 / 2, _LINEAR)
    return Finding(
        f"from 8 to 16 ranks a ring's rank holds {ring:.2f} and one of Ulysses, with 2 key heads, {ulysses:.2f}; at 16 "
        f"ranks Ulysses holds {few:.2f} times as much as a ring with 2 key heads, {many:.2f} with 16",
        Verdict.REPRODUCED if linear and high else Verdict.TREND if high else Verdict.NOT,
        f"a rank needs a whole key head for all tokens; with as many heads as ranks Ulysses holds "
        f"{'less' if many < 1 else 'more'} than a ring",
    )


@rule(
    "A14",
    "counted bytes; the formula for 128K tokens",
    "08.times_less_chunked_logits",
    "08.times_less_checkpointing",
    "08.times_less_both",
    "08.h100s_with_sp_alone",
    "08.h100s_with_remedies_first",
    "08.one_h200_is_enough",
    "12.longest_on_one_141gb_gpu_all_remedies",
    "12.ranks_for_128k_only_141gb",
    "12.ranks_for_128k_checkpointing_141gb",
)
def only_remedy(claim: Claim, v: Values) -> Finding:
    alone, after = v["08.h100s_with_sp_alone"], v["08.h100s_with_remedies_first"]
    helped, enough = after < alone, v["08.one_h200_is_enough"]
    longest = v["12.longest_on_one_141gb_gpu_all_remedies"]
    needed = longest < 128 * 1024
    verdict = Verdict.REPRODUCED if not helped else Verdict.TREND if needed else Verdict.REFUTED
    return Finding(
        f"chunked logits {v['08.times_less_chunked_logits']:.1f} times less, checkpointing "
        f"{v['08.times_less_checkpointing']:.1f}, both {v['08.times_less_both']:.1f}; for the draft of an 8B model "
        f"128K "
        f"tokens need {alone} H100s by sharing alone, {after} after both",
        verdict,
        f"the draft of an 8B model {'fits' if enough else 'does not fit'} one H200 with both remedies; one of 1.5B "
        f"{'does not: it' if needed else 'does too: it'} holds {longest:,} tokens there, and 128K need "
        f"{v['12.ranks_for_128k_checkpointing_141gb']} ranks in place of {v['12.ranks_for_128k_only_141gb']} "
        f"(the target's states on disk; the pass that fills them needs the whole target once)",
    )


@rule("A15", "counted bytes", "08.doubling_adds_fused", "08.doubling_adds_naive")
def growth(claim: Claim, v: Values) -> Finding:
    fused, naive = v["08.doubling_adds_fused"], v["08.doubling_adds_naive"]
    verdict = (
        Verdict.REPRODUCED
        if fused > 2 * (1 + _LINEAR)
        else Verdict.TREND
        if naive > 2 * (1 + _LINEAR)
        else Verdict.REFUTED
    )
    return Finding(
        f"a doubling of L adds {naive:.2f} times what the last one added with written-down scores (quadratic: 4), "
        f"{fused:.2f} with fused attention (linear: 2)",
        verdict,
        "true of attention that writes its scores down, and of nothing else in the step",
    )
