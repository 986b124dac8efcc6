"""The process that opens an uploaded adapter first: `python -I -m` this module, nothing else.

It gets both files as open descriptors and its orders as JSON on standard input, gives up every
right it does not need, and answers one JSON object on standard output. If the files manage to
crash it or to use up its limits, they are refused and nothing else has seen them.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import mmap
import os
import resource
import signal
import sys
from typing import Any, NoReturn

from edgelora.adapter_format import MAX_CONFIG_BYTES, AdapterWeights, read_adapter
from edgelora.adapter_format.tensor_file import Buffer
from edgelora.errors import AdapterIncompatibleError, AdapterRejectedError

_PR_SET_PDEATHSIG = 1
_PR_SET_NO_NEW_PRIVS = 38
_EXIT_FORBIDDEN = 3


def give_up_rights(memory_bytes: int, cpu_s: int) -> None:
    """Bounds this process, and lets it start, open, write and import nothing any more."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(
        _PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0
    ):
        raise OSError(ctypes.get_errno(), "prctl failed")
    for name, limit in (
        (resource.RLIMIT_AS, memory_bytes),
        (resource.RLIMIT_CPU, cpu_s),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NOFILE, 0),
        (resource.RLIMIT_NPROC, 0),
    ):
        _, hard = resource.getrlimit(name)
        lowered = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(name, (lowered, lowered))
    sys.addaudithook(_forbid)


def _forbid(_event: str, _arguments: tuple[object, ...]) -> None:
    # Reading an adapter raises no audit event (PEP 578); importing, opening, executing,
    # unpickling and connecting all raise one.
    os._exit(_EXIT_FORBIDDEN)


def verify(config: bytes, weights: Buffer, orders: dict[str, Any]) -> dict[str, Any]:
    """Reads both files in full and describes them, or says why they are refused."""
    try:
        parsed, pairs = read_adapter(
            config,
            weights,
            targets={name: (shape[0], shape[1]) for name, shape in orders["targets"].items()},
            num_layers=orders["num_layers"],
            max_rank=orders["max_rank"],
        )
    except AdapterRejectedError as error:
        return {"refused": "rejected", "message": error.message, "field": error.field}
    except AdapterIncompatibleError as error:
        return {"refused": "incompatible", "message": error.message, "field": error.field}
    except MemoryError:
        message = "the adapter needs more memory to be read than its size allows"
        return {"refused": "rejected", "message": message, "field": "weights"}
    return {
        "canonical_config": parsed.canonical_bytes().decode("ascii"),
        "weights_sha256": hashlib.sha256(weights).hexdigest(),
        "rank": pairs.max_rank,
        "alpha": parsed.alpha,
        "target_modules": sorted({module for _, module in pairs.pairs}),
        "num_parameters": _num_parameters(pairs),
    }


def _num_parameters(weights: AdapterWeights) -> int:
    return sum(int(pair.lora_a.size + pair.lora_b.size) for pair in weights.pairs.values())


def main() -> NoReturn:
    """Follows the orders on standard input."""
    orders = json.loads(sys.stdin.buffer.read())
    # Mapped, but not yet looked at: mapping needs a free descriptor.
    weights = mmap.mmap(orders["weights_fd"], 0, access=mmap.ACCESS_READ)
    give_up_rights(orders["memory_bytes"], orders["cpu_s"])
    config = os.pread(orders["config_fd"], MAX_CONFIG_BYTES + 1, 0)
    answer = json.dumps(verify(config, weights, orders)).encode()
    while answer:
        answer = answer[os.write(1, answer) :]
    # Tearing down the interpreter would raise audit events for nothing.
    os._exit(0)


if __name__ == "__main__":
    main()
