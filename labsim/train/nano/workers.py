"""Data-parallel threads: each thread takes some of the batch's rows through forward and backward on one core.

One matmul split over cores waits for the slowest core several hundred times a step. On a machine that runs other
things too, that costs more than it gains: measured here with six busy processes on two cores, the split step took
eight times as long as the same step on one core. Threads that meet once a step do not mind. PyTorch releases
Python's lock inside its kernels, and CPU backward runs in the thread that calls it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import torch


class Workers:
    """A pool of single-core torch threads. A context manager; the main thread's thread count is restored on exit."""

    def __init__(self, count: int) -> None:
        if count < 1:
            raise ValueError(f"workers = {count} cannot work (give at least 1)")
        self.count = count

    def __enter__(self) -> Workers:
        self._threads_before = torch.get_num_threads()
        torch.set_num_threads(1)
        self._pool = ThreadPoolExecutor(self.count, initializer=torch.set_num_threads, initargs=(1,))
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()
        torch.set_num_threads(self._threads_before)

    def each(self, task: Callable[[object], object], items: Sequence[object]) -> list[object]:
        """`task(item)` for all items at once; results in the order of the items."""
        return list(self._pool.map(task, items))

    def loss_and_gradients(
        self,
        losses_of: Callable[[torch.Tensor], Sequence[torch.Tensor]],
        parameters: Sequence[torch.Tensor],
        tokens_BT: torch.Tensor,
    ) -> list[float]:
        """Means over the rows of the losses; sets `.grad` of the parameters to the gradient of the first.

        Each worker's mean is weighted by its rows, and the parts are added in a fixed order: the result does not
        depend on which thread ends first.
        """

        def part(rows_BT: torch.Tensor) -> tuple[list[float], tuple[torch.Tensor, ...]]:
            share = rows_BT.shape[0] / tokens_BT.shape[0]
            losses = [loss * share for loss in losses_of(rows_BT)]
            return [loss.item() for loss in losses], torch.autograd.grad(losses[0], parameters)

        results = self.each(part, tokens_BT.chunk(min(self.count, tokens_BT.shape[0])))
        for index, parameter in enumerate(parameters):
            gradient = results[0][1][index]
            for _, gradients in results[1:]:
                gradient = gradient + gradients[index]
            parameter.grad = gradient
        return [sum(values) for values in zip(*(losses for losses, _ in results), strict=True)]
