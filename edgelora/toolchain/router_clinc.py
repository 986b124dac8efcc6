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

from edgelora.toolchain.chat_data import Conversation, write_conversations
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


def domain_data(
    rows: dict[str, list[list[str]]], intents: list[str], seed: str
) -> dict[str, list[Conversation]]:
    """File name -> conversations of one domain: for the adapter, for the router, and to test both.

    The same every time.
    """
    order = random.Random(seed)  # noqa: S311 - shuffling, no secret
    files: dict[str, list[Conversation]] = {"adapter": [], "train": []}
    for intent in intents:
        of_intent = [_conversation(text, of) for text, of in rows["train"] if of == intent]
        order.shuffle(of_intent)
        files["adapter"] += of_intent[:ADAPTER_EXAMPLES]
        files["train"] += of_intent[ADAPTER_EXAMPLES:]
    files["test"] = [_conversation(text, of) for text, of in rows["test"] if of in intents]
    for conversations in files.values():
        order.shuffle(conversations)
    return files


def write_out_of_scope(rows: dict[str, list[list[str]]], output: Path) -> None:
    """Writes the texts that belong to no domain, one a line."""
    output.mkdir(parents=True, exist_ok=True)
    for name, parts in (("train", ("oos_train", "oos_val")), ("test", ("oos_test",))):
        texts = "".join(f"{text}\n" for part in parts for text, _ in rows[part])
        (output / f"out-of-scope-{name}.txt").write_text(texts, encoding="utf-8")


def train_domain(
    domain: str,
    files: dict[str, list[Conversation]],
    model_directory: Path,
    target: Path,
    threads: int | None,
) -> None:
    """Trains the adapter of one domain into `target`, with its card and all data."""
    # Imported only now, so that wrong usage does not load torch.
    from edgelora.toolchain.train import TrainingJob, train_into

    description = f"Names the intent of an utterance about {domain.replace('_', ' ')}."
    with published_directory(target) as directory:
        (directory / "data").mkdir()
        for name, conversations in files.items():
            write_conversations(directory / "data" / f"{name}.jsonl", conversations)
        job = TrainingJob(
            name=domain,
            model_directory=model_directory,
            train_file=directory / "data" / "adapter.jsonl",
            description=description,
        )
        train_into(job, replace(OPTIONS, threads=threads), directory)
        write_routing_card(directory, description, files["adapter"])


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
        rows, domains = read_splits(Path(place))
        write_out_of_scope(rows, output)
        for number, (domain, intents) in enumerate(domains.items(), start=1):
            target = output / "adapters" / domain
            if target.exists():
                continue
            console.print(f"Adapter {domain}, {number} of {len(domains)}", highlight=False)
            files = domain_data(rows, intents, domain)
            model = arguments.home / "models" / arguments.model
            train_domain(domain, files, model, target, arguments.threads)
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
