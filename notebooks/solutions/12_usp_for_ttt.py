# Solutions to notebook 12. One cell per exercise; each is one right answer among several.

from labsim.lab.course import exercise

# %% 12.1
@exercise("12.1")
def where_its_keys_lie(position, step, length, ring):
    size = length // (2 * ring)
    chunk = position // size
    rank = min(chunk, 2 * ring - 1 - chunk)
    home = position % size + 1
    if chunk >= ring:
        home += size
    return home, position + 1 - home, step

# %% 12.2
@exercise("12.2")
def beyond_its_own(kind, length, ring, rank, steps):
    held = [rank] if kind == "contiguous" else [rank, 2 * ring - 1 - rank]
    size = length // (ring if kind == "contiguous" else 2 * ring)
    mine = {t for chunk in held for t in range(chunk * size, (chunk + 1) * size)}
    wanted = {t + ahead for t in mine for ahead in range(1, steps + 1)}
    return sorted(t for t in wanted - mine if t < length)

# %% 12.3
@exercise("12.3")
def where_they_stand(kind, length, ring, rank, step):
    held = [rank] if kind == "contiguous" else [rank, 2 * ring - 1 - rank]
    size = length // (ring if kind == "contiguous" else 2 * ring)
    mine = [t for chunk in held for t in range(chunk * size, (chunk + 1) * size)]
    return [t + step for t in mine], [[t + made for made in range(1, step + 1)] for t in mine]

# %% 12.4
@exercise("12.4")
def name_the_fault(wrong, chunk):
    if not any(wrong):
        return "healthy"
    if not wrong[0]:
        return "branch stands still" if wrong[1] else "halo one short"
    return "seam" if wrong[0][0] % chunk == chunk - 1 else "positions from zero"

# %% 12.5
@exercise("12.5")
def mean_over_ranks(sums, counts):
    loss = sum(sums) / sum(counts)
    means = [total / max(1, count) for total, count in zip(sums, counts)]
    return loss, sum(means) / len(means) / loss - 1

# %% 12.6
import math

@exercise("12.6")
def name_the_sum(alone, shared, ranks):
    if not math.isclose(alone["loss"][0], shared["loss"][0], rel_tol=1e-6):
        return "mean of means"
    ratio = shared["norm"][0] / alone["norm"][0]
    if math.isclose(ratio, 1, rel_tol=1e-6):
        return "healthy"
    return "divided" if math.isclose(ratio, 1 / ranks, rel_tol=1e-6) else "not reduced"

# %% 12.7
@exercise("12.7")
def pairs_of_a_rank(kind, length, ring, rank, steps):
    held = [rank] if kind == "contiguous" else [rank, 2 * ring - 1 - rank]
    size = length // (ring if kind == "contiguous" else 2 * ring)
    mine = [t for chunk in held for t in range(chunk * size, (chunk + 1) * size)]
    text = sum(t + 1 for t in mine)
    return sum(text + len(mine) * step for step in range(steps))

# %% 12.8
import math

@exercise("12.8")
def how_many(length, memory, usable, fixed, per_token):
    for ranks in (1, 2, 4, 8, 16, 32, 64):
        if fixed + per_token * math.ceil(length / ranks) <= usable * memory:
            return ranks
    return 0
