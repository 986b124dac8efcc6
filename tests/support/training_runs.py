"""Trainings on a very small model, and processes in which they are stopped."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

from edgelora.toolchain.chat_data import write_conversations
from edgelora.toolchain.prepare import prepare
from edgelora.toolchain.training_job import TrainingJob
from tests.support.tiny_families import save_directory, tiny_model

WORDS = ("fog", "lamp", "river", "stone", "cloud", "grass")
CONVERSATIONS = [
    [
        {"role": "user", "content": f"the {word} please"},
        {"role": "assistant", "content": f"{word} is {WORDS[index - 1]}"},
    ]
    for index, word in enumerate(WORDS)
]


def tiny_base(home: Path) -> Path:
    """The directory of a very small prepared Llama below `home`; torch computes with one thread."""
    torch.set_num_threads(1)
    save_directory(tiny_model("llama"), home / "source")
    prepare(home / "source", home, "tiny", weights="float32")
    return home / "models" / "tiny"


def training_job(model: Path, place: Path, **changes: Any) -> TrainingJob:
    """A job on the conversations above, whose file is written to `place`; all of them are held out
    as well."""
    data = place / "data.jsonl"
    write_conversations(data, CONVERSATIONS)
    settings = {"train_file": data, "test_file": data, **changes}
    return TrainingJob(name="words", model_directory=model, **settings)


_CHILDREN = """
import json, os, resource, sys
from pathlib import Path
from edgelora.toolchain.errors import ToolchainError
from edgelora.toolchain.train import TrainingJob, train
from edgelora.toolchain.training_options import TrainingOptions

def run(order):
    job = TrainingJob(**{
        name: Path(value) if name.endswith(("file", "directory")) and value else value
        for name, value in order["job"].items()
    })
    if order["spare_bytes"] is not None:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + order["spare_bytes"]
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    try:
        train(job, TrainingOptions(**order["options"]), Path(order["output"]))
    except ToolchainError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0

for line in sys.stdin:
    child = os.fork()
    if child == 0:
        order = json.loads(line)
        errors = os.open(order["errors"], os.O_CREAT | os.O_WRONLY)
        os.dup2(errors, 2)
        os._exit(run(order))
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class TrainingProcesses:
    """Starts trainings, each in a process of its own, forked from one that has loaded torch."""

    def __init__(self) -> None:
        self._parent = subprocess.Popen(
            [sys.executable, "-c", _CHILDREN],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )

    def start(
        self,
        job: TrainingJob,
        options: dict[str, Any],
        output: Path,
        errors: Path,
        *,
        spare_bytes: int | None = None,
    ) -> int:
        """Begins a training; returns its process id. `spare_bytes`: memory it may still get."""
        fields = ("name", "model_directory", "train_file", "test_file")
        order = {
            "job": {name: str(getattr(job, name)) for name in fields},
            "options": options,
            "output": str(output),
            "errors": str(errors),
            "spare_bytes": spare_bytes,
        }
        assert self._parent.stdin is not None and self._parent.stdout is not None
        self._parent.stdin.write(json.dumps(order) + "\n")
        self._parent.stdin.flush()
        return int(self._parent.stdout.readline())

    def wait(self) -> int:
        """The exit status of the training; minus the signal that killed it."""
        assert self._parent.stdout is not None
        return int(self._parent.stdout.readline())

    def close(self) -> None:
        """Ends the parent."""
        self._parent.kill()
        self._parent.wait()
        for stream in (self._parent.stdin, self._parent.stdout):
            assert stream is not None
            stream.close()
