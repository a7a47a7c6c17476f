"""Answers to the exercises of notebook 10."""

from labsim.parallel.layout import Layout, blocks
from tests.mutants.harness import Answers, Wrong

# 10.1 which block at which hop


def by_remainder(ring, rank, hop):
    owner = (rank - hop) % ring
    return owner, "triangle" if owner == rank else "square" if owner < rank else "nothing"


def by_the_layout(ring, rank, hop):
    owner = (rank + ring - hop) % ring
    found = blocks(Layout(2 * ring, ring, 1, "contiguous"), rank, owner)
    return [owner, ("triangle" if found[0].causal else "square") if found else "nothing"]


def from_ahead(ring, rank, hop):
    owner = (rank + hop) % ring
    return owner, by_remainder(ring, rank, rank - owner)[1]


def without_a_ring(ring, rank, hop):
    return rank - hop, "triangle" if hop == 0 else "square"


def everything_is_seen(ring, rank, hop):
    return (rank - hop) % ring, "square" if hop else "triangle"


def triangles_only(ring, rank, hop):
    owner, work = by_remainder(ring, rank, hop)
    return owner, "triangle" if work == "square" else work


def squares_only(ring, rank, hop):
    owner, work = by_remainder(ring, rank, hop)
    return owner, "square" if work == "triangle" else work


def one_too_many(ring, rank, hop):
    return by_remainder(ring, rank, hop + 1)


def the_future(ring, rank, hop):
    owner, work = by_remainder(ring, rank, hop)
    return owner, {"square": "nothing", "nothing": "square"}.get(work, work)


def work_by_hop(ring, rank, hop):
    """Hops up to half the ring are taken to be the past."""
    return (rank - hop) % ring, "triangle" if hop == 0 else "square" if hop <= ring // 2 else "nothing"


# 10.2 who holds the token


def mirrored_chunk(position, length, ring):
    size = length // (2 * ring)
    chunk = position // size
    return min(chunk, 2 * ring - 1 - chunk), position % size + size * (chunk >= ring)


def searched(position, length, ring):
    layout = Layout(length, ring, 1, "zigzag")
    shards = [layout.positions(rank).tolist() for rank in range(ring)]
    return next((rank, shard.index(position)) for rank, shard in enumerate(shards) if position in shard)


def one_chunk_each(position, length, ring):
    size = length // ring
    return position // size, position % size


def dealt_twice(position, length, ring):
    size = length // (2 * ring)
    chunk, inside = position // size, position % size
    return chunk % ring, inside + (size if chunk >= ring else 0)


def round_robin(position, length, ring):
    return position % ring, position // ring


def inside_the_chunk(position, length, ring):
    return mirrored_chunk(position, length, ring)[0], position % (length // (2 * ring))


def late_first(position, length, ring):
    rank, place = mirrored_chunk(position, length, ring)
    size = length // (2 * ring)
    return rank, (place + size) % (2 * size)


def off_by_one_mirror(position, length, ring):
    size = length // (2 * ring)
    chunk = position // size
    return (chunk if chunk < ring else (2 * ring - chunk) % ring), position % size + size * (chunk >= ring)


# 10.3 the bytes of a ring


def by_formula(ring, tokens, heads, kv_heads, head_dim, element, wide):
    n = tokens * kv_heads * head_dim
    forward = (ring - 1) * 2 * n // ring * element
    return forward, forward + (2 * n * wide if ring > 1 else 0)


def hop_by_hop(ring, tokens, heads, kv_heads, head_dim, element, wide):
    shard = tokens // ring * kv_heads * head_dim
    keys = sum(2 * shard * element for _ in range(ring - 1))
    gradients = sum(2 * shard * wide for _ in range(ring)) if ring > 1 else 0
    return [keys, keys + gradients]


def keys_go_home(ring, tokens, heads, kv_heads, head_dim, element, wide):
    n = tokens * kv_heads * head_dim
    return (0, 0) if ring == 1 else (2 * n * element, 2 * n * (element + wide))


def all_short(ring, tokens, heads, kv_heads, head_dim, element, wide):
    pair = 2 * (tokens // ring) * kv_heads * head_dim * (ring - 1)
    return pair * element, pair * (element + wide)


def one_tensor(ring, tokens, heads, kv_heads, head_dim, element, wide):
    return tuple(x // 2 for x in by_formula(ring, tokens, heads, kv_heads, head_dim, element, wide))


def all_heads(ring, tokens, heads, kv_heads, head_dim, element, wide):
    return by_formula(ring, tokens, heads, heads, head_dim, element, wide)


def no_keys_in_backward(ring, tokens, heads, kv_heads, head_dim, element, wide):
    forward, backward = by_formula(ring, tokens, heads, kv_heads, head_dim, element, wide)
    return forward, backward - forward


def half_precision_gradients(ring, tokens, heads, kv_heads, head_dim, element, wide):
    return by_formula(ring, tokens, heads, kv_heads, head_dim, element, element)


def alone_it_sends(ring, tokens, heads, kv_heads, head_dim, element, wide):
    n = tokens * kv_heads * head_dim
    forward = (ring - 1) * 2 * n // ring * element
    return forward, forward + 2 * n * wide


def over_all_ranks(ring, tokens, heads, kv_heads, head_dim, element, wide):
    return tuple(ring * x for x in by_formula(ring, tokens, heads, kv_heads, head_dim, element, wide))


def gradients_only_forward_forgotten(ring, tokens, heads, kv_heads, head_dim, element, wide):
    forward, backward = by_formula(ring, tokens, heads, kv_heads, head_dim, element, wide)
    return backward, forward


# 10.4 the fault by its symptom


def by_stage(wrong):
    if any(wrong["out"]):
        return "merge"
    if any(wrong["dq"]):
        return "own lse" if all(wrong["dv"]) else "first keys"
    if any(wrong["dk"]):
        return "hop short" if any(wrong["dv"]) else "sum dropped"
    return "healthy"


def by_pattern(wrong):
    pattern = tuple((any(wrong[name]), all(wrong[name])) for name in ("out", "dq", "dk", "dv"))
    no, yes, some = (False, False), (True, True), (True, False)
    known = {
        (no, no, no, no): "healthy",
        (no, no, yes, yes): "hop short",
        (no, no, yes, no): "sum dropped",
        (no, some, some, some): "first keys",
        (no, some, yes, yes): "own lse",
    }
    return known.get(pattern, "merge")


def exchanged(wrong):
    name = by_stage(wrong)
    return {"own lse": "first keys", "first keys": "own lse"}.get(name, name)


def loss_only(wrong):
    return "merge" if any(wrong["out"]) else "healthy"


def dk_means_short(wrong):
    name = by_stage(wrong)
    return "hop short" if name == "sum dropped" else name


def never_dq(wrong):
    if any(wrong["out"]):
        return "merge"
    if all(wrong["dk"]) and all(wrong["dv"]):
        return "hop short"
    return by_stage(wrong)


def rank_zero(wrong):
    return by_stage({name: row[:1] for name, row in wrong.items()})


def merge_as_own_lse(wrong):
    name = by_stage(wrong)
    return "own lse" if name == "merge" else name


def always_merge(wrong):
    return "merge"


def sums_for_shorts(wrong):
    name = by_stage(wrong)
    return {"hop short": "sum dropped", "sum dropped": "hop short"}.get(name, name)


# 10.5 a shift over the seam


def put_together(shards):
    half = len(shards[0]) // 2
    text = [t for shard in shards for t in shard[:half]] + [t for shard in shards[::-1] for t in shard[half:]]
    after = dict(zip(text, [*text[1:], None], strict=True))
    return [[after[token] for token in shard] for shard in shards]


def with_a_halo(shards):
    """Each rank asks its neighbours for one token per seam."""
    ring, half, found = len(shards), len(shards[0]) // 2, []
    for rank, shard in enumerate(shards):
        early, late = shard[:half], shard[half:]
        behind_early = shards[rank + 1][0] if rank + 1 < ring else late[0]
        behind_late = shards[rank - 1][half] if rank else None
        found.append((*early[1:], behind_early, *late[1:], behind_late))
    return found


def own_shard(shards):
    return [[*shard[1:], None] for shard in shards]


def rolled(shards):
    return [list(shard[1:]) + list(shard[:1]) for shard in shards]


def contiguous_halo(shards):
    return [[*shard[1:], shards[i + 1][0] if i + 1 < len(shards) else None] for i, shard in enumerate(shards)]


def one_seam(shards):
    return [[*row[:-1], None] for row in put_together(shards)]


def other_seam(shards):
    half = len(shards[0]) // 2
    return [
        [shard[half] if i == half - 1 else token for i, token in enumerate(row)]
        for shard, row in zip(shards, put_together(shards), strict=True)
    ]


def endless(shards):
    return [[shards[0][0] if token is None else token for token in row] for row in put_together(shards)]


def the_token_before(shards):
    half = len(shards[0]) // 2
    text = [t for shard in shards for t in shard[:half]] + [t for shard in shards[::-1] for t in shard[half:]]
    before = dict(zip(text[1:], text[:-1], strict=True))
    return [[before.get(token) for token in shard] for shard in shards]


# 10.6 what lands where


def queue_by_queue(sent, expected):
    lines = [list(order) for order in sent]
    found = []
    for rank, buffers in enumerate(expected):
        line = lines[(rank - 1) % len(sent)]
        found.append({buffer: line.pop(0) for buffer in buffers})
    return found


def shifted_round(sent, expected):
    came = [sent[-1], *sent[:-1]]
    return [{buffer: came[rank][at] for at, buffer in enumerate(buffers)} for rank, buffers in enumerate(expected)]


def labelled(sent, expected):
    return [{name: name for name in buffers} for buffers in expected]


def the_wrong_neighbour(sent, expected):
    return [dict(zip(expected[rank], sent[(rank + 1) % len(sent)], strict=True)) for rank in range(len(sent))]


def its_own(sent, expected):
    return [dict(zip(buffers, mine, strict=True)) for mine, buffers in zip(sent, expected, strict=True)]


def stacked(sent, expected):
    return [dict(zip(buffers, sent[rank - 1][::-1], strict=True)) for rank, buffers in enumerate(expected)]


def turned_round(sent, expected):
    return [dict(zip(sent[rank - 1], buffers, strict=True)) for rank, buffers in enumerate(expected)]


def all_from_rank_0(sent, expected):
    return [dict(zip(buffers, sent[0], strict=True)) for buffers in expected]


ANSWERS = {
    "10.1": Answers(
        right=(by_remainder, by_the_layout),
        wrong=(
            Wrong(from_ahead, "keys come from the rank ahead"),
            Wrong(without_a_ring, "the ring does not close"),
            Wrong(everything_is_seen, "later keys are seen"),
            Wrong(triangles_only, "the mask at every hop"),
            Wrong(squares_only, "no mask on its own chunk"),
            Wrong(one_too_many, "hops counted from one"),
            Wrong(the_future, "past and future exchanged"),
            Wrong(work_by_hop),
        ),
    ),
    "10.2": Answers(
        right=(mirrored_chunk, searched),
        wrong=(
            Wrong(one_chunk_each, "contiguous"),
            Wrong(dealt_twice, "not mirrored"),
            Wrong(round_robin, "striped"),
            Wrong(inside_the_chunk, "place in the chunk"),
            Wrong(late_first, "the late chunk first"),
            Wrong(off_by_one_mirror),
        ),
    ),
    "10.3": Answers(
        right=(by_formula, hop_by_hop),
        wrong=(
            Wrong(keys_go_home, "keys come home"),
            Wrong(all_short, "gradients one hop short"),
            Wrong(one_tensor, "keys without values"),
            Wrong(all_heads, "query heads travel"),
            Wrong(over_all_ranks, "the whole text at each hop"),
            Wrong(no_keys_in_backward, "keys stay home in backward"),
            Wrong(half_precision_gradients, "narrow gradients"),
            Wrong(alone_it_sends, "a ring of one sends to itself"),
            Wrong(gradients_only_forward_forgotten),
        ),
    ),
    "10.4": Answers(
        right=(by_stage, by_pattern),
        wrong=(
            Wrong(exchanged, "first keys and own lse confused"),
            Wrong(loss_only, "a right output is health"),
            Wrong(dk_means_short, "dk without dv"),
            Wrong(never_dq, "every wrong dk is a hop short"),
            Wrong(rank_zero, "rank 0 speaks for all"),
            Wrong(merge_as_own_lse, "gradients before the output"),
            Wrong(always_merge),
            Wrong(sums_for_shorts),
        ),
    ),
    "10.5": Answers(
        right=(put_together, with_a_halo),
        wrong=(
            Wrong(own_shard, "shifted inside the shard"),
            Wrong(rolled, "rolled inside the shard"),
            Wrong(contiguous_halo, "the next rank's first token"),
            Wrong(one_seam, "only the seam inside"),
            Wrong(other_seam, "only the seam outside"),
            Wrong(endless, "the text as a ring"),
            Wrong(the_token_before),
        ),
    ),
    "10.6": Answers(
        right=(queue_by_queue, shifted_round),
        wrong=(
            Wrong(labelled, "matched by name"),
            Wrong(the_wrong_neighbour, "from the next rank"),
            Wrong(its_own, "the own order"),
            Wrong(stacked, "last posted first"),
            Wrong(turned_round, "from message to buffer"),
            Wrong(all_from_rank_0),
        ),
    ),
}
