# Solutions to notebook 01. One cell per exercise; each is one right answer among several.

from labsim.lab.course import exercise

# %% 01.1
@exercise("01.1")
def tokens_per_step(alpha, k):
    return sum(alpha**i for i in range(k + 1))

# %% 01.2
@exercise("01.2")
def read_positions(rates):
    conditional = [now / before for before, now in zip([1, *rates], rates)]
    return 1 + sum(rates), conditional

# %% 01.3
@exercise("01.3")
def needed_alpha(target, k, overhead):
    alpha = (target * (1 + overhead) - 1) / k
    return alpha if alpha <= 1 else None

# %% 01.4
@exercise("01.4")
def mixed_alpha(shares, alphas, k):
    steps = [share / (1 + k * alpha) for share, alpha in zip(shares, alphas)]
    return sum(n * alpha for n, alpha in zip(steps, alphas)) / sum(steps)
