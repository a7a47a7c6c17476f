"""Live bytes on cases that can be counted by hand."""

from __future__ import annotations

import torch

from labsim.models.live_bytes import peak_bytes

KB = 1024


def test_two_live_at_once_and_a_view_counts_once() -> None:
    before = torch.zeros(KB, dtype=torch.uint8)

    def work() -> None:
        a = torch.zeros(8 * KB, dtype=torch.uint8)
        view = a[: 4 * KB].view(2, -1)
        b = a + 1
        del a, view, b
        _ = before + 1

    assert peak_bytes(work) == 16 * KB


def test_what_dies_makes_room() -> None:
    def work() -> None:
        for _ in range(5):
            torch.zeros(8 * KB, dtype=torch.uint8)

    assert peak_bytes(work) == 8 * KB


def test_backward_is_seen() -> None:
    x = torch.zeros(KB, requires_grad=True)  # 4 KB, there before

    def work() -> None:
        (x.exp().exp()).sum().backward()

    # Two saved results and, at the worst moment, two gradients.
    assert 12 * KB <= peak_bytes(work) <= 20 * KB + 64
