"""Ring attention beside torch's own, on real ranks."""

from __future__ import annotations

import pytest
import torch

from labsim.parallel import launch
from labsim.parallel.layout import Layout
from tests.attention.sequence_reference import draws

pytest.importorskip("torch.distributed.tensor.experimental._context_parallel._attention")


@pytest.mark.parametrize("world", [2, 4])
def test_output_and_gradients_are_those_of_torch(world: int) -> None:
    from tests.parallel.peer_ring import every_case

    whole = [x.float() for x in draws([(2, 4, 64, 16)] * 4)]
    cases = [(Layout(64, world, 1, kind), causal) for kind in ("contiguous", "zigzag") for causal in (True, False)]
    cases = [(layout, causal) for layout, causal in cases if causal or layout.kind == "contiguous"]
    for rank in launch.run(every_case, cases, whole, ring=world):
        for differences in rank:
            assert max(differences) < 3e-6
            assert torch.tensor(differences).isfinite().all()
