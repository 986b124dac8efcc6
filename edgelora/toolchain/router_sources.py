"""The adapters a router is trained on or judged by, with the texts of each one's domain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgelora.adapter_format.card import FILE as CARD_FILE
from edgelora.adapter_format.card import AdapterCard, parse_card
from edgelora.adapter_format.config_parser import parse_adapter_config
from edgelora.adapter_format.digest import adapter_digest
from edgelora.adapter_format.tensor_file import FILE as WEIGHTS_FILE
from edgelora.error_tree import AdapterRejectedError
from edgelora.toolchain.chat_data import Conversation, read_conversations
from edgelora.toolchain.errors import ToolchainError
from edgelora.toolchain.router_card import routed_text
from edgelora.toolchain.training_options import MAX_RANK

CONFIG_FILE = "adapter_config.json"
MIN_DOMAINS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One adapter; the texts of its data are its domain."""

    name: str
    directory: Path
    digest: str
    card: AdapterCard
    conversations: list[Conversation]

    @property
    def texts(self) -> list[str]:
        """What each conversation is routed by."""
        return [routed_text(one) for one in self.conversations]


def find_adapters(places: Sequence[Path]) -> dict[str, Path]:
    """Name -> directory, of each place that is an adapter or holds some; the name is its own."""
    found: dict[str, Path] = {}
    for place in places:
        inner = sorted(path.parent for path in place.glob(f"*/{CONFIG_FILE}"))
        directories = [place] if (place / CONFIG_FILE).is_file() else inner
        if not directories:
            raise ToolchainError(f"{place.name!r} holds no adapter: give a PEFT directory")
        for directory in directories:
            name = directory.resolve().name
            if name in found:
                raise ToolchainError(f"two adapters are called {name!r}: name them with NAME=DIR")
            found[name] = directory
    return found


def read_sources(adapters: Mapping[str, Path], data: Mapping[str, Path]) -> list[Source]:
    """Reads every adapter with its card, and its data of that name, in the order of the names.

    Raises ToolchainError for what is missing or malformed, and for less than `MIN_DOMAINS`.
    """
    if strangers := data.keys() - adapters.keys():
        raise ToolchainError(f"there are data for {min(strangers)!r}, which is no adapter here")
    sources = [_read(name, adapters[name], data.get(name)) for name in sorted(adapters)]
    if len(sources) < MIN_DOMAINS:
        raise ToolchainError(
            f"a router needs at least {MIN_DOMAINS} adapters, each a domain: given {len(sources)}"
        )
    by_digest: dict[str, str] = {}
    for source in sources:
        if other := by_digest.get(source.digest):
            raise ToolchainError(f"{other!r} and {source.name!r} are the same adapter: leave one")
        by_digest[source.digest] = source.name
    return sources


def read_texts(paths: Sequence[Path]) -> list[str]:
    """Reads texts outside every domain, one a line."""
    texts: list[str] = []
    for path in paths:
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            raise ToolchainError(f"{path.name} is not UTF-8 text: save it as UTF-8") from None
        found = [line.strip() for line in lines if line.strip()]
        if not found:
            raise ToolchainError(f"{path.name} holds no texts: write one a line")
        texts += found
    return texts


def _read(name: str, directory: Path, data: Path | None) -> Source:
    if data is None:
        raise ToolchainError(f"adapter {name!r} has no data: give them with --data {name}=FILE")
    try:
        config = (directory / CONFIG_FILE).read_bytes()
        weights = (directory / WEIGHTS_FILE).read_bytes()
        card = (directory / CARD_FILE).read_bytes()
    except FileNotFoundError as error:
        missing = Path(str(error.filename)).name
        why = "the router knows an adapter by its card" if missing == CARD_FILE else "no adapter"
        raise ToolchainError(f"adapter {name!r} has no {missing}: {why}") from None
    try:
        digest = adapter_digest(parse_adapter_config(config, max_rank=MAX_RANK), weights)
        parsed = parse_card(card)
    except AdapterRejectedError as error:
        raise ToolchainError(f"adapter {name!r}: {error.message}") from None
    return Source(
        name=name,
        directory=directory,
        digest=digest,
        card=parsed,
        conversations=read_conversations(data),
    )
