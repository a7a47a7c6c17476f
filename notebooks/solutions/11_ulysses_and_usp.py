# Solutions to notebook 11. One cell per exercise; each is one right answer among several.

from labsim.lab.course import exercise

# %% 11.1
@exercise("11.1")
def inside(held):
    ranks = len(held)
    share = len(held[0]) // ranks
    return [
        [[x for sender in held for x in sender[u * share + h]] for h in range(share)]
        for u in range(ranks)
    ]

# %% 11.2
@exercise("11.2")
def outside(inside):
    ranks = len(inside)
    size = len(inside[0][0]) // ranks
    return [
        [row[u * size : (u + 1) * size] for sender in inside for row in sender]
        for u in range(ranks)
    ]

# %% 11.3
@exercise("11.3")
def positions(length, ring, ulysses, ring_rank, ulysses_rank, layout):
    if layout == "contiguous":
        size = length // ring
        return list(range(ring_rank * size, (ring_rank + 1) * size))
    size = length // (2 * ring)
    late = 2 * ring - 1 - ring_rank
    return [
        *range(ring_rank * size, (ring_rank + 1) * size),
        *range(late * size, (late + 1) * size),
    ]

# %% 11.4
@exercise("11.4")
def name_the_fault(seen):
    wrong = [(ring, ulysses, layout) for ring, ulysses, layout, bad in seen if bad]
    if not wrong:
        return "healthy"
    if any(ring * ulysses == 1 for ring, ulysses, layout in wrong):
        return "rotated twice"
    if any(ulysses == 1 and layout == "contiguous" for ring, ulysses, layout in wrong):
        return "counted from zero"
    if any(layout == "contiguous" for ring, ulysses, layout in wrong):
        return "own positions inside"
    return "zigzag forgotten"

# %% 11.5
from math import gcd

@exercise("11.5")
def legal_meshes(world, heads, kv_heads):
    return [
        (world // u, u, u // gcd(kv_heads, u))
        for u in range(1, world + 1)
        if world % u == 0 and heads % u == 0
    ]

# %% 11.6
@exercise("11.6")
def name_the_gradient_fault(copies, out_wrong, slope, rest):
    if copies == 1:
        return "nothing to see"
    if out_wrong:
        return "strided heads"
    if rest > 1e-6:
        return "one copy"
    if abs(slope - 1) < 1e-6:
        return "healthy"
    return "averaged" if slope < 1 else "counted twice"

# %% 11.7
@exercise("11.7")
def groups(rank, ring, ulysses):
    r, u = divmod(rank, ulysses)
    return [v * ulysses + u for v in range(ring)], [r * ulysses + v for v in range(ulysses)]

# %% 11.8
from math import lcm

@exercise("11.8")
def sent_by_a_rank(ring, ulysses, tokens, heads, kv_heads, head_dim, element):
    mine = tokens // (ring * ulysses) * head_dim * element
    sent = lcm(kv_heads, ulysses)
    return (ring - 1) * 2 * sent * mine, 2 * (heads + sent) * mine * (ulysses - 1) // ulysses

# %% 11.9
@exercise("11.9")
def tokens_that_hide(heads, kv_heads, element, flops, bandwidth):
    return kv_heads / heads * element * flops / bandwidth
