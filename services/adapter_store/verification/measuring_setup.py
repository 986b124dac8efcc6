"""The process that finds out, once at the store's start, what verifying can do on this machine.

It does what every verification process will do before it reads an adapter: it maps the packed
model, loads tokenizer and codec, and gives up its rights. It also hashes the model's file, and
cuts the texts to measure on into tokens.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TypeVar

from services.adapter_store.verification import sandbox
from services.adapter_store.verification.child_protocol import answer_and_exit, read_orders
from services.adapter_store.verification.measured_encoder import MeasuredEncoder
from services.adapter_store.verification.orders import (
    EncoderMeasuring,
    EncoderSetupOrders,
    Measuring,
    SetupAnswer,
    SetupOrders,
    StartOrders,
    Tokens,
)
from services.adapter_store.verification.probe_texts import COMPARED_TOKENS, GIVEN_TOKENS, TEXTS
from services.adapter_store.verification.serving_form import FormChoice
from services.chassis.canary import CANARY_TEXT
from services.chassis.extras import install_command
from services.chassis.native_core import native_core_obstacle

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Orders = TypeVar("Orders")
Found = TypeVar("Found")

_MEMORY_BYTES = 1 << 30
_CPU_S = 60


class UnusableError(Exception):
    """Nothing can be measured; the text says why."""


def main() -> NoReturn:
    """Follows the orders on standard input."""
    orders = read_orders(StartOrders)
    measuring, obstacle = _tried(_measuring, orders.decoder)
    encoder_measuring, encoder_obstacle = _tried(_encoder_measuring, orders.encoder)
    box = sandbox.enter(_MEMORY_BYTES, _CPU_S)
    answer_and_exit(
        SetupAnswer(
            sandbox=box,
            measuring=measuring,
            obstacle=obstacle,
            encoder_measuring=encoder_measuring,
            encoder_obstacle=encoder_obstacle,
        )
    )


def _tried(measuring: Callable[[Orders], Found], orders: Orders | None) -> tuple[Found | None, str]:
    """What there is to measure with, and why there is nothing."""
    if orders is None:
        return None, "no such model is served"
    try:
        return measuring(orders), ""
    except UnusableError as error:
        return None, str(error)


def _encoder_measuring(orders: EncoderSetupOrders) -> EncoderMeasuring:
    packed_fd = _packed(orders.packed_fd, orders.packed_sha256)
    ids = _tokenizer(orders.tokenizer_file).encode(CANARY_TEXT).ids
    if not ids or max(ids) >= orders.vocab_size:
        raise UnusableError("the tokenizer is of another model: prepare the model again")
    from edgelora_native import NativeError

    try:
        # Whatever fails here would make every registration fail.
        found = MeasuredEncoder(
            Path(f"/proc/self/fd/{packed_fd}"), ids, max_rank=orders.max_rank
        ).description
    except NativeError as error:
        raise UnusableError(str(error)) from None
    if (found.hidden_size, found.num_layers, found.vocab_size) != (
        orders.hidden_size,
        orders.num_layers,
        orders.vocab_size,
    ):
        raise UnusableError("the packed file is of another model: prepare the model again")
    return EncoderMeasuring(packed_fd=packed_fd, canary=Tokens(ids=tuple(ids)))


def _packed(packed_fd: int | None, sha256: str) -> int:
    """The packed file that was prepared, for a native core that can map it."""
    obstacle = native_core_obstacle()
    if obstacle is not None:
        raise UnusableError(obstacle)
    if packed_fd is None:
        raise UnusableError("the model has no packed weights: prepare it with `--weights native`")
    with os.fdopen(packed_fd, "rb", closefd=False) as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != sha256:
            raise UnusableError("the packed model is not what was prepared: prepare it again")
    return packed_fd


def _measuring(orders: SetupOrders) -> Measuring:
    packed_fd = _packed(orders.packed_fd, orders.packed_sha256)
    _check_model(orders, packed_fd)
    canary, texts = _tokens(orders)
    measuring = Measuring(
        packed_fd=packed_fd,
        tokenizer_file=orders.tokenizer_file,
        vocab_size=orders.vocab_size,
        max_sequence_tokens=orders.max_sequence_tokens,
        canary=canary,
        texts=texts,
        is_encoding=orders.is_encoding,
        max_mean_kl=orders.max_mean_kl,
    )
    # Whatever fails here would make every registration fail.
    FormChoice(measuring, base_digest=orders.base_digest, max_rank=orders.max_rank, has_probe=True)
    return measuring


def _check_model(orders: SetupOrders, packed_fd: int) -> None:
    from edgelora_native import Engine, Limits, NativeError

    if not hasattr(Engine, "load_encoded"):
        raise UnusableError("the native core is of an older release: run `make native`")
    limits = Limits(num_kv_blocks=1, max_loras=1, max_lora_rank=1, max_step_tokens=1, num_threads=1)
    try:
        found = Engine(Path(f"/proc/self/fd/{packed_fd}"), limits).description
    except NativeError as error:
        raise UnusableError(str(error)) from None
    if (found.hidden_size, found.num_layers) != (orders.hidden_size, orders.num_layers) or (
        found.vocab_size < orders.vocab_size
    ):
        raise UnusableError("the packed file is of another model: prepare the model again")


def _tokens(orders: SetupOrders) -> tuple[Tokens, tuple[Tokens, ...]]:
    """The canary prompt and the built-in texts, as long as they are used."""
    tokenizer = _tokenizer(orders.tokenizer_file)
    encoded = [tokenizer.encode(text).ids for text in (CANARY_TEXT, *TEXTS)]
    if any(not ids or max(ids) >= orders.vocab_size for ids in encoded):
        raise UnusableError("the tokenizer is of another model: prepare the model again")
    length = GIVEN_TOKENS + COMPARED_TOKENS
    canary, *texts = (Tokens(ids=tuple(ids)) for ids in encoded)
    return canary, tuple(Tokens(ids=text.ids[:length]) for text in texts)


def _tokenizer(file: str) -> Tokenizer:
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise UnusableError(
            f"the tokenizer's package is missing: run `{install_command('inference')}`"
        ) from None
    try:
        tokenizer = Tokenizer.from_file(file)
    except Exception:  # noqa: BLE001 - the package raises this very class
        raise UnusableError(
            "tokenizer.json is missing or damaged: prepare the model again"
        ) from None
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


if __name__ == "__main__":
    main()
