"""Answers to the exercises of notebook 04."""

import math

import numpy as np

from tests.mutants.harness import Answers, Wrong

# 04.1 what a tree is worth


def by_products(parents, chance):
    path = []
    for parent, one in zip(parents, chance, strict=True):
        path.append(one * (path[parent] if parent >= 0 else 1))
    return 1 + sum(path)


def by_recursion(parents, chance):
    def below(node):
        return sum(chance[i] * (1 + below(i)) for i in range(len(parents)) if parents[i] == node)

    return 1 + below(-1)


def leaves_only(parents, chance):
    path = [0.0] * len(parents)
    for i, parent in enumerate(parents):
        path[i] = chance[i] * (1 if parent == -1 else path[parent])
    return 1 + sum(value for i, value in enumerate(path) if i not in parents)


def leaf_times_depth(parents, chance):
    total = 0
    for leaf in set(range(len(parents))) - set(parents):
        depth, product, node = 0, 1, leaf
        while node >= 0:
            depth, product, node = depth + 1, product * chance[node], parents[node]
        total += depth * product
    return 1 + total


def sum_of_chances(parents, chance):
    return sum(chance) + 1


def without_the_bonus(parents, chance):
    return by_products(parents, chance) - 1


def as_a_chain(parents, chance):
    def below(node):
        return max((chance[i] * (1 + below(i)) for i in range(len(parents)) if parents[i] == node), default=0)

    return 1 + below(-1)


def adds_k(parents, chance):
    return len(parents) + 1


def one_level(parents, chance):
    return 1 + sum(one for parent, one in zip(parents, chance, strict=True) if parent == -1)


def parent_only(parents, chance):
    return 1 + sum(one * (chance[parent] if parent >= 0 else 1) for parent, one in zip(parents, chance, strict=True))


# 04.2 who sees whom


def row_by_row(parents, length):
    mask = []
    for i, p in enumerate(parents):
        row = list(mask[p]) if p >= 0 else [False] * len(parents)
        row[i] = True
        mask.append(row)
    return mask, [length + sum(row) - 1 for row in mask]


def by_climbing_with_numpy(parents, length):
    n = len(parents)
    mask, positions = np.zeros((n, n), dtype=int), np.zeros(n, dtype=int)
    for i in range(n):
        at, above = i, -1
        while at >= 0:
            mask[i, at] = 1
            at, above = parents[at], above + 1
        positions[i] = length + above
    return mask, positions


def changed_mask(rule):
    def answer(parents, length):
        mask, positions = row_by_row(parents, length)
        n = range(len(parents))
        return [[rule(i, j, mask, parents) for j in n] for i in n], positions

    return answer


def changed_positions(rule):
    def answer(parents, length):
        mask, positions = row_by_row(parents, length)
        return mask, [rule(i, position - length + 1, length) for i, position in enumerate(positions)]

    return answer


def causal(parents, length):
    n = len(parents)
    return np.tril(np.ones((n, n), dtype=bool)), row_by_row(parents, length)[1]


def mask_only(parents, length):
    return row_by_row(parents, length)[0]


def transposed(parents, length):
    mask, positions = row_by_row(parents, length)
    return [list(column) for column in zip(*mask, strict=True)], positions


# 04.3 siblings


def in_plain_python(p, q, siblings):
    p, q, chances = list(p), list(q), []
    for x in siblings:
        chances.append(min(1, p[x] / q[x]))
        p = [max(0, a - b) for a, b in zip(p, q, strict=True)]
        p = [a / sum(p) for a in p]
        q[x] = 0
        q = [b / sum(q) for b in q]
    return chances


def with_numpy(p, q, siblings):
    p, q, chances = np.array(p, float), np.array(q, float), []
    for x in siblings:
        chances.append(min(1.0, p[x] / q[x]))
        left = np.clip(p - q, 0, None)
        p = left / left.sum()
        q = np.where(np.arange(len(q)) == x, 0, q)
        q = q / q.sum()
    return np.array(chances)


def judged(p_rule, q_rule, ratio=lambda p, q: p / q):
    def answer(p, q, siblings):
        p, q, chances = np.array(p, float), np.array(q, float), []
        for x in siblings:
            chances.append(min(1.0, float(ratio(p[x], q[x]))) if p[x] > 0 or ratio(1, 2) < 1 else 1.0)
            p, q = p_rule(p, q, x), q_rule(q, x)
        return chances

    return answer


def normal(v):
    return v / v.sum() if v.sum() > 0 else v


def left(p, q, x):
    return normal(np.clip(p - q, 0, None))


def without(v, x):
    return np.where(np.arange(len(v)) == x, 0, v)


def greedy_match(p, q, siblings):
    best = max(range(len(p)), key=lambda i: p[i])
    return [float(x == best) for x in siblings]


def sum_min(p, q, siblings):
    return [sum(min(a, b) for a, b in zip(p, q, strict=True))] * len(siblings)


# 04.4 EAGLE-2


def with_a_dict(table, depth, top_k, nodes):
    worth, level = {(): 1.0}, [()]
    for _ in range(depth):
        new = []
        for path in level:
            for word in sorted(table[path], key=table[path].get)[-top_k:]:
                worth[(*path, word)] = worth[path] * table[path][word]
                new.append((*path, word))
        level = sorted(new, key=worth.get)[-top_k:]
    del worth[()]
    return sorted(worth, key=worth.get)[-nodes:]


def with_logarithms_as_a_set(table, depth, top_k, nodes):
    seen, level = [], [(0.0, ())]
    for _ in range(depth):
        new = []
        for worth, path in level:
            words = sorted(table[path].items(), key=lambda item: item[1], reverse=True)[:top_k]
            new += [(worth + math.log(chance), (*path, word)) for word, chance in words]
        level = sorted(new, reverse=True)[:top_k]
        seen += new
    return {path for _, path in sorted(seen, reverse=True)[:nodes]}


def eagle(rank="product", expand="best", final="all"):
    def answer(table, depth, top_k, nodes):
        product, own, total, level, widened = {(): 1.0}, {}, {(): 0.0}, [()], []
        for _ in range(depth):
            new = []
            for path in level:
                for word, chance in sorted(table[path].items(), key=lambda item: -item[1])[:top_k]:
                    child = (*path, word)
                    product[child], own[child], total[child] = product[path] * chance, chance, total[path] + chance
                    new.append(child)
            by = total if rank == "total" else product
            level = sorted(new, key=by.get, reverse=True)
            level = level if expand == "everything" else level[:top_k]
            widened += level
        worth = {"product": product, "own": own, "total": total}[rank]
        pool = {"all": list(own), "widened": widened, "last": new, "in order": list(own)}[final]
        return pool[:nodes] if final == "in order" else sorted(pool, key=worth.get, reverse=True)[:nodes]

    return answer


def greedy_chain(table, depth, top_k, nodes):
    path, paths = (), []
    for _ in range(depth):
        path = (*path, max(table[path], key=table[path].get))
        paths.append(path)
    return paths


def words_only(table, depth, top_k, nodes):
    return [path[-1] for path in with_a_dict(table, depth, top_k, nodes)]


# 04.5 how many nodes


def by_max(lengths, fixed_ms, row_ms, batch):
    return max(range(len(lengths)), key=lambda n: lengths[n] / (fixed_ms + row_ms * batch * (n + 1)))


def by_a_loop(lengths, fixed_ms, row_ms, batch):
    best, best_n = 0.0, 0
    for n, length in enumerate(lengths):
        rate = batch * length / (fixed_ms + row_ms * (batch * n + batch))
        if rate > best:
            best, best_n = rate, n
    return best_n


def longest(lengths, fixed_ms, row_ms, batch):
    return len(lengths) - 1


def one_request(lengths, fixed_ms, row_ms, batch):
    return max(range(len(lengths)), key=lambda n: lengths[n] / (fixed_ms + row_ms * (n + 1)))


def n_rows(lengths, fixed_ms, row_ms, batch):
    return max(range(len(lengths)), key=lambda n: lengths[n] / (fixed_ms + row_ms * batch * n))


def shortest(lengths, fixed_ms, row_ms, batch):
    return min(range(len(lengths)), key=lambda n: fixed_ms + row_ms * batch * (n + 1))


def fixed_per_request(lengths, fixed_ms, row_ms, batch):
    return max(range(len(lengths)), key=lambda n: lengths[n] / (batch * fixed_ms + row_ms * batch * (n + 1)) ** 2)


def off_by_one(lengths, fixed_ms, row_ms, batch):
    return by_max(lengths, fixed_ms, row_ms, batch) + 1


def at_least_one(lengths, fixed_ms, row_ms, batch):
    rates = np.array(lengths[1:]) / (fixed_ms + row_ms * batch * (np.arange(1, len(lengths)) + 1))
    return 1 + int(rates.argmax())


def hill_climbing(lengths, fixed_ms, row_ms, batch):
    n = 0
    while n + 1 < len(lengths):
        here, there = (lengths[m] / (fixed_ms + row_ms * batch * (m + 1)) for m in (n, n + 1))
        if there < here:
            break
        n += 1
    return n


def ten_percent(lengths, fixed_ms, row_ms, batch):
    """Drafts only where it gains a tenth."""
    best = by_max(lengths, fixed_ms, row_ms, batch)
    gain = lengths[best] * (fixed_ms + row_ms * batch) / (fixed_ms + row_ms * batch * (best + 1))
    return best if gain > 1.1 else 0


def rows_of_numpy(parents, length):
    mask, positions = by_climbing_with_numpy(parents, length)
    return list(mask.astype(bool)), list(positions)


ANSWERS = {
    "04.1": Answers(
        right=(by_products, by_recursion),
        wrong=(
            Wrong(leaves_only, "only the leaves are counted"),
            Wrong(leaf_times_depth, "all or nothing per branch"),
            Wrong(sum_of_chances, "chances added without their parents"),
            Wrong(without_the_bonus, "no token of the target's own"),
            Wrong(as_a_chain, "the best branch only"),
            Wrong(adds_k, "every node is emitted"),
            Wrong(one_level),
            Wrong(parent_only),
        ),
    ),
    "04.2": Answers(
        right=(row_by_row, by_climbing_with_numpy, rows_of_numpy),
        wrong=(
            Wrong(causal, "a causal mask"),
            Wrong(changed_mask(lambda i, j, mask, parents: j == i or j == parents[i]), "parent and itself only"),
            Wrong(changed_mask(lambda i, j, mask, parents: mask[i][j] and i != j), "a node does not see itself"),
            Wrong(
                changed_mask(lambda i, j, mask, parents: mask[i][j] or (j < i and parents[j] == parents[i])),
                "siblings see each other",
            ),
            Wrong(changed_positions(lambda i, depth, length: length + i), "positions count nodes"),
            Wrong(changed_positions(lambda i, depth, length: depth - 1), "positions start at 0"),
            Wrong(changed_positions(lambda i, depth, length: length + depth), "positions are one too large"),
            Wrong(mask_only),
            Wrong(transposed),
        ),
    ),
    "04.3": Answers(
        right=(in_plain_python, with_numpy),
        wrong=(
            Wrong(judged(lambda p, q, x: p, lambda q, x: normal(without(q, x))), "every sibling is judged by p itself"),
            Wrong(
                judged(lambda p, q, x: np.clip(p - q, 0, None), lambda q, x: normal(without(q, x))),
                "the residual is not renormalised",
            ),
            Wrong(judged(left, lambda q, x: q), "q is left as it was"),
            Wrong(judged(left, without), "q is left as it was"),
            Wrong(
                judged(lambda p, q, x: normal(without(p, x)), lambda q, x: normal(without(q, x))),
                "p without the first sibling",
            ),
            Wrong(judged(left, lambda q, x: normal(without(q, x)), ratio=lambda p, q: q / p if p else 1.0), "q over p"),
            Wrong(greedy_match),
            Wrong(sum_min),
        ),
    ),
    "04.4": Answers(
        right=(with_a_dict, with_logarithms_as_a_set),
        wrong=(
            Wrong(eagle(rank="own"), "ranked by a node's own chance"),
            Wrong(eagle(rank="total"), "chances along a path are added"),
            Wrong(eagle(final="widened"), "only expanded nodes are kept"),
            Wrong(eagle(final="last"), "the last level only"),
            Wrong(eagle(expand="everything"), "everything is expanded"),
            Wrong(eagle(final="in order"), "shallow nodes first"),
            Wrong(greedy_chain),
            Wrong(words_only),
        ),
    ),
    "04.5": Answers(
        right=(by_max, by_a_loop),
        wrong=(
            Wrong(longest, "the longest acceptance wins"),
            Wrong(one_request, "the batch is left out"),
            Wrong(n_rows, "the last token rides for free"),
            Wrong(shortest, "the shortest step wins"),
            Wrong(at_least_one, "not drafting is no choice"),
            Wrong(hill_climbing, "stops at the first dip"),
            Wrong(ten_percent),
            Wrong(fixed_per_request),
            Wrong(off_by_one),
        ),
    ),
}
