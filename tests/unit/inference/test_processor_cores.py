"""Physical cores among the processors a process may use."""

import os

import pytest

from services.inference.processor_cores import count_physical_cores


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Makes a machine: the siblings of each processor it may use, None where nothing is told."""

    def make(siblings):
        for cpu, text in siblings.items():
            folder = tmp_path / f"sys/devices/system/cpu/cpu{cpu}/topology"
            folder.mkdir(parents=True)
            if text is not None:
                (folder / "thread_siblings_list").write_text(f"{text}\n")
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(siblings))
        return tmp_path

    return make


@pytest.mark.parametrize(
    ("siblings", "cores"),
    [
        ({0: "0,4", 1: "1,5", 4: "0,4", 5: "1,5"}, 2),
        ({0: "0-1", 1: "0-1"}, 1),
        ({3: "3,7", 6: "2,6"}, 2),  # one thread each of two cores is two cores
        ({0: "0", 1: "1", 2: "2"}, 3),
        ({0: None, 1: None}, 2),
    ],
)
def test_hyper_threads_of_one_core_count_once(machine, siblings, cores):
    assert count_physical_cores(machine(siblings)) == cores


def test_this_machine_has_at_least_one_and_no_more_than_its_processors():
    assert 1 <= count_physical_cores() <= len(os.sched_getaffinity(0))
