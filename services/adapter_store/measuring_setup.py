"""The process that finds out, once at the store's start, what verifying can do on this machine.

It does what every verification process will do before it reads an adapter: it hashes and maps the
packed model, cuts the built-in texts into tokens, and gives up its rights.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import NoReturn

from services.adapter_store import sandbox
from services.adapter_store.child_protocol import answer_and_exit, read_orders
from services.adapter_store.orders import SetupAnswer, SetupOrders, Tokens
from services.adapter_store.probe_texts import COMPARED_TOKENS, GIVEN_TOKENS, TEXTS
from services.chassis.canary import CANARY_TEXT
from services.chassis.extras import install_command
from services.chassis.native_core import native_core_obstacle

_MEMORY_BYTES = 1 << 30
_CPU_S = 60
_RANK = 8


class UnusableError(Exception):
    """Nothing can be measured; the text says why."""


def main() -> NoReturn:
    """Follows the orders on standard input."""
    orders = read_orders(SetupOrders)
    canary, obstacle = Tokens(ids=()), ""
    texts: tuple[Tokens, ...] = ()
    try:
        _try_model(orders)
        canary, texts = _tokens(orders)
    except UnusableError as error:
        obstacle = str(error)
    answer_and_exit(
        SetupAnswer(
            sandbox=sandbox.enter(_MEMORY_BYTES, _CPU_S),
            obstacle=obstacle,
            canary=canary,
            texts=texts,
        )
    )


def _try_model(orders: SetupOrders) -> None:
    obstacle = native_core_obstacle()
    if obstacle is not None:
        raise UnusableError(obstacle)
    if orders.packed_fd is None:
        raise UnusableError("the model has no packed weights: prepare it with `--weights native`")
    from edgelora_native import Engine, Limits, NativeError

    with os.fdopen(orders.packed_fd, "rb", closefd=False) as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != orders.packed_sha256:
            raise UnusableError("the packed model is not what was prepared: prepare it again")
    limits = Limits(
        num_kv_blocks=1, max_loras=1, max_lora_rank=_RANK, max_step_tokens=1, num_threads=1
    )
    try:
        found = Engine(Path(f"/proc/self/fd/{orders.packed_fd}"), limits).description
    except NativeError as error:
        raise UnusableError(str(error)) from None
    if (found.hidden_size, found.num_layers) != (orders.hidden_size, orders.num_layers) or (
        found.vocab_size < orders.vocab_size
    ):
        raise UnusableError("the packed file is of another model: prepare the model again")


def _tokens(orders: SetupOrders) -> tuple[Tokens, tuple[Tokens, ...]]:
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise UnusableError(
            f"the tokenizer's package is missing: run `{install_command('inference')}`"
        ) from None
    try:
        tokenizer = Tokenizer.from_file(orders.tokenizer_file)
    except Exception:  # noqa: BLE001 - the package raises this very class
        raise UnusableError(
            "tokenizer.json is missing or damaged: prepare the model again"
        ) from None
    tokenizer.no_padding()
    tokenizer.no_truncation()
    length = GIVEN_TOKENS + COMPARED_TOKENS
    encoded = [tokenizer.encode(text).ids for text in (CANARY_TEXT, *TEXTS)]
    if any(not ids or max(ids) >= orders.vocab_size for ids in encoded):
        raise UnusableError("the tokenizer is of another model: prepare the model again")
    canary, *texts = (Tokens(ids=tuple(ids)) for ids in encoded)
    return canary, tuple(Tokens(ids=text.ids[:length]) for text in texts)


if __name__ == "__main__":
    main()
