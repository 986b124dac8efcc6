"""What this process holds outside the engine: files, threads and tasks."""

import asyncio
import gc
import os
import threading
from dataclasses import dataclass

import psutil


@dataclass(frozen=True)
class HeldOutside:
    """Counts of one moment."""

    num_files: int
    num_threads: int
    num_tasks: int

    @classmethod
    def now(cls) -> "HeldOutside":
        gc.collect()
        process = psutil.Process()
        return cls(process.num_fds(), process.num_threads(), len(asyncio.all_tasks()))

    @classmethod
    async def settled(cls) -> "HeldOutside":
        """As `now`, after the loop's own pool has got all the threads it will ever have."""
        num_threads = min(32, (os.cpu_count() or 1) + 4)  # as ThreadPoolExecutor has it
        all_there = threading.Barrier(num_threads)
        await asyncio.gather(*(asyncio.to_thread(all_there.wait) for _ in range(num_threads)))
        return cls.now()

    async def again(self) -> None:
        """Waits until no more is held than at that moment; for ever where something leaks.

        A server ends the task of a call a little after the call's client has seen its end.
        """
        while True:
            now = HeldOutside.now()
            if (
                now.num_files <= self.num_files
                and now.num_threads <= self.num_threads
                and now.num_tasks <= self.num_tasks
            ):
                return
            await asyncio.sleep(0.01)
