"""Answers to the exercises of notebook 11."""

from math import gcd, lcm

import numpy as np

from labsim.parallel.layout import Layout
from labsim.parallel.mesh import ranks_of
from tests.mutants.harness import Answers, Wrong

# 11.1 tokens for heads


def with_loops(held):
    ranks, share = len(held), len(held[0]) // len(held)
    found = []
    for receiver in range(ranks):
        rows = []
        for head in range(receiver * share, (receiver + 1) * share):
            row = []
            for sender in range(ranks):
                row.extend(held[sender][head])
            rows.append(row)
        found.append(rows)
    return found


def with_numpy(held):
    x = np.array(held)  # (U, H, L)
    ranks, heads, size = x.shape
    return x.reshape(ranks, ranks, heads // ranks, size).transpose(1, 2, 0, 3).reshape(ranks, heads // ranks, -1)


def dealt_heads(held):
    ranks = len(held)
    return [[[x for s in held for x in s[h]] for h in range(len(held[0])) if h % ranks == u] for u in range(ranks)]


def mine_first(held):
    ranks, share = len(held), len(held[0]) // len(held)
    order = [[held[u], *held[:u], *held[u + 1 :]] for u in range(ranks)]
    return [[[x for s in order[u] for x in s[u * share + h]] for h in range(share)] for u in range(ranks)]


def sliced_only(held):
    share = len(held[0]) // len(held)
    return [rows[u * share : (u + 1) * share] for u, rows in enumerate(held)]


def gathered(held):
    whole = [[x for s in held for x in s[h]] for h in range(len(held[0]))]
    return [whole for _ in held]


def woven(held):
    ranks, share = len(held), len(held[0]) // len(held)
    return [
        [[x for column in zip(*(s[u * share + h] for s in held), strict=True) for x in column] for h in range(share)]
        for u in range(ranks)
    ]


def my_share_to_all(held):
    share = len(held[0]) // len(held)
    return [[[x for v, s in enumerate(held) for x in s[v * share + h]] for h in range(share)] for _ in held]


def backwards(held):
    return [[row[::-1] for row in rows] for rows in with_loops(held)]


def unchanged(held):
    return [list(rows) for rows in held]


# 11.2 heads for tokens


def by_slices(inside):
    size = len(inside[0][0]) // len(inside)
    return [[row[at : at + size] for rows in inside for row in rows] for at in range(0, len(inside[0][0]), size)]


def by_numpy(inside):
    x = np.array(inside)  # (U, H/U, L U)
    ranks, share, length = x.shape
    return x.reshape(ranks, share, ranks, length // ranks).transpose(2, 0, 1, 3).reshape(ranks, ranks * share, -1)


def dealt_tokens(inside):
    ranks = len(inside)
    return [[row[u::ranks] for rows in inside for row in rows] for u in range(ranks)]


def one_long_row(inside):
    ranks, size = len(inside), len(inside[0][0]) // len(inside)
    return [
        [[x for rows in inside for x in rows[h][u * size : (u + 1) * size]] for h in range(len(inside[0]))]
        for u in range(ranks)
    ]


def mine_on_top(inside):
    right, share = by_slices(inside), len(inside[0])
    return [
        [*rows[u * share : (u + 1) * share], *rows[: u * share], *rows[(u + 1) * share :]]
        for u, rows in enumerate(right)
    ]


def only_mine(inside):
    size = len(inside[0][0]) // len(inside)
    return [[row[u * size : (u + 1) * size] for row in rows] for u, rows in enumerate(inside)]


def heads_in_turn(inside):
    ranks, size = len(inside), len(inside[0][0]) // len(inside)
    return [
        [rows[h][u * size : (u + 1) * size] for h in range(len(inside[0])) for rows in inside] for u in range(ranks)
    ]


def ranks_reversed(inside):
    return by_slices(inside)[::-1]


# 11.3 positions between the swaps


def from_the_layout(length, ring, ulysses, ring_rank, ulysses_rank, layout):
    return Layout(length, ring, ulysses, layout).ring_positions(ring_rank).tolist()


def chunk_by_chunk(length, ring, ulysses, ring_rank, ulysses_rank, layout):
    chunks = [ring_rank] if layout == "contiguous" else [ring_rank, 2 * ring - 1 - ring_rank]
    size = length // (ring if layout == "contiguous" else 2 * ring)
    return [position for position in range(length) if position // size in chunks]


def before_the_swap(length, ring, ulysses, ring_rank, ulysses_rank, layout):
    return Layout(length, ring, ulysses, layout).positions(ring_rank, ulysses_rank).tolist()


def tiled(length, ring, ulysses, ring_rank, ulysses_rank, layout):
    return before_the_swap(length, ring, ulysses, ring_rank, ulysses_rank, layout) * ulysses


def zero_based(length, ring, ulysses, ring_rank, ulysses_rank, layout):
    return list(range(length // ring))


def contiguous_only(length, ring, ulysses, ring_rank, ulysses_rank, layout):
    return [ring_rank * length // ring + i for i in range(length // ring)]


def zigzag_of_the_world(length, ring, ulysses, ring_rank, ulysses_rank, layout):
    if layout == "contiguous":
        return contiguous_only(length, ring, ulysses, ring_rank, ulysses_rank, layout)
    whole = Layout(length, ring * ulysses, 1, "zigzag")
    return [p for u in range(ulysses) for p in whole.positions(ring_rank * ulysses + u).tolist()]


def late_then_early(length, ring, ulysses, ring_rank, ulysses_rank, layout):
    found = from_the_layout(length, ring, ulysses, ring_rank, ulysses_rank, layout)
    if layout == "contiguous":
        return found
    return found[len(found) // 2 :] + found[: len(found) // 2]


def all_positions(length, ring, ulysses, ring_rank, ulysses_rank, layout):
    return list(range(length))


# 11.4 the fault by where it shows


def by_table(seen):
    wrong = {(min(r, 2), min(u, 2), layout) for r, u, layout, bad in seen if bad}
    for name, where in (
        ("rotated twice", (1, 1, "zigzag")),
        ("counted from zero", (2, 1, "contiguous")),
        ("own positions inside", (1, 2, "contiguous")),
        ("zigzag forgotten", (2, 1, "zigzag")),
    ):
        if where in wrong:
            return name
    return "healthy"


def by_count(seen):
    """Of eight meshes: all wrong, six, four, two, none."""
    count = sum(bad for *_, bad in seen)
    return {8: "rotated twice", 6: "counted from zero", 4: "own positions inside", 2: "zigzag forgotten"}.get(
        count, "healthy"
    )


def without_rings(seen):
    return by_count_of([one for one in seen if one[0] == 1])


def by_count_of(seen):
    wrong = [one for one in seen if one[3]]
    if not wrong:
        return "healthy"
    if any(r == u == 1 for r, u, *_ in wrong):
        return "rotated twice"
    return "own positions inside" if any(layout == "contiguous" for *_, layout, _ in wrong) else "zigzag forgotten"


def without_swaps(seen):
    return by_table([one for one in seen if one[1] == 1])


def without_one_rank(seen):
    return by_table([one for one in seen if one[0] * one[1] > 1])


def zigzag_first(seen):
    return "zigzag forgotten" if any(layout == "zigzag" and bad for *_, layout, bad in seen) else by_table(seen)


def swap_first(seen):
    return "own positions inside" if any(u > 1 and bad for _, u, _, bad in seen) else by_table(seen)


def confused(seen):
    found = by_table(seen)
    return {"counted from zero": "own positions inside", "own positions inside": "counted from zero"}.get(found, found)


def always_healthy(seen):
    return "healthy"


# 11.5 which meshes are legal


def with_lcm(world, heads, kv_heads):
    return [
        [world // u, u, lcm(kv_heads, u) // kv_heads] for u in range(1, world + 1) if heads % u == 0 and world % u == 0
    ]


def by_trial(world, heads, kv_heads):
    found = []
    for ulysses in range(1, min(world, heads) + 1):
        if world % ulysses or heads % ulysses:
            continue
        times = 1
        while kv_heads * times % ulysses:
            times += 1
        found.append((world // ulysses, ulysses, times))
    return found


def strict(world, heads, kv_heads):
    return [one for one in by_trial(world, heads, kv_heads) if kv_heads % one[1] == 0]


def no_bound(world, heads, kv_heads):
    return [(world // u, u, u // gcd(kv_heads, u)) for u in range(1, world + 1) if world % u == 0]


def up_to_the_heads(world, heads, kv_heads):
    return [one for one in no_bound(world, heads, kv_heads) if one[1] <= heads]


def floor_copies(world, heads, kv_heads):
    return [(r, u, max(1, u // kv_heads)) for r, u, _ in by_trial(world, heads, kv_heads)]


def no_grouping(world, heads, kv_heads):
    return [(r, u, 1 if kv_heads % u == 0 else heads // kv_heads) for r, u, _ in by_trial(world, heads, kv_heads)]


def everywhere(world, heads, kv_heads):
    return [(r, u, u) for r, u, _ in by_trial(world, heads, kv_heads)]


def largest_first(world, heads, kv_heads):
    return by_trial(world, heads, kv_heads)[::-1]


# 11.6 the gradient of a copied head


def by_stage(copies, out_wrong, slope, rest):
    if copies < 2:
        return "nothing to see"
    if out_wrong:
        return "strided heads"
    if rest > 1e-9:
        return "one copy"
    return {0: "healthy", -1: "averaged", 1: "counted twice"}[0 if abs(slope - 1) < 1e-9 else -1 if slope < 1 else 1]


def by_factor(copies, out_wrong, slope, rest):
    if copies == 1:
        return "nothing to see"
    if out_wrong or rest > 1e-6:
        return "strided heads" if out_wrong else "one copy"
    known = {round(1 / copies, 6): "averaged", 1.0: "healthy", float(copies): "counted twice"}
    return known[round(slope, 6)]


def half_is_one(copies, out_wrong, slope, rest):
    found = by_stage(copies, out_wrong, slope, rest)
    return "one copy" if found == "averaged" else found


def cosine(copies, out_wrong, slope, rest):
    found = by_stage(copies, out_wrong, slope, rest)
    return "healthy" if rest == 0 and not out_wrong and copies > 1 else found


def loss_curve(copies, out_wrong, slope, rest):
    if copies == 1:
        return "nothing to see"
    return "strided heads" if out_wrong else "healthy"


def any_test_counts(copies, out_wrong, slope, rest):
    return "healthy" if copies == 1 else by_stage(copies, out_wrong, slope, rest)


def backward_first(copies, out_wrong, slope, rest):
    return by_stage(copies, False, slope, rest)


def wrong_way(copies, out_wrong, slope, rest):
    found = by_stage(copies, out_wrong, slope, rest)
    return {"averaged": "counted twice", "counted twice": "averaged"}.get(found, found)


def always_averaged(copies, out_wrong, slope, rest):
    return "averaged"


# 11.7 who talks to whom


def from_the_package(rank, ring, ulysses):
    return tuple(next(group for group in groups if rank in group) for groups in ranks_of(ring, ulysses))


def by_remainder(rank, ring, ulysses):
    world = range(ring * ulysses)
    same_u = [other for other in world if other % ulysses == rank % ulysses]
    return [same_u, [other for other in world if other // ulysses == rank // ulysses]]


def ring_first(rank, ring, ulysses):
    world = range(ring * ulysses)
    same_ring = [other for other in world if other // ring == rank // ring]
    return same_ring, [other for other in world if other % ring == rank % ring]


def others(rank, ring, ulysses):
    return tuple([x for x in group if x != rank] for group in by_remainder(rank, ring, ulysses))


def other_order(rank, ring, ulysses):
    return by_remainder(rank, ring, ulysses)[::-1]


def stride_of_the_ring(rank, ring, ulysses):
    return [v * ring + rank % ulysses for v in range(ring)], by_remainder(rank, ring, ulysses)[1]


def two_neighbours(rank, ring, ulysses):
    mine, column = by_remainder(rank, ring, ulysses)
    at = mine.index(rank)
    return sorted({mine[at - 1], rank, mine[(at + 1) % ring]}), column


def everybody(rank, ring, ulysses):
    return list(range(ring * ulysses)), list(range(ring * ulysses))


# 11.8 the bytes of a mesh


def tensor_by_tensor(ring, ulysses, tokens, heads, kv_heads, head_dim, element):
    repeated = lcm(kv_heads, ulysses)
    local = tokens // (ring * ulysses)
    swaps = sum(count * local * head_dim * element // ulysses * (ulysses - 1) for count in (heads, repeated) * 2)
    inside = repeated // ulysses * (local * ulysses) * head_dim * element
    return sum(2 * inside for _ in range(ring - 1)), swaps


def parcel_by_parcel(ring, ulysses, tokens, heads, kv_heads, head_dim, element):
    times = ulysses // gcd(kv_heads, ulysses)
    per_head = tokens // (ring * ulysses) * head_dim * element
    parcel = (2 * heads + 2 * kv_heads * times) // ulysses * per_head
    return [2 * (ring - 1) * kv_heads * times * per_head, (ulysses - 1) * parcel]


def whole_tensors(r, u, t, h, k, d, b):
    return tensor_by_tensor(r, u, t, h, k, d, b)[0], (2 * (h + lcm(k, u)) * (t // (r * u)) * d * b) * (u > 1)


def no_way_back(r, u, t, h, k, d, b):
    ring, swaps = tensor_by_tensor(r, u, t, h, k, d, b)
    return ring, swaps - h * (t // (r * u)) * d * b * (u - 1) // u


def free_copies(r, u, t, h, k, d, b):
    mine = t // (r * u) * d * b
    return (r - 1) * 2 * k * mine, 2 * (h + k) * mine * (u - 1) / u


def mha(r, u, t, h, k, d, b):
    return tensor_by_tensor(r, u, t, h, h, d, b)


def ring_rank_with_all_heads(r, u, t, h, k, d, b):
    return (r - 1) * 2 * lcm(k, u) * (t // r) * d * b, tensor_by_tensor(r, u, t, h, k, d, b)[1]


def all_gather(r, u, t, h, k, d, b):
    return tensor_by_tensor(r, u, t, h, k, d, b)[0], 2 * (h + lcm(k, u)) * (t // (r * u)) * d * b * (u - 1)


def last_hop_home(r, u, t, h, k, d, b):
    return (r if r > 1 else 0) * 2 * lcm(k, u) * (t // (r * u)) * d * b, tensor_by_tensor(r, u, t, h, k, d, b)[1]


def of_the_world(r, u, t, h, k, d, b):
    return tuple(r * u * x for x in tensor_by_tensor(r, u, t, h, k, d, b))


# 11.9 when the ring hides


def in_closed_form(heads, kv_heads, element, flops, bandwidth):
    return element * (kv_heads / heads) * (flops / bandwidth)


def by_bisection(heads, kv_heads, element, flops, bandwidth):
    """With head dimension 128; it cancels."""
    low, high = 0.0, 1e9
    for _ in range(200):
        tokens = (low + high) / 2
        computing = tokens * tokens / 2 * 4 * 128 * heads / flops
        travel = 2 * tokens * kv_heads * 128 * element / bandwidth
        low, high = (tokens, high) if computing < travel else (low, tokens)
    return high


def full_square(heads, kv_heads, element, flops, bandwidth):
    return kv_heads * element * flops / (2 * heads * bandwidth)


def scores_only(heads, kv_heads, element, flops, bandwidth):
    return 2 * kv_heads * element * flops / (heads * bandwidth)


def no_groups(heads, kv_heads, element, flops, bandwidth):
    return element * flops / bandwidth


def upside_down(heads, kv_heads, element, flops, bandwidth):
    return heads / kv_heads * element * flops / bandwidth


def without_element(heads, kv_heads, element, flops, bandwidth):
    return kv_heads / heads * flops / bandwidth


def in_bits(heads, kv_heads, element, flops, bandwidth):
    return kv_heads / heads * element * flops / (bandwidth / 8)


def with_head_dim(heads, kv_heads, element, flops, bandwidth):
    return 128 * in_closed_form(heads, kv_heads, element, flops, bandwidth)


ANSWERS = {
    "11.1": Answers(
        right=(with_loops, with_numpy),
        wrong=(
            Wrong(dealt_heads, "heads dealt like cards"),
            Wrong(mine_first, "own tokens first"),
            Wrong(sliced_only, "nothing was exchanged"),
            Wrong(gathered, "everything to everybody"),
            Wrong(woven, "tokens in turn"),
            Wrong(my_share_to_all, "the sender's share"),
            Wrong(backwards),
            Wrong(unchanged),
        ),
    ),
    "11.2": Answers(
        right=(by_slices, by_numpy),
        wrong=(
            Wrong(dealt_tokens, "tokens dealt like cards"),
            Wrong(one_long_row, "heads in one row"),
            Wrong(mine_on_top, "own heads first"),
            Wrong(only_mine, "own heads only"),
            Wrong(heads_in_turn, "heads in turn"),
            Wrong(ranks_reversed),
        ),
    ),
    "11.3": Answers(
        right=(from_the_layout, chunk_by_chunk),
        wrong=(
            Wrong(before_the_swap, "positions from before the swap"),
            Wrong(tiled, "own positions repeated"),
            Wrong(zero_based, "counted from zero"),
            Wrong(contiguous_only, "zigzag forgotten"),
            Wrong(zigzag_of_the_world, "zigzag over all ranks"),
            Wrong(late_then_early, "late chunk first"),
            Wrong(all_positions),
        ),
    ),
    "11.4": Answers(
        right=(by_table, by_count),
        wrong=(
            Wrong(without_rings, "the ring is not tested"),
            Wrong(without_swaps, "the swap is not tested"),
            Wrong(without_one_rank, "one rank is not tested"),
            Wrong(zigzag_first, "every wrong zigzag is a forgotten zigzag"),
            Wrong(swap_first, "the swap is always to blame"),
            Wrong(confused, "counting and own positions confused"),
            Wrong(always_healthy),
        ),
    ),
    "11.5": Answers(
        right=(with_lcm, by_trial),
        wrong=(
            Wrong(strict, "key heads must divide"),
            Wrong(no_bound, "any degree goes"),
            Wrong(up_to_the_heads, "not more ranks than heads"),
            Wrong(floor_copies, "copies are U over K"),
            Wrong(no_grouping, "a copy for every query head"),
            Wrong(everywhere, "a copy for every rank"),
            Wrong(largest_first),
        ),
    ),
    "11.6": Answers(
        right=(by_stage, by_factor),
        wrong=(
            Wrong(half_is_one, "half is one of two"),
            Wrong(cosine, "direction is enough"),
            Wrong(loss_curve, "a right output is health"),
            Wrong(any_test_counts, "a test without copies"),
            Wrong(backward_first, "gradients before the output"),
            Wrong(wrong_way, "mean and double sum confused"),
            Wrong(always_averaged),
        ),
    ),
    "11.7": Answers(
        right=(from_the_package, by_remainder),
        wrong=(
            Wrong(ring_first, "ring inside"),
            Wrong(others, "itself left out"),
            Wrong(other_order, "groups exchanged"),
            Wrong(stride_of_the_ring, "the ring's own stride"),
            Wrong(two_neighbours, "only its neighbours"),
            Wrong(everybody),
        ),
    ),
    "11.8": Answers(
        right=(tensor_by_tensor, parcel_by_parcel),
        wrong=(
            Wrong(whole_tensors, "own part is sent"),
            Wrong(no_way_back, "three swaps"),
            Wrong(free_copies, "copies are free"),
            Wrong(mha, "all heads alike"),
            Wrong(ring_rank_with_all_heads, "a ring of all heads"),
            Wrong(all_gather, "everything to everybody"),
            Wrong(last_hop_home, "keys come home"),
            Wrong(of_the_world),
        ),
    ),
    "11.9": Answers(
        right=(in_closed_form, by_bisection),
        wrong=(
            Wrong(full_square, "all T x T pairs"),
            Wrong(scores_only, "half of the arithmetic"),
            Wrong(no_groups, "every query head has its own keys"),
            Wrong(upside_down, "grouping the wrong way round"),
            Wrong(without_element, "numbers instead of bytes"),
            Wrong(in_bits, "bits for bytes"),
            Wrong(with_head_dim),
        ),
    ),
}
