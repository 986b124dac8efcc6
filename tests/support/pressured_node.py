"""A gateway, a scheduler and a monitor on a device whose sensors a test sets."""

from __future__ import annotations

import asyncio

from tests.support.fake_sysfs import FakeSysfs
from tests.support.gateway_bench import GatewayBench
from tests.support.service_process import ServiceProcess

BIG, SMALL = ("sha256:" + letter * 64 for letter in "b5")
_UNKNOWN = dict.fromkeys(("TEMPERATURE_UNKNOWN", "MEMORY_UNKNOWN", "BATTERY_UNKNOWN"), "cautious")


class PressuredNode:
    """Cool, half empty and full of charge at first; adapter `email` has rank 64, `home` rank 8."""

    def __init__(self, bench: GatewayBench) -> None:
        self.bench = bench
        self.sysfs = FakeSysfs(bench.directory / "root")
        self._temperature = self.sysfs.add_zone(0, "cpu-thermal", 40_000)
        self._battery = self.sysfs.add_supply(
            "BAT0", type="Battery", capacity=90, status="Discharging"
        )
        self.set_memory(0.5)
        self.monitor: ServiceProcess

    async def start(self, **settings: str) -> None:
        """Starts everything; `settings` are the scheduler's."""
        bench = self.bench
        bench.store.digests = {("acme", "email"): BIG, ("acme", "home"): SMALL}
        bench.store.ranks = {BIG: 64, SMALL: 8}
        await bench.start_store()
        await bench.start_worker()
        await asyncio.to_thread(self.start_monitor)
        await asyncio.to_thread(lambda: bench.start_scheduler(**_UNKNOWN, **settings))
        await bench.start_gateway()
        self.client = await bench.client("acme", max_concurrent_requests=64)

    def start_monitor(self) -> None:
        """A new monitor process."""
        environ = {
            "ADDRESS": self.bench.address("monitor"),
            "ROOT": str(self.sysfs.root),
            "SEAL_KEY_FILE": str(self.bench.directory / "seal.key"),
            "INTERVAL": "50ms",
            "HOLD": "500ms",
            "DWELL": "200ms",
        }
        self.monitor = ServiceProcess(
            "services.monitor",
            environ={f"EDGELORA_MONITOR_{name}": value for name, value in environ.items()},
            logs=self.bench.directory,
        )
        self.bench.ends_with(self.monitor)
        self.monitor.wait_until_serving(self.bench.address("monitor"))

    def set_temperature(self, celsius: float) -> None:
        self.sysfs.write(self._temperature, round(celsius * 1000))

    def set_battery(self, percent: int) -> None:
        self.sysfs.write(f"{self._battery}/capacity", percent)

    def set_memory(self, used_share: float) -> None:
        total_kib = 1_000_000
        self.sysfs.set_memory(
            total_kib=total_kib, available_kib=round(total_kib * (1 - used_share))
        )

    async def rules(self, *expected: str) -> list[str]:
        """Waits until a tenant sees exactly these rules; returns their sentences."""
        while True:
            restrictions = (await self.client.status()).restrictions
            if [each.rule for each in restrictions] == list(expected):
                return [each.explanation for each in restrictions]

    async def run_shares(self, seqs: float, prefill: float, threads: float) -> None:
        """Waits until the worker is told these shares."""
        while True:
            limits = await self.bench.worker.run_limits.get()
            told = (limits.seqs_share, limits.prefill_share, limits.threads_share)
            if told == (seqs, prefill, threads):
                return
