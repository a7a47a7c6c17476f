"""Plain messages: what gets stuck, what is exchanged in silence, and what the ring's gradients look like then."""

from __future__ import annotations

import pytest
import torch

from labsim.attention.ring import GRADIENTS, KEYS, Ring
from labsim.lab.ring_lab import Text, on_logical_ranks, symptoms
from labsim.lab.wires import Stuck, Wires, exchanged, play, post_first, send_first, written_early
from labsim.parallel import logical
from labsim.parallel.group import RankError
from labsim.parallel.layout import Layout


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_ranks_that_all_send_first_wait_for_each_other_and_say_so(ranks: int) -> None:
    said = play(send_first, ranks, patience_seconds=0.5)
    assert said == [f"rank {r} has waited 0.5 s to send to rank {(r + 1) % ranks}" for r in range(ranks)]


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_a_posted_send_lets_its_rank_receive(ranks: int) -> None:
    assert [one.item() for one in play(post_first, ranks)] == [(r - 1) % ranks for r in range(ranks)]


def test_messages_of_one_shape_are_exchanged_without_an_error() -> None:
    assert [one.tolist() for one in play(exchanged)] == [[102, 202], [100, 200], [201, 101]]


def test_a_buffer_that_is_written_early_is_right_or_wrong_by_the_receivers_pace() -> None:
    assert [play(written_early(late), 2)[1].item() for late in (False, True)] == [7, 0]


def test_nobody_to_receive_from() -> None:
    with pytest.raises(Stuck, match=r"rank 1 has waited 0\.1 s to receive from rank 0"):
        Wires(0.1).receive(1, 0)


def test_logical_ranks_that_post_in_another_order_are_named() -> None:
    def work(mesh: object) -> None:
        names = [KEYS, GRADIENTS] if mesh.ring.rank != 1 else [GRADIENTS, KEYS]  # type: ignore[attr-defined]
        for hop in [mesh.ring.shift([torch.zeros(2)], name) for name in names]:  # type: ignore[attr-defined]
            hop.wait()

    with pytest.raises(RankError, match="ring: "):
        logical.run(work, ring=3)


def test_keys_and_their_gradients_exchanged_spoil_every_gradient_and_no_output() -> None:
    """What question 10.q5 says: rank 1 sends dk, dv under the name of the keys, and keys as gradients."""

    class Exchanging(Ring):
        def backward(self, *given: object, **named: object) -> object:
            group = self.group
            return Ring(Exchanged(group), self.layout, self.causal, self.kernel).backward(*given, **named)  # type: ignore[arg-type]

    class Exchanged:
        """Holds back the keys of a hop until their gradients come, and sends each as the other."""

        def __init__(self, group: object) -> None:
            self.group, self.held = group, []
            self.rank, self.size = group.rank, group.size  # type: ignore[attr-defined]

        def shift(self, tensors: list[torch.Tensor], name: str) -> object:
            return self.group.shift(tensors, name) if self.rank != 1 else Later(self, tensors, name)  # type: ignore[attr-defined]

    class Later:
        def __init__(self, owner: Exchanged, tensors: list[torch.Tensor], name: str) -> None:
            self.owner, self.name, self.hop = owner, name, None
            owner.held.append((tensors, self))
            if len(owner.held) == 2:
                (first, one), (second, other) = owner.held
                owner.held.clear()
                one.hop = owner.group.shift(second, one.name)  # type: ignore[attr-defined]
                other.hop = owner.group.shift(first, other.name)  # type: ignore[attr-defined]

        def wait(self) -> object:
            if self.hop is None:  # the last gradients go home alone
                [(tensors, _)] = self.owner.held
                self.owner.held.clear()
                self.hop = self.owner.group.shift(tensors, self.name)  # type: ignore[attr-defined]
            return self.hop.wait()

    text, layout = Text.random(24, 4, 2, 8, 0), Layout(24, 4, 1, "contiguous")
    found = symptoms(layout, on_logical_ranks(layout, text, Exchanging), text.dense())
    assert not any(found["out"])
    for name in ("dq", "dk", "dv"):
        assert any(found[name])
