# Solutions to notebook 04. One cell per exercise; each is one right answer among several.

from labsim.lab.course import exercise

# %% 04.1
@exercise("04.1")
def tokens_per_step(parents, chance):
    path = []
    for parent, one in zip(parents, chance):
        path.append(one * (path[parent] if parent >= 0 else 1))
    return 1 + sum(path)

# %% 04.2
@exercise("04.2")
def mask_and_positions_by_hand(parents, length):
    mask, positions = [], []
    for node, parent in enumerate(parents):
        row = list(mask[parent]) if parent >= 0 else [False] * len(parents)
        row[node] = True
        mask.append(row)
        positions.append(length + sum(row) - 1)
    return mask, positions

# %% 04.3
@exercise("04.3")
def sibling_chances(p, q, siblings):
    p, q, chances = list(p), list(q), []
    for token in siblings:
        chances.append(min(1, p[token] / q[token]))
        residual = [max(0, a - b) for a, b in zip(p, q)]
        p = [x / sum(residual) for x in residual]
        q[token] = 0
        q = [x / sum(q) for x in q]
    return chances

# %% 04.4
@exercise("04.4")
def eagle2_tree(table, depth, top_k, nodes):
    worth, level = {(): 1.0}, [()]
    for _ in range(depth):
        children = []
        for path in level:
            for word in sorted(table[path], key=table[path].get)[-top_k:]:
                worth[(*path, word)] = worth[path] * table[path][word]
                children.append((*path, word))
        level = sorted(children, key=worth.get)[-top_k:]
    del worth[()]
    return sorted(worth, key=worth.get)[-nodes:]

# %% 04.5
@exercise("04.5")
def best_nodes(lengths, fixed_ms, row_ms, batch):
    return max(range(len(lengths)), key=lambda n: lengths[n] / (fixed_ms + row_ms * batch * (n + 1)))
