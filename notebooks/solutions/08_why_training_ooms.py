# Solutions to notebook 08. One cell per exercise; each is one right answer among several.

from labsim.lab.course import exercise

# %% 08.1
@exercise("08.1")
def kept_in_forward(length, steps, taps, teacher, layer, logits):
    once, each = taps + teacher, layer + logits
    return length * (once + steps * each)

# %% 08.2
@exercise("08.2")
def tokens_win(parameters, per_token):
    return 16 * parameters // per_token + 1

# %% 08.3
@exercise("08.3")
def score_matrix(heads, length, step, width):
    queries, keys = length, (step + 1) * length
    return heads * queries * keys * width

# %% 08.4
@exercise("08.4")
def choose(tried, memory, reserve):
    for name, size in tried:
        if size <= (1 - reserve) * memory:
            return name
    return "none"

# %% 08.5
@exercise("08.5")
def longest_on(memory, fixed, per_token, ranks):
    return max(0, (memory - fixed) // per_token) * ranks
