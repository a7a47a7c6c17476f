"""Do all ranks mean the same run?

Started by hand on several machines, one rank may get another command line, an older file or no checkpoint. Shapes then
often agree all the same, every collective succeeds, and the weights drift apart without a word. So before the first
step the ranks compare digests of what must be the same: a few bytes each.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

import torch

from .group import Group


def agree(world: Group, said: Mapping[str, object], device: torch.device | str = "cpu") -> None:
    """Compare this rank's values with the others'; every rank gives the same names.

    ValueError, on every rank, naming the value and who differs from rank 0.
    """
    digests_N = torch.tensor([number_of(value) for value in said.values()], device=device)
    gathered_PN = world.all_gather(digests_N, "comparing what each rank was started with")
    for name, value, digests_P in zip(said, said.values(), gathered_PN.T.tolist(), strict=True):
        if others := [rank for rank, one in enumerate(digests_P) if one != digests_P[0]]:
            who = f"rank {others[0]} has" if len(others) == 1 else f"ranks {', '.join(map(str, others))} have"
            raise ValueError(
                f"{who} another {name} than rank 0 (here, on rank {world.rank}: {value}): start all ranks with the "
                "same command line, files and directories"
            )


def number_of(value: object) -> int:
    """A digest that fits into int64."""
    return int.from_bytes(hashlib.sha256(json.dumps(value, sort_keys=True).encode()).digest()[:7], "little")
