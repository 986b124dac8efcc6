"""Work spread over threads of which each computes alone.

Torch's own threads wait for each other within every operation, and where another process has one
of the cores they wait long: on a busy machine two were up to 25 times slower than one. Here a
thread has a batch of windows, or some rows of a matrix, to itself; results are taken in order, so
that they do not depend on the number of threads.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")


class Workers:
    """As many threads as torch would use. While they are there, torch uses one for everything."""

    def __init__(self) -> None:
        """Starts nothing yet."""
        self._before = torch.get_num_threads()
        self._pool: ThreadPoolExecutor

    def __enter__(self) -> Workers:
        torch.set_num_threads(1)
        self._pool = ThreadPoolExecutor(
            self._before, initializer=torch.set_num_threads, initargs=(1,)
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._pool.shutdown(cancel_futures=True)
        torch.set_num_threads(self._before)

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Results in the order of `items`, which are taken as late as possible; no gradients."""

        @torch.no_grad()
        def work(item: Item) -> Result:
            return function(item)

        begun: deque[Future[Result]] = deque()
        for item in items:
            begun.append(self._pool.submit(work, item))
            if len(begun) > self._before:
                yield begun.popleft().result()
        while begun:
            yield begun.popleft().result()
