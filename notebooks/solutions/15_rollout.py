# Solutions to notebook 15. One cell per exercise; each is one right answer among several.

from labsim.lab.course import exercise

# %% 15.1
@exercise("15.1")
def alpha_between(before, after):
    d = {name: after[name] - before[name] for name in after}
    return d["accepted_tokens"] / d["draft_tokens"], 1 + d["accepted_tokens"] / d["drafts"]

# %% 15.2
@exercise("15.2")
def draft_length(accept_len, accept_rate):
    readings = (accept_len / accept_rate - 1, (accept_len - 1) / accept_rate)
    return round(min(readings, key=lambda k: abs(k - round(k))))

# %% 15.3
@exercise("15.3")
def tokens_per_chunk(mean_itl_ms, mean_tpot_ms):
    return mean_itl_ms / mean_tpot_ms

# %% 15.4
@exercise("15.4")
def gate(alpha_lower, breakeven, tpot_p99_before, tpot_p99_after, gap_p99_before, gap_p99_after):
    enough = alpha_lower >= max(0.55, breakeven + 0.05)
    return "go" if enough and tpot_p99_after <= tpot_p99_before and gap_p99_after <= 100 else "no-go"
