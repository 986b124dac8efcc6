"""The description of the machine is read, not guessed."""

import subprocess

import pytest

from bench.machine import current_commit, describe_machine


@pytest.mark.parametrize(
    ("cpuinfo", "cpu", "flags"),
    [
        (
            "processor : 0\nmodel name\t: Example CPU 9000\nflags\t\t: fpu avx2 avx512f fma\n",
            "Example CPU 9000",
            ["avx2", "fma", "avx512f"],
        ),
        (
            "processor : 0\nFeatures : fp asimd asimddp\n\nModel : Example Board 5\n",
            "Example Board 5",
            ["asimd", "asimddp"],
        ),
    ],
)
def test_processor_and_instruction_sets_of_both_architectures(tmp_path, cpuinfo, cpu, flags):
    (tmp_path / "cpuinfo").write_text(cpuinfo)
    machine = describe_machine(tmp_path)
    assert machine["cpu"] == cpu
    assert machine["isa_flags"] == flags
    assert machine["memory_bytes"] > 0
    assert machine["torch"]


def test_the_commit_says_when_files_differ_from_it(tmp_path):
    def git(*arguments):
        identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        subprocess.run(["git", "-C", str(tmp_path), *identity, *arguments], check=True)

    assert current_commit(tmp_path) is None
    git("init", "-q")
    (tmp_path / "file").write_text("1")
    git("add", "file")
    git("commit", "-qm", "one")
    clean = current_commit(tmp_path)
    assert clean is not None
    assert len(clean) == 40
    (tmp_path / "file").write_text("2")
    assert current_commit(tmp_path) == clean + "+changes"
