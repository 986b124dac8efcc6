"""Ten intent adapters, one for each domain of CLINC150: what the router is evaluated with.

The data set (Larson et al., EMNLP 2019, https://github.com/clinc/oos-eval, CC BY 3.0) is read where
EDGELORA_CLINC150 points and is not part of this tree. Run `make router-demo`, or
`python -m edgelora.toolchain.router_clinc`: adapters that are there already are kept.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from edgelora.toolchain.chat_data import Conversation, read_conversations, write_conversations
from edgelora.toolchain.errors import ToolchainError
from edgelora.toolchain.prepare import DEFAULT_NAME
from edgelora.toolchain.published_directory import published_directory
from edgelora.toolchain.router_card import write_routing_card
from edgelora.toolchain.training_options import TrainingOptions

PLACE_VARIABLE = "EDGELORA_CLINC150"
ADAPTER_EXAMPLES = 40
"""Training utterances of each intent that the adapter sees; the others are for the router."""
OPTIONS = TrainingOptions(r=8, alpha=16, learning_rate=2e-3, epochs=1, batch_tokens=384)


def read_splits(place: Path) -> tuple[dict[str, list[list[str]]], dict[str, list[str]]]:
    """Returns split -> rows of (text, intent), and domain -> intents.

    Raises ToolchainError when the data set is not there.
    """
    try:
        splits = json.loads((place / "data_full.json").read_text(encoding="utf-8"))
        domains = json.loads((place / "domains.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ToolchainError(
            f"CLINC150 is not in {place.name!r}: point {PLACE_VARIABLE} to the directory with "
            "data_full.json and domains.json of github.com/clinc/oos-eval"
        ) from error
    return splits, domains


def write_data(place: Path, output: Path) -> list[str]:
    """Writes `output/data`: for each domain adapter.jsonl, router.jsonl and test.jsonl, and the
    out-of-scope texts, one a line; returns the domains. The same files every time."""
    splits, domains = read_splits(place)
    for domain, intents in domains.items():
        for_adapter: list[Conversation] = []
        for_router: list[Conversation] = []
        order = random.Random(domain)  # noqa: S311 - shuffling, no secret
        for intent in intents:
            rows = [_conversation(text, of) for text, of in splits["train"] if of == intent]
            order.shuffle(rows)
            for_adapter += rows[:ADAPTER_EXAMPLES]
            for_router += rows[ADAPTER_EXAMPLES:]
        test = [_conversation(text, of) for text, of in splits["test"] if of in intents]
        for rows in (for_adapter, for_router, test):
            order.shuffle(rows)
        directory = output / "data" / domain
        directory.mkdir(parents=True, exist_ok=True)
        write_conversations(directory / "adapter.jsonl", for_adapter)
        write_conversations(directory / "router.jsonl", for_router)
        write_conversations(directory / "test.jsonl", test)
    for name, parts in (("train", ("oos_train", "oos_val")), ("test", ("oos_test",))):
        texts = [text for part in parts for text, _ in splits[part]]
        path = output / "data" / f"out-of-scope-{name}.txt"
        path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    return list(domains)


def train_domain(domain: str, model_directory: Path, output: Path, threads: int | None) -> None:
    """Trains the adapter of one domain into `output/adapters`, with its card; kept when there."""
    # Imported only now, so that wrong usage does not load torch.
    from edgelora.toolchain.train import TrainingJob, train_into

    target = output / "adapters" / domain
    if target.exists():
        return
    data = output / "data" / domain / "adapter.jsonl"
    description = f"Names the intent of an utterance about {domain.replace('_', ' ')}."
    job = TrainingJob(
        name=domain, model_directory=model_directory, train_file=data, description=description
    )
    with published_directory(target) as directory:
        train_into(job, replace(OPTIONS, threads=threads), directory)
        write_routing_card(directory, description, read_conversations(data))


def main() -> int:
    """Writes the data and trains the adapters that are missing."""
    parser = argparse.ArgumentParser(
        prog="python -m edgelora.toolchain.router_clinc", description=__doc__, allow_abbrev=False
    )
    home = Path(os.environ.get("EDGELORA_HOME", ".edgelora"))
    parser.add_argument("--home", type=Path, default=home)
    parser.add_argument("--model", default=DEFAULT_NAME, help="prepared model")
    parser.add_argument("--threads", type=int, help="processor threads")
    arguments = parser.parse_args()
    console = Console(stderr=True)
    try:
        place = os.environ.get(PLACE_VARIABLE)
        if not place:
            raise ToolchainError(f"{PLACE_VARIABLE} is not set: point it to the data set")
        output = arguments.home / "router-clinc"
        domains = write_data(Path(place), output)
        for number, domain in enumerate(domains, start=1):
            console.print(f"Adapter {domain}, {number} of {len(domains)}", highlight=False)
            train_domain(
                domain, arguments.home / "models" / arguments.model, output, arguments.threads
            )
    except ToolchainError as error:
        console.print(f"router_clinc: {error}", highlight=False)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _conversation(text: str, intent: str) -> Conversation:
    return [{"role": "user", "content": text}, {"role": "assistant", "content": intent}]


if __name__ == "__main__":
    sys.exit(main())
