"""What the store finds at its start for measuring adapters: model, texts, sandbox."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from services.adapter_store.verification.certificate import read_record
from services.adapter_store.verification.child_process import ChildFailedError, run_child
from services.adapter_store.verification.child_protocol import encode
from services.adapter_store.verification.orders import (
    EncoderMeasuring,
    EncoderSetupOrders,
    Measuring,
    SetupAnswer,
    SetupOrders,
    StartOrders,
)
from services.adapter_store.verification.sandbox import Sandbox
from services.chassis.base_model import NATIVE_FILE, BaseModel

_MODULE = "services.adapter_store.verification.measuring_setup"
_TIMEOUT_S = 120.0
"""Hashing a packed model of some gigabytes from slow flash included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuringBase:
    """What verification processes have on this machine."""

    sandbox: Sandbox
    measuring: Measuring | None
    why_not_measured: str
    """Empty when there is something to measure with."""
    encoder_measuring: EncoderMeasuring | None
    why_encoder_not_measured: str


@asynccontextmanager
async def open_measuring_base(
    base: BaseModel | None,
    directory: Path | None,
    *,
    max_rank: int,
    is_encoding: bool,
    max_mean_kl: float,
    encoder: BaseModel | None = None,
    encoder_directory: Path | None = None,
) -> AsyncIterator[MeasuringBase]:
    """Tries the prepared models in a process of its own, and keeps their files open.

    The very files that were tried are what verification processes map, whatever is prepared later.
    Without a decoder there is nothing to measure with. `max_mean_kl`: bound on what encoding may
    cost, in nats. Raises ChildFailedError when no process can be started that gives up its rights
    and answers.
    """
    with _opened(base, directory) as packed_fd, _opened(encoder, encoder_directory) as encoder_fd:
        setup = encoder_setup = None
        if base is not None and directory is not None:
            setup = SetupOrders(
                packed_fd=packed_fd,
                packed_sha256=base.files.get(NATIVE_FILE, "").removeprefix("sha256:"),
                tokenizer_file=str((directory / "tokenizer.json").absolute()),
                hidden_size=base.hidden_size,
                num_layers=base.num_layers,
                vocab_size=base.vocab_size,
                max_sequence_tokens=base.max_context_tokens,
                max_rank=max_rank,
                base_digest=base.digest,
                is_encoding=is_encoding,
                max_mean_kl=max_mean_kl,
            )
        if encoder is not None and encoder_directory is not None:
            encoder_setup = EncoderSetupOrders(
                packed_fd=encoder_fd,
                packed_sha256=encoder.files.get(NATIVE_FILE, "").removeprefix("sha256:"),
                tokenizer_file=str((encoder_directory / "tokenizer.json").absolute()),
                hidden_size=encoder.hidden_size,
                num_layers=encoder.num_layers,
                vocab_size=encoder.vocab_size,
                max_rank=max_rank,
            )
        orders = StartOrders(decoder=setup, encoder=encoder_setup)
        descriptors = [each for each in (packed_fd, encoder_fd) if each is not None]
        text, _ = await run_child(
            _MODULE, encode(orders), descriptors=descriptors, timeout_s=_TIMEOUT_S
        )
        try:
            found = read_record(SetupAnswer, json.loads(text))
        except ValueError:
            raise ChildFailedError("the process gave no answer") from None
        yield MeasuringBase(
            sandbox=found.sandbox,
            measuring=found.measuring,
            why_not_measured=found.obstacle,
            encoder_measuring=found.encoder_measuring,
            why_encoder_not_measured=found.encoder_obstacle,
        )


@contextmanager
def _opened(base: BaseModel | None, directory: Path | None) -> Iterator[int | None]:
    """The packed file's descriptor; None when there is no model, or it has no such file."""
    if base is None or directory is None or base.obstacle(NATIVE_FILE) is not None:
        yield None
        return
    try:
        descriptor = os.open(directory / NATIVE_FILE, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)
