"""The thread that runs an engine's steps, and the roads between it and the event loop.

The event loop talks to the thread through a queue of commands; the thread answers through a
queue of outboxes and a doorbell, once a step. With nothing to run it blocks on its queue.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, Generic, Protocol, TypeVar

from edgelora.errors import EdgeLoraError, ServiceUnavailableError
from services.chassis.logs import code_places, get_logger
from services.inference.engine.answers import Answers, AnswerT
from services.inference.engine.doorbell import Doorbell

_STOP_LIMIT_S = 5.0

OutboxT_co = TypeVar("OutboxT_co", covariant=True)
StatusT_co = TypeVar("StatusT_co", covariant=True)


class Steps(Protocol[OutboxT_co, StatusT_co]):
    """What runs on the thread and belongs to it."""

    def step(self) -> bool:
        """Runs one step; False when there was nothing to run."""
        ...

    def status(self) -> StatusT_co:
        """A snapshot."""
        ...

    def take_outbox(self) -> OutboxT_co:
        """What the event loop is to be told since the last call; falsy when nothing."""
        ...

    def fail_all(self, error: EdgeLoraError) -> None:
        """Ends every request with the error."""
        ...


StepsT = TypeVar("StepsT", bound=Steps[Any, Any])
OutboxT = TypeVar("OutboxT")
StatusT = TypeVar("StatusT")


class StepThread(Generic[StepsT, OutboxT, StatusT]):
    """Loads a model and steps. All public methods belong to the event loop's thread."""

    def __init__(
        self,
        load: Callable[[], StepsT],
        *,
        deliver: Callable[[OutboxT], None],
        died: Callable[[], None],
        wait_s: Callable[[StepsT], float | None] = lambda _: None,
        close: Callable[[StepsT], None] = lambda _: None,
    ) -> None:
        """`load`, `wait_s` and `close` are called on the thread, the others on the event loop.

        `died`: a step has raised; all outboxes were delivered. `wait_s`: how long the thread may
        sleep before it looks again, None for until it is asked for something. `close`: the thread
        ends.
        """
        self._load = load
        self._deliver_one = deliver
        self._died = died
        self._wait_s = wait_s
        self._close = close
        self.commands: SimpleQueue[Callable[[StepsT], None]] = SimpleQueue()
        """What the thread does between two steps, in this order."""
        self._outboxes: deque[OutboxT] = deque()
        self._doorbell: Doorbell | None = None
        self._thread: threading.Thread | None = None
        self._answers = Answers()
        self._newest_status: StatusT | None = None
        self._is_stopping = False
        self.is_dead = False
        """Whether a step has raised, or the model could not be loaded."""
        self.is_asleep = False
        """Whether it waits for a command."""

    async def start(self) -> None:
        """Starts the thread and loads the model in it. Raises what loading raises."""
        self._loop = asyncio.get_running_loop()
        self._doorbell = Doorbell(self._loop, self._deliver)
        self._loaded: asyncio.Future[None] = self._loop.create_future()
        self._thread = threading.Thread(
            target=self._run, args=(self._doorbell,), name="engine", daemon=True
        )
        self._thread.start()
        await self._loaded

    async def stop(self) -> None:
        """Ends the thread after the step it is in; requests still open end with an error.

        A thread that hangs in the back end is left behind; it ends with the process.
        """
        thread = self._thread
        if thread is None:
            return
        if thread.is_alive():
            self.commands.put(self._request_stop)
            await asyncio.to_thread(thread.join, _STOP_LIMIT_S)
        doorbell = self._doorbell
        if doorbell is not None and not thread.is_alive():
            self._doorbell = None
            doorbell.close()
            self._deliver()
        self._answers.close()

    @property
    def status(self) -> StatusT:
        """The newest snapshot, taken after a step. Raises ServiceUnavailableError before start."""
        if self._newest_status is None:
            raise ServiceUnavailableError(
                "the worker is loading its model: try again", retry_after_s=1.0
            )
        return self._newest_status

    def require_loaded(self) -> None:
        """Raises ServiceUnavailableError before the model is loaded."""
        _ = self.status

    async def ask(self, question: Callable[[StepsT], AnswerT]) -> AnswerT:
        """Lets the thread answer between two steps.

        Raises ServiceUnavailableError before the model is loaded, and when the thread ends before
        it answers.
        """
        self.require_loaded()

        def answer(steps: StepsT, take: Callable[[AnswerT], None]) -> None:
            found = question(steps)
            # Whoever has the answer sees what it changed.
            self._newest_status = steps.status()
            self._call(take, found)

        def ask(take: Callable[[AnswerT], None]) -> None:
            self.commands.put(lambda steps: answer(steps, take))

        return await self._answers.wait_for(ask)

    # On the thread.

    def _run(self, doorbell: Doorbell) -> None:
        try:
            steps = self._load()
            self._newest_status = steps.status()
        except BaseException as error:  # noqa: BLE001 - it goes to whoever awaits start()
            self._call(self._fail_start, error)
            return
        self._call(self._finish_start)
        try:
            while not self._is_stopping:
                has_run = steps.step()
                self._publish(steps, doorbell)
                if not has_run:
                    self._sleep(steps)
                self._run_commands(steps)
            self._publish(steps, doorbell)
        except BaseException as error:  # noqa: BLE001 - SystemExit too must end every request
            get_logger().critical(
                "engine_died", error=type(error).__name__, frames=code_places(error)
            )
            self._call(self._die)
        finally:
            self._close(steps)

    def _sleep(self, steps: StepsT) -> None:
        wait_s = self._wait_s(steps)
        self.is_asleep = True
        try:
            command = self.commands.get(timeout=wait_s)
        except Empty:
            return
        finally:
            self.is_asleep = False
        command(steps)

    def _run_commands(self, steps: StepsT) -> None:
        while True:
            try:
                command = self.commands.get_nowait()
            except Empty:
                return
            command(steps)

    def _request_stop(self, steps: StepsT) -> None:
        self._is_stopping = True
        steps.fail_all(ServiceUnavailableError("the worker is shutting down: send it again"))

    def _publish(self, steps: StepsT, doorbell: Doorbell) -> None:
        self._newest_status = steps.status()
        outbox = steps.take_outbox()
        if outbox:
            self._outboxes.append(outbox)
            doorbell.ring()

    def _call(self, function: Callable[..., None], *arguments: object) -> None:
        try:
            self._loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:
            # The loop has closed under us: nobody is left to be told.
            self._is_stopping = True

    # Back on the event loop.

    def _finish_start(self) -> None:
        if not self._loaded.done():
            self._loaded.set_result(None)

    def _fail_start(self, error: BaseException) -> None:
        self.is_dead = True
        if not self._loaded.done():
            self._loaded.set_exception(error)

    def _deliver(self) -> None:
        while self._outboxes:
            self._deliver_one(self._outboxes.popleft())

    def _die(self) -> None:
        self.is_dead = True
        self._answers.close()
        self._deliver()
        self._died()
