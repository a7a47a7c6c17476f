# Solutions to notebook 09. One cell per exercise; each is one right answer among several.

from labsim.lab.course import exercise

# %% 09.1
from math import exp, inf, log

@exercise("09.1")
def softmax_by_blocks(blocks):
    top, total, weighted = -inf, 0.0, 0.0
    for block in blocks:
        new = max(top, max(score for score, _ in block))
        shrink = exp(top - new)
        total = total * shrink + sum(exp(score - new) for score, _ in block)
        weighted = weighted * shrink + sum(exp(score - new) * value for score, value in block)
        top = new
    return weighted / total, top + log(total)

# %% 09.2
from math import exp, inf, log

@exercise("09.2")
def merge_with_empty_sides(out_a, lse_a, out_b, lse_b):
    top = max(lse_a, lse_b)
    if top == -inf:
        return [0.0] * len(out_a), -inf
    a, b = exp(lse_a - top), exp(lse_b - top)
    return [(a * x + b * y) / (a + b) for x, y in zip(out_a, out_b)], top + log(a + b)

# %% 09.3
from math import exp, log

@exercise("09.3")
def share_of_b(lse_a, lse2_b):
    return 1 / (1 + exp(lse_a - lse2_b * log(2)))

# %% 09.4
from math import exp

@exercise("09.4")
def gradient_of_lse(out_a, lse_a, out_b, lse_b, dout):
    w_a = 1 / (1 + exp(lse_b - lse_a))
    return w_a * (1 - w_a) * sum(d * (x - y) for d, x, y in zip(dout, out_a, out_b))

# %% 09.5
from math import exp

@exercise("09.5")
def share_of_a_block(q, keys, values, dout, scale, own, whole):
    out, lse = whole
    d = sum(x * y for x, y in zip(dout, out))
    dq, dk, dv = [0.0] * len(q), [], []
    for k, v in zip(keys, values):
        p = exp(scale * sum(x * y for x, y in zip(q, k)) - lse)
        ds = p * (sum(x * y for x, y in zip(dout, v)) - d) * scale
        dq = [x + ds * y for x, y in zip(dq, k)]
        dk.append([ds * x for x in q])
        dv.append([p * x for x in dout])
    return dq, dk, dv
