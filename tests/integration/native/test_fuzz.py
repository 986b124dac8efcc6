"""libFuzzer on what comes from outside: packed files, adapters, batches.

EDGELORA_FUZZ_SECONDS: how long all targets together may use one processor core.
"""

import os
import shutil
import subprocess

import pytest

from tests.support import native_core, native_seeds

pytestmark = pytest.mark.timeout(24 * 3600)  # compiles, and runs as long as it is told to

SECONDS = int(os.environ.get("EDGELORA_FUZZ_SECONDS", "30"))
NUM_FUZZERS = 6
FINDINGS = native_core.BUILDS / "findings"


def start(command, corpus, settings):
    FINDINGS.mkdir(parents=True, exist_ok=True)
    return subprocess.Popen(
        [
            *command,
            corpus,
            f"-max_total_time={max(1, SECONDS // NUM_FUZZERS)}",
            "-timeout=20",
            "-rss_limit_mb=3000",
            f"-artifact_prefix={FINDINGS}/",
        ],
        env=os.environ | settings,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )


def test_nothing_from_outside_crashes_the_core(build, models, tmp_path):
    directory = build("fuzz")
    smallest = sorted(models.glob("smallest-*.edgelora"))
    native_seeds.write_files(tmp_path / "files", smallest)
    native_seeds.write_calls(tmp_path / "calls")
    native_seeds.write_encoded(tmp_path / "encoded")
    runs = []
    for number, model in enumerate(smallest):
        shutil.copytree(tmp_path / "files", tmp_path / f"files{number}")
        shutil.copytree(tmp_path / "calls", tmp_path / f"calls{number}")
        # One with the best instructions of this processor, one in plain C++.
        settings = {
            "EDGELORA_ISA": "" if number == 0 else "portable",
            "EDGELORA_FUZZ_MODEL": str(model),
        }
        opening = [directory / "fuzz_open", "-max_len=20000"]
        stepping = [directory / "fuzz_step", "-max_len=1000"]
        runs.append(start(opening, tmp_path / f"files{number}", settings))
        runs.append(start(stepping, tmp_path / f"calls{number}", settings))
    # Decoding is the same code for every instruction set.
    decoding = [directory / "fuzz_encoded", "-max_len=20000"]
    settings = {"EDGELORA_FUZZ_MODEL": str(smallest[0])}
    runs.append(start(decoding, tmp_path / "encoded", settings))
    encoder = models / "smallest-bert.encoder"
    native_seeds.write_files(tmp_path / "encoders", [encoder])
    opening = [directory / "fuzz_encoder", "-max_len=20000"]
    runs.append(start(opening, tmp_path / "encoders", {}))
    assert len(runs) == NUM_FUZZERS
    outputs = [run.communicate()[0] for run in runs]
    for run, output in zip(runs, outputs, strict=True):
        assert run.returncode == 0, f"{output[-6000:]}\nthe input is in {FINDINGS}"
        assert "Done " in output
