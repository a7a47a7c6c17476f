"""Answers to the exercises of notebook 02."""

from tests.mutants.harness import Answers, Wrong

# 02.1 break-even from step times


def from_ratio(plain_ms, speculative_ms, k):
    return (speculative_ms / plain_ms - 1) / k


def from_extra_time(plain_ms, speculative_ms, k):
    extra = speculative_ms - plain_ms
    return extra / (plain_ms * k)


def whole_step(plain_ms, speculative_ms, k):
    return speculative_ms / plain_ms - 1


def all_tokens(plain_ms, speculative_ms, k):
    return (speculative_ms / plain_ms) / k


def k_plus_one(plain_ms, speculative_ms, k):
    return (speculative_ms / plain_ms - 1) / (k + 1)


def in_milliseconds(plain_ms, speculative_ms, k):
    return (speculative_ms - plain_ms) / k


def of_the_speculative_step(plain_ms, speculative_ms, k):
    return (speculative_ms - plain_ms) / speculative_ms / k


def upside_down(plain_ms, speculative_ms, k):
    return (plain_ms / speculative_ms - 1) / k


def a_constant(plain_ms, speculative_ms, k):
    return 0.55


# 02.3 configs


def table(mode, k, draft):
    return {
        "draft model": {"method": "draft_model", "model": draft, "num_speculative_tokens": k},
        "EAGLE-3": {"method": "eagle3", "model": draft, "num_speculative_tokens": k},
        "n-gram": {"method": "ngram", "num_speculative_tokens": k, "prompt_lookup_max": 4},
    }[mode]


def with_more_keys(mode, k, draft):
    config = {"num_speculative_tokens": k}
    if mode == "n-gram":
        return config | {"method": "ngram", "prompt_lookup_max": 5, "prompt_lookup_min": 2}
    config["model"] = draft
    if mode == "EAGLE-3":
        config |= {"method": "eagle3", "draft_tensor_parallel_size": 1}
    return config


def eagle_as_a_model(mode, k, draft):
    return table("draft model" if mode == "EAGLE-3" else mode, k, draft)


def eagle_one(mode, k, draft):
    config = dict(table(mode, k, draft))
    return config | {"method": "eagle"} if mode == "EAGLE-3" else config


def old_flags(mode, k, draft):
    return {"speculative_model": draft, "num_speculative_tokens": k}


def ngram_with_a_model(mode, k, draft):
    return table(mode, k, draft) | {"model": draft or "ngram"}


def without_k(mode, k, draft):
    return {key: value for key, value in table(mode, k, draft).items() if key != "num_speculative_tokens"}


def always_three(mode, k, draft):
    return table(mode, 3, draft)


def as_json_text(mode, k, draft):
    import json

    return json.dumps(table(mode, k, draft))


def lookup_zero(mode, k, draft):
    return table(mode, k, draft) | ({"prompt_lookup_max": 0} if mode == "n-gram" else {})


def lookup_none(mode, k, draft):
    return table(mode, k, draft) | ({"prompt_lookup_max": None} if mode == "n-gram" else {})


def unknown_key(mode, k, draft):
    return table(mode, k, draft) | {"num_spec_tokens": k}


def min_only(mode, k, draft):
    """vLLM takes the one that is given for both."""
    if mode != "n-gram":
        return table(mode, k, draft)
    return {"method": "ngram", "num_speculative_tokens": k, "prompt_lookup_min": 2}


def without_a_method(mode, k, draft):
    """vLLM reads `eagle3` in the checkpoint's name and takes any other model for a draft model."""
    if mode == "n-gram":
        return table(mode, k, draft)
    return {"model": draft, "num_speculative_tokens": k}


def without_any_method(mode, k, draft):
    return {key: value for key, value in table(mode, k, draft).items() if key != "method"}


# 02.2 cause of the tail


def by_crossing(before, after):
    if after["prefill_gap_share"] < 0.01:
        return "longer steps"
    if before["prefill_gap_share"] < 0.01:
        return "prefill crosses 1 %"
    return "prefill stalls"


def by_percent(before, after):
    visible = [100 * report["prefill_gap_share"] >= 1 for report in (before, after)]
    return {(False, False): "longer steps", (False, True): "prefill crosses 1 %", (True, True): "prefill stalls"}[
        tuple(visible)
    ]


def by_p99_over_p50(before, after):
    """A tail of ordinary steps lies close to the median, one of prompts far above it."""
    far_before, far_after = (r["chunk_gap_p99_ms"] > 1.2 * r["chunk_gap_p50_ms"] for r in (before, after))
    return "longer steps" if not far_after else "prefill stalls" if far_before else "prefill crosses 1 %"


def by_steps(before, after):
    shares = [report["prefill_step_share"] for report in (before, after)]
    return "longer steps" if shares[1] < 0.01 else "prefill crosses 1 %" if shares[0] < 0.01 else "prefill stalls"


def two_pass(before, after):
    return "second pass"


def after_only(before, after):
    return "longer steps" if after["prefill_gap_share"] < 0.01 else "prefill crosses 1 %"


def before_only(before, after):
    return "longer steps" if before["prefill_gap_share"] < 0.01 else "prefill stalls"


def one_is_one_percent(before, after):
    return "longer steps" if after["prefill_gap_share"] < 1 else "prefill stalls"


def by_the_mean(before, after):
    return "prefill stalls" if after["tpot_mean_ms"] < before["tpot_mean_ms"] else "longer steps"


def by_request_tails(before, after):
    return "prefill stalls" if after["tpot_p99_ms"] > before["tpot_p99_ms"] else "prefill crosses 1 %"


def two_thresholds(before, after):
    share = after["prefill_gap_share"]
    return "longer steps" if share < 0.01 else "prefill crosses 1 %" if share < 0.05 else "prefill stalls"


def a_larger_threshold(before, after):
    if after["prefill_gap_share"] < 0.015:
        return "longer steps"
    return "prefill crosses 1 %" if before["prefill_gap_share"] < 0.015 else "prefill stalls"


# 02.5 memory of a head


def matrix_by_matrix(hidden, intermediate, heads, kv_heads, head_dim, vocab):
    shapes = [
        (3 * hidden, hidden),
        (2 * hidden, heads * head_dim),
        (2 * hidden, kv_heads * head_dim),
        (2 * hidden, kv_heads * head_dim),
        (heads * head_dim, hidden),
        *[(hidden, intermediate)] * 3,
        (hidden, vocab),
    ]
    return sum(rows * columns for rows, columns in shapes) * 2 / 1e9


def with_norms(hidden, intermediate, heads, kv_heads, head_dim, vocab):
    """Norms are left out of the question; counting them is not a mistake."""
    return matrix_by_matrix(hidden, intermediate, heads, kv_heads, head_dim, vocab) + 4 * hidden * 2 / 1e9


def changed(fusion=3, rows=2, mlp=3, vocabulary=None, size=2, unit=1e9):
    def head(hidden, intermediate, heads, kv_heads, head_dim, vocab):
        attention = rows * hidden * (heads + 2 * kv_heads) * head_dim + heads * head_dim * hidden
        parameters = fusion * hidden**2 + attention + mlp * hidden * intermediate + (vocabulary or vocab) * hidden
        return parameters * size / unit

    return head


ANSWERS = {
    "02.1": Answers(
        right=(from_ratio, from_extra_time),
        wrong=(
            Wrong(whole_step, "not divided by K"),
            Wrong(all_tokens, "the target's own token has to be earned too"),
            Wrong(k_plus_one, "divided by K + 1"),
            Wrong(in_milliseconds, "milliseconds, not a ratio"),
            Wrong(of_the_speculative_step, "relative to the speculative step"),
            Wrong(upside_down),
            Wrong(a_constant),
        ),
    ),
    "02.3": Answers(
        right=(table, with_more_keys, min_only, without_a_method),
        wrong=(
            Wrong(eagle_as_a_model, "an EAGLE head served as a draft model"),
            Wrong(eagle_one, "the method is EAGLE-1"),
            Wrong(without_any_method),
            Wrong(old_flags, "flags of older releases"),
            Wrong(ngram_with_a_model, "an n-gram draft with a checkpoint"),
            Wrong(without_k, "K is missing"),
            Wrong(always_three),
            Wrong(as_json_text),
            Wrong(lookup_zero),
            Wrong(lookup_none),
            Wrong(unknown_key),
        ),
    ),
    "02.4": Answers(
        right=(lambda: "cache", lambda: " CACHE "),
        wrong=(
            Wrong(lambda: "verify", "not 'verify'"),
            Wrong(lambda: "prompt", "not 'prompt'"),
            Wrong(lambda: "reject", "not 'reject'"),
            Wrong(lambda: "its own cache"),
            Wrong(lambda: 3),
        ),
    ),
    "02.2": Answers(
        right=(by_crossing, by_percent, by_p99_over_p50),
        wrong=(
            Wrong(two_pass, "a second target pass"),
            Wrong(after_only, "looks at the run after only"),
            Wrong(before_only, "looks at the run before only"),
            Wrong(by_steps, "counts steps, not gaps"),
            Wrong(one_is_one_percent, "1 % written as 1"),
            Wrong(by_the_mean, "judged by the mean"),
            Wrong(by_request_tails),
            Wrong(two_thresholds),
            Wrong(a_larger_threshold),
        ),
    ),
    "02.5": Answers(
        right=(matrix_by_matrix, with_norms),
        wrong=(
            Wrong(changed(fusion=0), "the fusion is missing"),
            Wrong(changed(rows=1), "attention reads h, not 2h"),
            Wrong(changed(vocabulary=128256), "the target's full vocabulary"),
            Wrong(changed(mlp=2), "an MLP of two matrices"),
            Wrong(changed(size=1), "one byte per parameter"),
            Wrong(changed(unit=2**30), "GiB, not GB"),
            Wrong(changed(fusion=1)),
        ),
    ),
}
