"""Answers to the exercises of notebook 12."""

import math

import torch

from labsim.parallel.layout import Layout
from tests.mutants.harness import Answers, Wrong


def positions(kind, length, ring, rank):
    return Layout(length, ring, 1, kind).positions(rank).tolist()


# 12.1 where its keys lie


def by_chunk(position, step, length, ring):
    size = length // (2 * ring)
    chunk = position // size
    home = position % size + 1 + (size if chunk >= ring else 0)
    return home, position + 1 - home, step


def by_the_layout(position, step, length, ring):
    layout = Layout(length, ring, 1, "zigzag")
    shards = [set(layout.positions(rank).tolist()) for rank in range(ring)]
    mine = next(shard for shard in shards if position in shard)
    home = len([key for key in range(position + 1) if key in mine])
    return [home, position - home + 1, step]


def branch_is_sent(position, step, length, ring):
    home, others, branch = by_chunk(position, step, length, ring)
    return home, others + branch, 0


def all_rows_branches(position, step, length, ring):
    home, others, branch = by_chunk(position, step, length, ring)
    return home, others, branch * (position + 1)


def step_zero_too(position, step, length, ring):
    return (*by_chunk(position, step, length, ring)[:2], step + 1)


def only_earlier_steps(position, step, length, ring):
    return (*by_chunk(position, step, length, ring)[:2], max(step - 1, 0))


def strictly_before(position, step, length, ring):
    home, others, branch = by_chunk(position, step, length, ring)
    return home - 1, others, branch


def this_chunk(position, step, length, ring):
    size = length // (2 * ring)
    return position % size + 1, position // size * size, step


def contiguous(position, step, length, ring):
    size = length // ring
    return position % size + 1, position // size * size, step


def no_branch(position, step, length, ring):
    return (*by_chunk(position, step, length, ring)[:2], 0)


# 12.2 what a rank must read


def by_sets(kind, length, ring, rank, steps):
    mine = set(positions(kind, length, ring, rank))
    return sorted({t + a for t in mine for a in range(1, steps + 1)} - mine - set(range(length, length + steps)))


def as_a_set(kind, length, ring, rank, steps):
    return set(by_sets(kind, length, ring, rank, steps))


def by_asking_each(kind, length, ring, rank, steps):
    mine = positions(kind, length, ring, rank)
    return [t for t in range(length) if t not in mine and any(t - back in mine for back in range(1, steps + 1))]


def one_short(kind, length, ring, rank, steps):
    return by_sets(kind, length, ring, rank, steps - 1)


def guessed_too(kind, length, ring, rank, steps):
    return by_sets(kind, length, ring, rank, steps + 1)


def next_token(kind, length, ring, rank, steps):
    return by_sets(kind, length, ring, rank, 1)


def behind_the_last(kind, length, ring, rank, steps):
    last = positions(kind, length, ring, rank)[-1]
    return list(range(last + 1, min(length, last + steps + 1)))


def neighbour(kind, length, ring, rank, steps):
    if rank == ring - 1:
        return []
    theirs = positions(kind, length, ring, rank + 1)
    if kind == "contiguous":
        return theirs[:steps]
    half = len(theirs) // 2
    return sorted(theirs[:half][:steps] + theirs[half:][:steps])


def to_the_left(kind, length, ring, rank, steps):
    mine = set(positions(kind, length, ring, rank))
    return sorted(t for t in {t - a for t in mine for a in range(1, steps + 1)} - mine if t >= 0)


def endless_row(kind, length, ring, rank, steps):
    mine = set(positions(kind, length, ring, rank))
    return sorted({t + a for t in mine for a in range(1, steps + 1)} - mine)


def held_twice(kind, length, ring, rank, steps):
    size = length // (ring if kind == "contiguous" else 2 * ring)
    ends = [t for t in positions(kind, length, ring, rank) if t % size == size - 1]
    return sorted({end + a for end in ends for a in range(1, steps + 1) if end + a < length})


def with_its_own(kind, length, ring, rank, steps):
    return sorted({*positions(kind, length, ring, rank), *by_sets(kind, length, ring, rank, steps)})


# 12.3 where they stand


def from_positions(kind, length, ring, rank, step):
    mine = positions(kind, length, ring, rank)
    return [t + step for t in mine], [list(range(t + 1, t + step + 1)) for t in mine]


def from_tensors(kind, length, ring, rank, step):
    mine = Layout(length, ring, 1, kind).positions(rank)
    made = torch.arange(1, step + 1)
    return (mine + step).tolist(), (mine[:, None] + made[None]).tolist()


def places(kind, length, ring, rank, step):
    count = length // ring
    return list(range(step, count + step)), [list(range(t + 1, t + step + 1)) for t in range(count)]


def nothing_advances(kind, length, ring, rank, step):
    mine = positions(kind, length, ring, rank)
    return mine, [[t] * step for t in mine]


def queries_only(kind, length, ring, rank, step):
    mine = positions(kind, length, ring, rank)
    return [t + step for t in mine], [[t] * step for t in mine]


def turned_again(kind, length, ring, rank, step):
    mine = positions(kind, length, ring, rank)
    return [t + step for t in mine], [[t + step] * step for t in mine]


def one_behind(kind, length, ring, rank, step):
    mine = positions(kind, length, ring, rank)
    return [t + step for t in mine], [list(range(t, t + step)) for t in mine]


def not_the_newest(kind, length, ring, rank, step):
    queries, keys = from_positions(kind, length, ring, rank, step)
    return queries, [one[: step - 1] if step else one for one in keys]


def always_contiguous(kind, length, ring, rank, step):
    return from_positions("contiguous", length, ring, rank, step)


def newest_first(kind, length, ring, rank, step):
    queries, keys = from_positions(kind, length, ring, rank, step)
    return queries, [one[::-1] for one in keys]


# 12.4 the fault at the border


def by_first_sight(wrong, chunk):
    if not any(wrong):
        return "healthy"
    if wrong[0]:
        return "positions from zero" if wrong[0][0] % chunk == 0 else "seam"
    return "branch stands still" if 0 in wrong[-1] else "halo one short"


def by_growth(wrong, chunk):
    """A seam eats inwards from step to step; the others begin where they begin."""
    firsts = [min(one, default=None) for one in wrong]
    if firsts[0] is not None:
        return "seam" if firsts[1] < firsts[0] else "positions from zero"
    if firsts[-1] is None:
        return "healthy"
    return "halo one short" if firsts[1] is None else "branch stands still"


def all_seams(wrong, chunk):
    name = by_first_sight(wrong, chunk)
    return "seam" if name == "halo one short" else name


def all_branches(wrong, chunk):
    name = by_first_sight(wrong, chunk)
    return "branch stands still" if name == "halo one short" else name


def first_step_only(wrong, chunk):
    return by_first_sight(wrong[:1], chunk) if wrong[0] else "healthy"


def exchanged(wrong, chunk):
    name = by_first_sight(wrong, chunk)
    return {"seam": "positions from zero", "positions from zero": "seam"}.get(name, name)


def spread_is_positions(wrong, chunk):
    name = by_first_sight(wrong, chunk)
    return "positions from zero" if name == "seam" else name


def last_step_only(wrong, chunk):
    return by_first_sight([wrong[-1]] * 3, chunk)


# 12.5 a mean over ranks


def by_sums(sums, counts):
    loss = sum(sums) / sum(counts)
    return loss, sum(s / max(1, c) for s, c in zip(sums, counts, strict=True)) / len(sums) / loss - 1


def by_weights(sums, counts):
    """The right mean weighs each rank's mean by its count."""
    means = [s / c if c else 0.0 for s, c in zip(sums, counts, strict=True)]
    loss = sum(m * c for m, c in zip(means, counts, strict=True)) / sum(counts)
    return [loss, math.fsum(means) / len(means) / loss - 1]


def means_it(sums, counts):
    loss, off = by_sums(sums, counts)
    return loss * (1 + off), 0.0


def skips_the_empty(sums, counts):
    loss = sum(sums) / sum(counts)
    means = [s / c for s, c in zip(sums, counts, strict=True) if c]
    return loss, sum(means) / len(means) / loss - 1


def in_nats(sums, counts):
    loss, off = by_sums(sums, counts)
    return loss, off * loss


def other_way_round(sums, counts):
    loss, off = by_sums(sums, counts)
    return loss, 1 / (1 + off) - 1


def added(sums, counts):
    loss, off = by_sums(sums, counts)
    return loss, (1 + off) * len(sums) - 1


def by_ranks(sums, counts):
    right, off = by_sums(sums, counts)
    loss = sum(sums) / len(sums)
    return loss, (1 + off) * right / loss - 1


def as_a_factor(sums, counts):
    loss, off = by_sums(sums, counts)
    return loss, 1 + off


# 12.6 what the loss does not say


def by_the_first_step(alone, shared, ranks):
    if abs(shared["loss"][0] / alone["loss"][0] - 1) > 1e-6:
        return "mean of means"
    factor = shared["norm"][0] / alone["norm"][0]
    if abs(factor * ranks - 1) <= 1e-6:
        return "divided"
    return "healthy" if abs(factor - 1) <= 1e-6 else "not reduced"


def by_elimination(alone, shared, ranks):
    def same(name, by=1.0):
        return math.isclose(by * shared[name][0], alone[name][0], rel_tol=1e-6)

    found = {"healthy": same("norm"), "divided": same("norm", ranks), "not reduced": True}
    return "mean of means" if not same("loss") else next(name for name, fits in found.items() if fits)


def curves(alone, shared, ranks):
    name = by_the_first_step(alone, shared, ranks)
    return "healthy" if name == "divided" else name


def first_loss(alone, shared, ranks):
    name = by_the_first_step(alone, shared, ranks)
    return name if name == "mean of means" else "healthy"


def smaller_is_divided(alone, shared, ranks):
    name = by_the_first_step(alone, shared, ranks)
    return "divided" if name == "not reduced" else name


def at_the_end(alone, shared, ranks):
    return by_the_first_step(*({name: one[name][::-1] for name in one} for one in (alone, shared)), ranks)


def never_the_loss(alone, shared, ranks):
    name = by_the_first_step(alone, shared, ranks)
    return "not reduced" if name == "mean of means" else name


def always_divided(alone, shared, ranks):
    return "divided"


# 12.7 work by rank


def by_steps(kind, length, ring, rank, steps):
    mine = positions(kind, length, ring, rank)
    return sum(t + 1 + step for step in range(steps) for t in mine)


def by_rectangles(kind, length, ring, rank, steps):
    mine = positions(kind, length, ring, rank)
    text = sum(len(range(t + 1)) for t in mine)
    return steps * text + math.comb(steps, 2) * len(mine)


def text_once(kind, length, ring, rank, steps):
    mine = positions(kind, length, ring, rank)
    return sum(t + 1 for t in mine) + math.comb(steps, 2) * len(mine)


def branchless(kind, length, ring, rank, steps):
    return steps * sum(t + 1 for t in positions(kind, length, ring, rank))


def branch_as_text(kind, length, ring, rank, steps):
    text = sum(t + 1 for t in positions(kind, length, ring, rank))
    return sum(text * (1 + step) for step in range(steps))


def one_key_more(kind, length, ring, rank, steps):
    mine = positions(kind, length, ring, rank)
    return sum(t + 2 + step for step in range(steps) for t in mine)


def every_key_in_every_step(kind, length, ring, rank, steps):
    mine = positions(kind, length, ring, rank)
    return sum(t + 1 + steps - 1 for _ in range(steps) for t in mine)


def unmasked(kind, length, ring, rank, steps):
    mine = positions(kind, length, ring, rank)
    return sum(length + step for step in range(steps) for _ in mine)


def fair_share(kind, length, ring, rank, steps):
    return by_steps(kind, length, 1, 0, steps) // ring


# 12.8 how many GPUs


def first_that_fits(length, memory, usable, fixed, per_token):
    for ranks in (1, 2, 4, 8, 16, 32, 64):
        if fixed + per_token * math.ceil(length / ranks) <= usable * memory:
            return ranks
    return 0


def by_tokens_of_a_rank(length, memory, usable, fixed, per_token):
    most = math.floor((usable * memory - fixed) / per_token)
    return next((1 << n for n in range(7) if -(-length // (1 << n)) <= most), 0)


def everything_shared(length, memory, usable, fixed, per_token):
    return next((n for n in (1, 2, 4, 8, 16, 32, 64) if (fixed + per_token * length) / n <= usable * memory), 0)


def whole_gpu(length, memory, usable, fixed, per_token):
    return first_that_fits(length, memory, 1, fixed, per_token)


def odd_numbers(length, memory, usable, fixed, per_token):
    return next((n for n in range(1, 65) if fixed + per_token * length / n <= usable * memory), 0)


def weightless(length, memory, usable, fixed, per_token):
    return first_that_fits(length, memory, usable, 0, per_token)


def twice_as_many(length, memory, usable, fixed, per_token):
    return first_that_fits(length, memory, usable, fixed, per_token) or 128


def up_to_32(length, memory, usable, fixed, per_token):
    return next((1 << n for n in range(6) if fixed + per_token * length / (1 << n) <= usable * memory), 0)


def half_as_many(length, memory, usable, fixed, per_token):
    return max(1, first_that_fits(length, memory, usable, fixed, per_token) // 2)


ANSWERS = {
    "12.1": Answers(
        right=(by_chunk, by_the_layout),
        wrong=(
            Wrong(branch_is_sent, "the branch comes by"),
            Wrong(all_rows_branches, "everybody's branches"),
            Wrong(step_zero_too, "step 0 counted twice"),
            Wrong(only_earlier_steps, "without its own step"),
            Wrong(strictly_before, "not its own key"),
            Wrong(this_chunk, "one chunk is home"),
            Wrong(contiguous, "contiguous"),
            Wrong(no_branch),
        ),
    ),
    "12.2": Answers(
        right=(by_sets, as_a_set, by_asking_each),
        wrong=(
            Wrong(one_short, "one short"),
            Wrong(guessed_too, "one more"),
            Wrong(next_token, "one token per seam"),
            Wrong(behind_the_last, "only behind the shard"),
            Wrong(neighbour, "the next rank's first tokens"),
            Wrong(to_the_left, "on the left"),
            Wrong(held_twice, "its own once more"),
            Wrong(endless_row, "past the end"),
            Wrong(with_its_own),
        ),
    ),
    "12.3": Answers(
        right=(from_positions, from_tensors),
        wrong=(
            Wrong(places, "counted from zero"),
            Wrong(nothing_advances, "the branch stands still"),
            Wrong(queries_only, "the keys stand still"),
            Wrong(turned_again, "keys move with the query"),
            Wrong(one_behind, "keys one step behind"),
            Wrong(not_the_newest, "without the newest"),
            Wrong(always_contiguous, "contiguous positions"),
            Wrong(newest_first),
        ),
    ),
    "12.4": Answers(
        right=(by_first_sight, by_growth),
        wrong=(
            Wrong(all_seams, "every border is a seam"),
            Wrong(all_branches, "every late fault is the branch's"),
            Wrong(first_step_only, "step 0 speaks for all"),
            Wrong(exchanged, "seam and positions confused"),
            Wrong(spread_is_positions, "whatever spreads is positions"),
            Wrong(last_step_only),
        ),
    ),
    "12.5": Answers(
        right=(by_sums, by_weights),
        wrong=(
            Wrong(means_it, "the mean of means for the loss"),
            Wrong(skips_the_empty, "empty ranks left out"),
            Wrong(in_nats, "nats for a share"),
            Wrong(other_way_round, "upside down"),
            Wrong(added, "the sum of means"),
            Wrong(by_ranks, "divided by ranks"),
            Wrong(as_a_factor),
        ),
    ),
    "12.6": Answers(
        right=(by_the_first_step, by_elimination),
        wrong=(
            Wrong(curves, "the loss decides"),
            Wrong(first_loss, "the first loss decides"),
            Wrong(smaller_is_divided, "any smaller norm is a division"),
            Wrong(at_the_end, "the last step decides"),
            Wrong(never_the_loss, "another mean is no reduction"),
            Wrong(always_divided),
        ),
    ),
    "12.7": Answers(
        right=(by_steps, by_rectangles),
        wrong=(
            Wrong(text_once, "the text once"),
            Wrong(branchless, "without the branch"),
            Wrong(branch_as_text, "the branch as long as the text"),
            Wrong(one_key_more, "one key too many"),
            Wrong(every_key_in_every_step, "all branch keys in every step"),
            Wrong(unmasked, "no mask"),
            Wrong(fair_share),
        ),
    ),
    "12.8": Answers(
        right=(first_that_fits, by_tokens_of_a_rank),
        wrong=(
            Wrong(everything_shared, "weights are shared, too"),
            Wrong(whole_gpu, "no reserve"),
            Wrong(odd_numbers, "any number of ranks"),
            Wrong(weightless, "nothing is fixed"),
            Wrong(twice_as_many, "no limit"),
            Wrong(half_as_many),
            Wrong(up_to_32),
        ),
    ),
}
