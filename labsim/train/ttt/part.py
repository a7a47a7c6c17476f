"""One rank's part of a packed row.

A row of 128 K tokens does not fit one GPU: its states, the draft's activations and the logits do not. Every rank knows
the row's token ids and masks, a few bytes a token; of the target's states, kilobytes a token, it reads its own
positions' only, and of the teacher's state the few positions more that its last guesses reach for:

    a guess made at position t in TTT step k is about t + 2 + k, and is judged by the teacher at t + 1 + k

so that behind each run of neighbouring positions there is a halo of as many as there are steps. Under zigzag a rank has
two runs, and two halos; shifting a rank's own tokens by one instead would put a stranger's token at each seam.

Losses are sums over a rank's own guesses, divided by the number of guesses of *all* ranks; then gradients add up over
the ranks to those of one process, whatever a rank's share of the answer tokens is.

Shapes: L positions of the rank, M positions of the teacher that it needs, F feature width, E the target's hidden size.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch

from ...attention.usp import USP
from ...features.source import StateSource, TargetStates
from ...parallel.layout import Kind, Layout
from ...parallel.mesh import Mesh
from .data import PackedRow


@dataclass(frozen=True)
class Part:
    """What one rank computes of a row; also the draft's `StepView`.

    Attributes:
        steps: TTT steps, which the halo must cover.
    """

    row: PackedRow
    mesh: Mesh
    layout: Layout
    steps: int

    @classmethod
    def of(cls, row: PackedRow, mesh: Mesh, steps: int, kind: Kind = "zigzag") -> Part:
        """The mesh says which ranks' part it is."""
        documents = tuple(row.lengths)
        layout = Layout(sum(documents), mesh.ring.size, mesh.ulysses.size, kind, documents)
        return cls(row, mesh, layout, steps)

    @cached_property
    def positions_L(self) -> torch.Tensor:
        """Row positions, ascending; those at or beyond the row's length are padding."""
        return self.layout.positions(self.mesh.ring.rank, self.mesh.ulysses.rank)

    def tokens(self, step: int) -> torch.Tensor:
        """(1, L): at each position the token `step + 1` further on, from whichever rank's part; 0 past the end."""
        wanted = self.positions_L + 1 + step
        inside = wanted < self.layout.length
        return torch.where(inside, self.row.tokens_1L[0, wanted.clamp(max=self.layout.length - 1)], 0)[None]

    @property
    def attention(self) -> USP:
        return USP(self.mesh, self.layout)

    @cached_property
    def teacher_positions(self) -> torch.Tensor:
        """(M,): where the teacher judges some guess of this rank."""
        wanted = [self.guesses(step) + 1 + step for step in range(self.steps)]
        return torch.cat(wanted).unique()

    def guesses(self, step: int) -> torch.Tensor:
        """This rank's positions whose guess at a step counts."""
        return self.positions_L[torch.isin(self.positions_L, self.row.places(step))]

    def judged(self, step: int) -> tuple[torch.Tensor, torch.Tensor]:
        """For each of the M teacher positions: (at which of the L places its guess was made, whether it is ours)."""
        guess_M = self.teacher_positions - 1 - step
        at_M = torch.searchsorted(self.positions_L, guess_M).clamp(max=len(self.positions_L) - 1)
        return at_M, torch.isin(guess_M, self.guesses(step))

    def states(self, source: StateSource) -> list[TargetStates]:
        """One entry: features (L, F) of this rank's positions, zeros in the padding, and the teacher's (M, E)."""
        features, last, begin = [], [], 0
        for document in self.row.documents:
            end = begin + len(document.tokens)
            own, needed = (
                positions[(positions >= begin) & (positions < end)] - begin
                for positions in (self.positions_L, self.teacher_positions)
            )
            found = source.read_at(document.tokens, own, needed)
            features.append(found.features_TF)
            last.append(found.last_TE)
            begin = end
        features_LF = torch.cat(features)
        padding = len(self.positions_L) - len(features_LF)
        return [TargetStates(torch.nn.functional.pad(features_LF, (0, 0, 0, padding)), torch.cat(last))]

    def total(self, count: torch.Tensor) -> torch.Tensor:
        """A count or a sum over all ranks."""
        return self.mesh.world.all_reduce(count, "sum over ranks")
