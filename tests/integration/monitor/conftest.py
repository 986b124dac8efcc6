"""A real monitor process over a fake sysfs tree."""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from edgelora.v1 import monitor_service_pb2 as pb
from edgelora.v1.monitor_service_pb2_grpc import MonitorServiceStub
from services.chassis.channel import open_channel, translate_errors
from services.chassis.claims import seal_device_report
from services.chassis.sealing import Sealer, boot_clock_s
from tests.support.fake_sysfs import FakeSysfs
from tests.support.service_process import ServiceProcess

KEY = "0123456789abcdef" * 4
_DEFAULTS = {"INTERVAL": "50ms", "HOLD": "500ms", "DWELL": "200ms"}


class PressureWatch:
    """An open WatchPressure call."""

    def __init__(self, call) -> None:
        self.call = call

    async def until(self, **levels: int) -> pb.WatchPressureResponse:
        """Reads on until the named dimensions have these levels; fails when the stream ends."""
        async for response in self.call:
            pressure = response.pressure
            if all(getattr(pressure, name).level == level for name, level in levels.items()):
                return response
        raise AssertionError(f"the watch ended before {levels}")


class MonitorBench:
    """The monitor, its device and one client."""

    def __init__(self, directory: Path, stack: AsyncExitStack) -> None:
        self._directory = directory
        self._stack = stack
        self.sysfs = FakeSysfs(directory / "root")
        self.run_directory = directory / "pids"
        self.run_directory.mkdir()
        self._key_file = directory / "seal.key"
        self._key_file.write_text(KEY)
        self.process: ServiceProcess
        self.stub: MonitorServiceStub

    async def start(self, **settings: str) -> None:
        address = f"unix:{self._directory}/monitor.sock"
        environ = {
            "ADDRESS": address,
            "ROOT": str(self.sysfs.root),
            "SEAL_KEY_FILE": str(self._key_file),
            "RUN_DIRECTORY": str(self.run_directory),
            **_DEFAULTS,
            **settings,
        }
        self.process = ServiceProcess(
            "services.monitor",
            environ={f"EDGELORA_MONITOR_{name}": value for name, value in environ.items()},
            logs=self._directory,
        )
        self._stack.callback(self.process.kill)
        self.process.wait_until_serving(address)
        channel = await self._stack.enter_async_context(open_channel(address))
        self.stub = MonitorServiceStub(channel)

    async def snapshot(self) -> pb.DeviceSnapshot:
        response = await self.stub.GetSnapshot(pb.GetSnapshotRequest(), timeout=10)
        return response.snapshot

    async def wait_for(self, is_true) -> pb.DeviceSnapshot:
        """Asks until the condition on the snapshot holds; the test's own limit ends the wait."""
        while not is_true(snapshot := await self.snapshot()):
            pass
        return snapshot

    async def report(self, sealer: Sealer | None = None, **fields: object) -> None:
        """Reports as the gateway does."""
        report = pb.DeviceReport(**{"expires_at_boot_s": boot_clock_s() + 60.0, **fields})
        sealed = seal_device_report(sealer or Sealer(KEY.encode()), report)
        with translate_errors():
            await self.stub.ReportReadings(pb.ReportReadingsRequest(report=sealed), timeout=10)

    def hang(self) -> None:
        """Lets the next sample never end: the pipe has no writer."""
        os.mkfifo(self.run_directory / "hanging.pid")

    def watch(self) -> PressureWatch:
        return PressureWatch(self.stub.WatchPressure(pb.WatchPressureRequest()))


@pytest.fixture
async def bench() -> AsyncIterator[MonitorBench]:
    """Nothing runs yet and the device has no sensor."""
    with tempfile.TemporaryDirectory(prefix="el-") as directory:
        async with AsyncExitStack() as stack:
            yield MonitorBench(Path(directory), stack)
