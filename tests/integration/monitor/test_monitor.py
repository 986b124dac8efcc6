"""A real monitor process while its device heats up, loses sensors and drains."""

from __future__ import annotations

import asyncio
import os

import grpc
import pytest

from edgelora.v1 import monitor_service_pb2 as pb

pytestmark = pytest.mark.integration

UNKNOWN = pb.PressureLevel.PRESSURE_LEVEL_UNKNOWN
NORMAL = pb.PressureLevel.PRESSURE_LEVEL_NORMAL
ELEVATED = pb.PressureLevel.PRESSURE_LEVEL_ELEVATED
CRITICAL = pb.PressureLevel.PRESSURE_LEVEL_CRITICAL


async def test_a_device_that_tells_nothing_is_unknown_and_never_zero_N01(bench):
    bench.sysfs.root.mkdir()
    await bench.start()
    snapshot = await bench.snapshot()
    for field in (
        "temperature_celsius",
        "cpu_frequency_hz",
        "cpu_max_frequency_hz",
        "memory_total_bytes",
        "memory_available_bytes",
        "battery",
        "cpu_stall",
        "memory_stall",
        "io_stall",
    ):
        assert not snapshot.HasField(field), field
    assert snapshot.num_cores == os.cpu_count()
    assert snapshot.sampled_at.ToMilliseconds() > 0
    pressure = (await bench.watch().call.read()).pressure
    levels = {pressure.temperature.level, pressure.memory.level, pressure.battery.level}
    assert levels == {UNKNOWN}


async def test_a_snapshot_holds_what_the_device_tells(bench):
    bench.sysfs.add_monitor(0, "coretemp", 51500, label="Package id 0")
    bench.sysfs.add_monitor(1, "nvme", 80000)
    bench.sysfs.add_cpu(0, 1_800_000, 2_400_000)
    bench.sysfs.add_supply("BAT0", type="Battery", capacity=57, status="Not charging")
    bench.sysfs.set_memory(total_kib=1000, available_kib=400)
    bench.sysfs.set_stall("memory", 2.5)
    (bench.run_directory / "gateway.pid").write_text(str(os.getpid()))
    await bench.start(HOLD="60s")
    snapshot = await bench.wait_for(lambda snapshot: snapshot.processes)
    assert snapshot.temperature_celsius == 51.5
    zones = [(zone.name, zone.is_processor) for zone in snapshot.thermal_zones]
    assert zones == [("coretemp_package_id_0", True), ("nvme", False)]
    assert snapshot.cpu_frequency_hz == 1.8e9
    assert snapshot.memory_available_bytes == 400 * 1024
    assert snapshot.memory_stall == 0.025
    assert snapshot.battery.charge == 0.57
    assert snapshot.battery.state == pb.BatteryState.BATTERY_STATE_NOT_CHARGING
    assert not snapshot.battery.HasField("power_w")
    [process] = snapshot.processes
    assert (process.service, process.pid) == ("gateway", os.getpid())
    assert process.rss_bytes > 2**20


async def test_watchers_see_heat_come_and_go(bench):
    temp = bench.sysfs.add_zone(0, "cpu-thermal", 30000)
    await bench.start()
    watch = bench.watch()
    await watch.until(temperature=NORMAL)
    bench.sysfs.write(temp, 47000)
    await watch.until(temperature=ELEVATED)
    bench.sysfs.write(temp, 61000)
    pressure = await watch.until(temperature=CRITICAL)
    assert pressure.snapshot.temperature_celsius == 61.0
    bench.sysfs.write(temp, 50000)
    await watch.until(temperature=ELEVATED)
    bench.sysfs.write(temp, 30000)
    await watch.until(temperature=NORMAL)


async def test_a_lost_sensor_becomes_unknown_and_the_monitor_lives_on_N09(bench):
    temp = bench.sysfs.add_zone(0, "cpu-thermal", 61000)
    bench.sysfs.set_memory(total_kib=1000, available_kib=900)
    await bench.start()
    watch = bench.watch()
    await watch.until(temperature=CRITICAL)
    for garbage in ("N/A", "", "-274000", "999999"):
        bench.sysfs.write(temp, garbage)
        pressure = await watch.until(temperature=UNKNOWN, memory=NORMAL)
        assert not pressure.snapshot.HasField("temperature_celsius")
        bench.sysfs.write(temp, 61000)
        await watch.until(temperature=CRITICAL)
    bench.sysfs.remove(temp)
    await watch.until(temperature=UNKNOWN, memory=NORMAL)
    assert bench.process.process.poll() is None
    assert {line["sensor"] for line in bench.process.log("sensor_unreadable")} == {temp}


async def test_battery_and_memory_run_out(bench):
    battery = bench.sysfs.add_supply("BAT0", type="Battery", capacity=50, status="Discharging")
    bench.sysfs.set_memory(total_kib=1000, available_kib=900)
    await bench.start()
    watch = bench.watch()
    await watch.until(battery=NORMAL, memory=NORMAL)
    bench.sysfs.write(f"{battery}/capacity", 19)
    await watch.until(battery=ELEVATED)
    bench.sysfs.set_memory(total_kib=1000, available_kib=100)
    await watch.until(battery=ELEVATED, memory=CRITICAL)
    bench.sysfs.write(f"{battery}/status", "Charging")
    await watch.until(battery=NORMAL, memory=CRITICAL)


async def test_a_sensor_that_hangs_makes_all_unknown_and_does_not_keep_the_monitor_alive(bench):
    bench.sysfs.add_zone(0, "cpu-thermal", 30000)
    bench.sysfs.set_memory(total_kib=1000, available_kib=900)
    await bench.start()
    watch = bench.watch()
    await watch.until(temperature=NORMAL, memory=NORMAL)
    bench.hang()
    await watch.until(temperature=UNKNOWN, memory=UNKNOWN)
    snapshot = await bench.wait_for(lambda snapshot: not snapshot.HasField("memory_total_bytes"))
    assert snapshot.age.ToMilliseconds() >= 500
    assert await asyncio.to_thread(bench.process.stop) == 0


async def test_a_sensor_that_hangs_from_the_start_keeps_nothing_from_starting(bench):
    bench.sysfs.add_zone(0, "cpu-thermal", 30000)
    bench.hang()
    await bench.start()
    await bench.watch().until(temperature=UNKNOWN, memory=UNKNOWN, battery=UNKNOWN)
    with pytest.raises(grpc.aio.AioRpcError, match="no sample has been taken yet"):
        await bench.snapshot()
    assert await asyncio.to_thread(bench.process.stop) == 0


async def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(bench):
    temp = bench.sysfs.add_zone(0, "cpu-thermal", 30000)
    bench.sysfs.set_memory(total_kib=1000, available_kib=900)
    await bench.start()
    watch = bench.watch()
    await watch.until(temperature=NORMAL, memory=NORMAL)
    path = bench.sysfs.root / temp
    os.mkfifo(path.with_name("pipe"))
    path.with_name("pipe").rename(path)
    await watch.until(temperature=UNKNOWN, memory=NORMAL)
    bench.sysfs.write(temp, 47000)
    await watch.until(temperature=ELEVATED, memory=NORMAL)


async def test_stopping_ends_open_watches(bench):
    bench.sysfs.root.mkdir()
    await bench.start()
    call = bench.watch().call
    await call.read()
    assert await asyncio.to_thread(bench.process.stop) == 0
    assert await call.read() is grpc.aio.EOF
    assert await call.code() is grpc.StatusCode.OK


async def test_silence_is_filled_with_the_same_pressure(bench):
    bench.sysfs.add_zone(0, "cpu-thermal", 30000)
    await bench.start()
    watch = bench.watch()
    first = await watch.until(temperature=NORMAL)
    again = await watch.until()
    assert again.pressure.temperature.level == NORMAL
    held = [response.pressure.temperature.held.ToMilliseconds() for response in (first, again)]
    assert held[1] > held[0]


async def test_a_monitor_that_was_killed_starts_without_a_past_F06(bench):
    bench.sysfs.add_zone(0, "cpu-thermal", 61000)
    await bench.start()
    watch = bench.watch()
    await watch.until(temperature=CRITICAL)
    bench.process.kill()
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await watch.until(temperature=NORMAL)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    await bench.start()
    await bench.watch().until(temperature=CRITICAL)


async def test_a_phones_battery_comes_through_a_program_that_may_hang(bench, tmp_path):
    bench.sysfs.add_zone(0, "cpu-thermal", 30000)
    program = tmp_path / "battery"

    def become(script):
        program.with_suffix(".new").write_text(f"#!/bin/sh\n{script}\n")
        program.with_suffix(".new").chmod(0o755)
        program.with_suffix(".new").rename(program)

    become("""echo '{"percentage": 9, "status": "DISCHARGING", "temperature": 25.1}'""")
    await bench.start(TERMUX_COMMAND=str(program), HOLD="3s")
    watch = bench.watch()
    response = await watch.until(temperature=NORMAL, battery=CRITICAL)
    assert response.pressure.battery.sensor == "termux_battery"
    assert response.snapshot.battery.charge == pytest.approx(0.09)
    become("sleep 1000")
    await watch.until(temperature=NORMAL, battery=UNKNOWN)
    assert await asyncio.to_thread(bench.process.stop) == 0


async def test_two_watchers_see_the_same(bench):
    temp = bench.sysfs.add_zone(0, "cpu-thermal", 30000)
    await bench.start()
    watches = [bench.watch(), bench.watch()]
    for watch in watches:
        await watch.until(temperature=NORMAL)
    bench.sysfs.write(temp, 61000)
    for watch in watches:
        await watch.until(temperature=CRITICAL)
