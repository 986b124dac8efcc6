"""Memory of a process is what the kernel sums up for it."""

import os

from bench.worker_process import Memory

ROLLUP = """55d0c0a00000-7ffd2f9fe000 ---p 00000000 00:00 0    [rollup]
Rss:              400000 kB
Pss:              250000 kB
Pss_Dirty:        100000 kB
"""


def test_resident_and_proportional_size_in_bytes(tmp_path):
    (tmp_path / "7").mkdir()
    (tmp_path / "7/smaps_rollup").write_text(ROLLUP)
    assert Memory.of(7, tmp_path) == Memory(400_000 * 1024, 250_000 * 1024)


def test_of_a_real_process():
    memory = Memory.of(os.getpid())
    assert 0 < memory.proportional <= memory.resident
