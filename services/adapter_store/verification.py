"""Has uploaded files read by a process of their own before anything else opens them."""

from __future__ import annotations

import asyncio
import json
import math
import os
import re
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgelora.adapter_format import MAX_CONFIG_BYTES, combine_digest
from edgelora.errors import AdapterIncompatibleError, AdapterRejectedError
from services.adapter_store.names import MAX_DESCRIPTION_CHARS
from services.chassis.base_model import BaseModel
from services.chassis.logs import get_logger

CHILD_MODULE = "services.adapter_store.verification_child"
_MAX_ANSWER_BYTES = 2 * MAX_CONFIG_BYTES
_BASE_MEMORY_BYTES = 1 << 30
_MEMORY_FACTOR = 8
"""Mapped file, float32 copies of a half-precision file, and temporaries of the largest tensor."""
_HEX_SHA256 = re.compile(r"[0-9a-f]{64}")
_CHILD_ENVIRONMENT = {"LC_ALL": "C.UTF-8", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedAdapter:
    """What the verification process found in a good adapter."""

    canonical_config: bytes
    weights_sha256: bytes
    rank: int
    alpha: float
    target_modules: tuple[str, ...]
    num_parameters: int

    @property
    def digest(self) -> str:
        """The adapter's identity."""
        return combine_digest(self.canonical_config, self.weights_sha256)


class Verifier:
    """Runs verification processes, a bounded number at once."""

    def __init__(
        self, base: BaseModel, *, max_rank: int, timeout_s: float, max_concurrent: int
    ) -> None:
        self._base = base
        self._max_rank = max_rank
        self._timeout_s = timeout_s
        self._places = asyncio.Semaphore(max_concurrent)

    async def verify(self, config: Path, weights: Path) -> VerifiedAdapter:
        """Verifies two files of ours against the base model.

        Raises AdapterRejectedError or AdapterIncompatibleError; a process that crashed, hung or
        answered nonsense means rejected.
        """
        async with self._places:
            descriptors = [
                os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
                for path in (config, weights)
            ]
            try:
                orders = self._orders(*descriptors)
                code, answer = await self._run(descriptors, orders)
            finally:
                for descriptor in descriptors:
                    os.close(descriptor)
        if code != 0:
            get_logger().warning("verification_process_failed", exit_code=code)
            raise _unverifiable("reading it made the verification process fail")
        return _parse_answer(answer)

    def _orders(self, config_fd: int, weights_fd: int) -> bytes:
        size_bytes = os.fstat(weights_fd).st_size
        return json.dumps(
            {
                "config_fd": config_fd,
                "weights_fd": weights_fd,
                "targets": self._base.targets,
                "num_layers": self._base.num_layers,
                "max_rank": self._max_rank,
                "memory_bytes": _BASE_MEMORY_BYTES + _MEMORY_FACTOR * size_bytes,
                "cpu_s": math.ceil(self._timeout_s),
            }
        ).encode()

    async def _run(self, descriptors: list[int], orders: bytes) -> tuple[int, bytes]:
        # Started by exec: gRPC does not survive a fork, and the child shares no memory with us.
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            "-B",
            "-m",
            CHILD_MODULE,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            pass_fds=descriptors,
            env=_CHILD_ENVIRONMENT,
            cwd="/",
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(self._timeout_s):
                assert process.stdin is not None
                assert process.stdout is not None
                process.stdin.write(orders)
                process.stdin.close()
                answer = await process.stdout.read(_MAX_ANSWER_BYTES)
                while piece := await process.stdout.read(_MAX_ANSWER_BYTES):
                    answer += piece
                    if len(answer) > _MAX_ANSWER_BYTES:
                        raise _unverifiable("its description is too long")
                return await process.wait(), answer
        except TimeoutError:
            raise _unverifiable(f"reading it took more than {self._timeout_s:g} s") from None
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


def _unverifiable(why: str) -> AdapterRejectedError:
    return AdapterRejectedError(f"the adapter can not be verified: {why}", field="weights")


def _parse_answer(answer: bytes) -> VerifiedAdapter:
    """Takes nothing from the child for granted but the form of its answer."""
    try:
        found = json.loads(answer)
        refused = found.get("refused")
        if refused is None:
            return _verified(found)
        message, field = found["message"], found["field"]
        if not isinstance(message, str) or not isinstance(field, str):
            raise TypeError
    except (ValueError, KeyError, TypeError, AttributeError):
        raise _unverifiable("the verification process gave no answer") from None
    error_class = AdapterIncompatibleError if refused == "incompatible" else AdapterRejectedError
    raise error_class(message[: 4 * MAX_DESCRIPTION_CHARS], field=field[:MAX_DESCRIPTION_CHARS])


def _verified(found: dict[str, Any]) -> VerifiedAdapter:
    modules = found["target_modules"]
    config = found["canonical_config"].encode("ascii")
    if (
        not _HEX_SHA256.fullmatch(found["weights_sha256"])
        or not isinstance(modules, list)
        or not all(isinstance(name, str) for name in modules)
        or len(config) > MAX_CONFIG_BYTES
    ):
        raise ValueError
    return VerifiedAdapter(
        canonical_config=config,
        weights_sha256=bytes.fromhex(found["weights_sha256"]),
        rank=int(found["rank"]),
        alpha=float(found["alpha"]),
        target_modules=tuple(modules),
        num_parameters=int(found["num_parameters"]),
    )
