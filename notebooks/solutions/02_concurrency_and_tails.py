# Solutions to notebook 02. One cell per exercise; each is one right answer among several.

from labsim.lab.course import answer, exercise

# %% 02.1
@exercise("02.1")
def break_even_alpha(plain_ms, speculative_ms, k):
    return (speculative_ms / plain_ms - 1) / k

# %% 02.2
@exercise("02.2")
def why_did_the_tail_grow(before, after):
    if after["prefill_gap_share"] < 0.01:
        return "longer steps"
    if before["prefill_gap_share"] < 0.01:
        return "prefill crosses 1 %"
    return "prefill stalls"

# %% 02.3
@exercise("02.3")
def speculative_config(mode, k, draft):
    if mode == "n-gram":
        return {"method": "ngram", "num_speculative_tokens": k, "prompt_lookup_max": 4}
    method = {"draft model": "draft_model", "EAGLE-3": "eagle3"}[mode]
    return {"method": method, "model": draft, "num_speculative_tokens": k}

# %% 02.4
answer("02.4", "cache")

# %% 02.5
@exercise("02.5")
def head_gigabytes(hidden, intermediate, heads, kv_heads, head_dim, vocab):
    fusion = 3 * hidden * hidden
    attention = 2 * hidden * (heads + 2 * kv_heads) * head_dim + heads * head_dim * hidden
    return (fusion + attention + 3 * hidden * intermediate + vocab * hidden) * 2 / 1e9
