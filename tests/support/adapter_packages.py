"""Adapter packages of any size, and remotes as the operator's file makes them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgelora.adapter_package import EncodedForm, write_package
from services.adapter_store.remotes.assembly import assemble_fetcher
from services.adapter_store.remotes.fetcher import RemoteFetcher
from services.adapter_store.remotes.remotes_file import load_remotes
from services.adapter_store.remotes.transfer import TransferLimits
from services.adapter_store.remotes.try_book import RetryPolicy

MAX_WEIGHTS_BYTES = 16 * 2**20
AT_ONCE = RetryPolicy(first_s=0.0)
"""A cut transfer goes on without a pause."""


@dataclass(frozen=True)
class SamplePackage:
    """An adapter's files, and the layout made of them. The weights are not real ones."""

    directory: Path
    layout: Path
    digest: str
    config: bytes
    weights: bytes


def make_package(
    directory: Path,
    *,
    weights_bytes: int = 1_000_000,
    seed: int = 1,
    tag: str = "latest",
    encoded: Sequence[EncodedForm] = (),
) -> SamplePackage:
    """Writes `directory`/peft and packs it into `directory`/layout."""
    peft = directory / "peft"
    peft.mkdir(parents=True)
    config, weights = b'{"peft_type": "LORA"}', random.Random(seed).randbytes(weights_bytes)
    (peft / "adapter_config.json").write_bytes(config)
    (peft / "adapter_model.safetensors").write_bytes(weights)
    digest = write_package(peft, directory / "layout", tag, encoded)
    return SamplePackage(peft, directory / "layout", digest, config, weights)


def open_fetcher(
    directory: Path,
    remotes: str,
    *,
    rate_window_s: float = 10.0,
    retry: RetryPolicy = AT_ONCE,
    max_partial_bytes: int = 4 * MAX_WEIGHTS_BYTES,
    **more: Any,
) -> RemoteFetcher:
    """A fetcher for the text of a remotes file, with its quarantine in `directory`."""
    file = directory / "remotes.toml"
    file.write_text(remotes)
    return assemble_fetcher(
        load_remotes(file, "REMOTES_FILE"),
        directory / "quarantine",
        max_weights_bytes=MAX_WEIGHTS_BYTES,
        max_partial_bytes=max_partial_bytes,
        min_free_bytes=0,
        transfer=TransferLimits(rate_window_s=rate_window_s),
        retry=retry,
        random_0_1=lambda: 0.0,
        **more,
    )


def web_remote(kind: str, port: int, *lines: str) -> str:
    """The table of a remote called `garage` on the loopback, without TLS."""
    return "\n".join(
        [
            "[garage]",
            f'kind = "{kind}"',
            f'url = "http://127.0.0.1:{port}"',
            "allow_plain_http = true",
            *lines,
        ]
    )


def partial_files(directory: Path) -> list[Path]:
    """What unfinished transfers left."""
    return sorted((directory / "quarantine" / "partial").iterdir())


def exposed_packages(directory: Path) -> list[Path]:
    """Packages handed over and not yet discarded."""
    return sorted((directory / "quarantine" / "packages").iterdir())
