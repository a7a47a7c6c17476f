"""A model that is a table: the next-token logits after any path of tokens, drawn once from a seed.

It answers the question `run` of `labsim.drafts.expand` without a network, so that a test can look up every path.
"""

from __future__ import annotations

import random

import torch


class PathModel:
    """Logits (float64) by row and path; `run` remembers which nodes were run, as a drafter's cache does."""

    def __init__(self, vocab: int, batch: int = 1, seed: int = 0, spread: float = 2.0) -> None:
        self.vocab, self.batch, self.seed, self.spread = vocab, batch, seed, spread
        self.nodes: list[list[tuple[int, ...]]] = [[] for _ in range(batch)]
        self.calls: list[int] = []

    def logits(self, row: int, path: tuple[int, ...]) -> list[float]:
        rng = random.Random(f"{self.seed} {row} {path}")
        return [rng.gauss(0, self.spread) for _ in range(self.vocab)]

    def log_probabilities(self, row: int, path: tuple[int, ...]) -> list[float]:
        return torch.tensor(self.logits(row, path), dtype=torch.float64).log_softmax(-1).tolist()

    def root(self) -> torch.Tensor:
        return torch.tensor([self.logits(row, ()) for row in range(self.batch)], dtype=torch.float64)

    def run(self, tokens_BW: torch.Tensor, parents: list[list[int]]) -> torch.Tensor:
        self.calls.append(tokens_BW.shape[1])
        answers = []
        for row, (tokens, above) in enumerate(zip(tokens_BW.tolist(), parents, strict=True)):
            known = self.nodes[row]
            paths = [
                (*(known[parent] if parent >= 0 else ()), token) for token, parent in zip(tokens, above, strict=True)
            ]
            known += paths
            answers.append([self.logits(row, path) for path in paths])
        return torch.tensor(answers, dtype=torch.float64)
