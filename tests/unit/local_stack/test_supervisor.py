"""Start, readiness, restarts, giving up and ordered stop, with real processes."""

import asyncio
import os
import signal
from contextlib import asynccontextmanager

import pytest

from edgelora.local_stack.errors import StackError
from edgelora.local_stack.restart_policy import RestartPolicy
from edgelora.local_stack.supervisor import ServiceSpec, ServiceState, Supervisor

QUICK = RestartPolicy(first_delay_s=0.01, max_delay_s=0.01, max_crashes=2)


async def always_ready():
    return True


async def never_ready():
    return False


def spec(name, script, probe=always_ready, **options):
    return ServiceSpec(
        name=name, argv=["sh", "-c", script], environ=os.environ, probe=probe, **options
    )


@asynccontextmanager
async def supervised(tmp_path):
    events = asyncio.Queue()
    supervisor = Supervisor(
        logs=tmp_path,
        pids=tmp_path,
        report=lambda *event: events.put_nowait(event),
        policy=QUICK,
    )
    try:
        yield supervisor, events
    finally:
        await supervisor.stop()


async def until(events, name, state):
    async with asyncio.timeout(20):
        while True:
            event = await events.get()
            if event[:2] == (name, state):
                return event[2]


async def test_ready_services_are_reported_and_stopped_in_reverse_order(tmp_path):
    async with supervised(tmp_path) as (supervisor, events):
        for name in ("first", "second"):
            supervisor.start(spec(name, "exec sleep 60"))
        await supervisor.wait_ready(20)
        pids = supervisor.pids()
        assert sorted(path.name for path in tmp_path.glob("*.pid")) == ["first.pid", "second.pid"]
    stopped = [event[0] for event in events._queue if event[1] is ServiceState.STOPPED]
    assert stopped == ["second", "first"]
    assert not list(tmp_path.glob("*.pid"))
    for pid in pids.values():
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


async def test_a_killed_service_is_started_again(tmp_path):
    async with supervised(tmp_path) as (supervisor, events):
        supervisor.start(spec("worker", "exec sleep 60"))
        await supervisor.wait_ready(20)
        first = supervisor.pids()["worker"]
        os.kill(first, signal.SIGKILL)
        note = await until(events, "worker", ServiceState.RESTARTING)
        assert "killed by signal 9" in note
        await until(events, "worker", ServiceState.READY)
        assert supervisor.pids()["worker"] != first


async def test_what_a_killed_service_did_last_is_no_explanation(tmp_path):
    async with supervised(tmp_path) as (supervisor, events):
        supervisor.start(spec("worker", """echo '{"event": "rpc_finished"}'; kill -9 $$"""))
        note = await until(events, "worker", ServiceState.RESTARTING)
        assert note == f"was killed by signal 9 (log: {tmp_path / 'worker.log'})"


async def test_a_stale_socket_is_removed_before_a_restart(tmp_path):
    socket = tmp_path / "worker.sock"
    socket.touch()
    async with supervised(tmp_path) as (supervisor, _):
        supervisor.start(spec("worker", "exec sleep 60", sockets=[socket]))
        assert not socket.exists()


async def test_a_crash_loop_is_given_up_with_the_last_words_and_the_log(tmp_path):
    async with supervised(tmp_path) as (supervisor, events):
        supervisor.start(spec("worker", "echo no memory; exit 7", probe=never_ready))
        with pytest.raises(StackError, match=r"worker ended with status 7: no memory \(log: .*\)"):
            await supervisor.wait_ready(20)
        await until(events, "worker", ServiceState.GIVEN_UP)
        assert (tmp_path / "worker.log").read_text() == "no memory\n" * 3


async def test_a_service_that_cannot_be_configured_is_not_tried_again(tmp_path):
    async with supervised(tmp_path) as (supervisor, _):
        supervisor.start(spec("worker", "echo X is required; exit 2", probe=never_ready))
        with pytest.raises(StackError, match="X is required"):
            await supervisor.wait_ready(20)
        assert (tmp_path / "worker.log").read_text() == "X is required\n"


async def test_a_service_that_never_gets_ready_is_named(tmp_path):
    async with supervised(tmp_path) as (supervisor, _):
        supervisor.start(spec("good", "exec sleep 60"))
        supervisor.start(spec("slow", "exec sleep 60", probe=never_ready))
        with pytest.raises(StackError, match=r"not ready after 0 s: slow:"):
            await supervisor.wait_ready(0.2)


async def test_guarded_work_ends_when_a_service_is_given_up(tmp_path):
    async with supervised(tmp_path) as (supervisor, _):
        supervisor.start(spec("worker", "exit 1"))
        cancelled = asyncio.Event()

        async def work():
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()

        with pytest.raises(StackError, match="worker ended with status 1"):
            await supervisor.guard(work())
        assert cancelled.is_set()


async def test_guarded_work_gives_its_result_or_its_error(tmp_path):
    async with supervised(tmp_path) as (supervisor, _):
        supervisor.start(spec("worker", "exec sleep 60"))

        async def fail():
            raise ValueError("its own")

        assert await supervisor.guard(asyncio.sleep(0, "result")) == "result"
        with pytest.raises(ValueError, match="its own"):
            await supervisor.guard(fail())


async def test_what_was_never_ready_gets_little_time_to_end(tmp_path):
    deaf = "trap '' TERM; echo set; while :; do sleep 1; done"
    async with supervised(tmp_path) as (supervisor, _):
        supervisor.start(spec("loading", deaf, probe=never_ready, stop_grace_s=1000.0))
        async with asyncio.timeout(60):
            while not (tmp_path / "loading.log").read_text():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            await supervisor.stop()


async def test_a_second_request_to_stop_does_not_wait_for_the_first(tmp_path):
    async with supervised(tmp_path) as (supervisor, _):
        supervisor.start(spec("stubborn", "trap '' TERM; echo set; while :; do sleep 1; done"))
        log = tmp_path / "stubborn.log"
        async with asyncio.timeout(20):
            while not log.read_text():  # noqa: ASYNC110 - another process's state
                await asyncio.sleep(0.01)
            stopping = asyncio.create_task(supervisor.stop())
            await asyncio.sleep(0)
            assert not stopping.done()
            supervisor.kill()
            await stopping
