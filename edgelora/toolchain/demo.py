"""The four demo adapters: builds their data, trains them and writes `demo/<name>/`.

Run `python -m edgelora.toolchain.demo` to reproduce all of them, or name some.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from edgelora.toolchain.chat_data import write_conversations
from edgelora.toolchain.demo_data import business_email, home_commands, recipes, tutor
from edgelora.toolchain.demo_data.material import Built
from edgelora.toolchain.errors import ToolchainError
from edgelora.toolchain.prepare import DEFAULT_NAME
from edgelora.toolchain.published_directory import published_directory
from edgelora.toolchain.router_card import write_routing_card
from edgelora.toolchain.training_options import TrainingOptions
from edgelora.toolchain.training_report import TrainingReport

DATA_SEED = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoAdapter:
    """How one demo adapter is made."""

    description: str
    build: Callable[[int], Built]
    options: TrainingOptions
    measures_exact_match: bool = False


def _home_data(seed: int) -> Built:
    train, test = home_commands.build(seed)
    return Built([one.conversation() for one in train], [one.conversation() for one in test])


DEMO_ADAPTERS = {
    "email": DemoAdapter(
        description="Writes short business e-mails with subject, greeting, body and closing.",
        build=business_email.build,
        # A second pass, or a higher rate, learns the training letters by heart.
        options=TrainingOptions(r=4, alpha=16, learning_rate=7e-4, epochs=1, dropout=0.1),
    ),
    "recipes": DemoAdapter(
        description="Recipes and dinner suggestions, always laid out the same way.",
        build=recipes.build,
        options=TrainingOptions(r=4, alpha=16, learning_rate=1e-3, epochs=1),
    ),
    "tutor": DemoAdapter(
        description=(
            "A tutor for children of about 7 to 11: short explanations that end in a question to "
            "think about, and kind refusals of unsuitable topics. It is a demonstration, not a "
            "safety filter."
        ),
        build=tutor.build,
        options=TrainingOptions(r=4, alpha=16, learning_rate=2e-3, epochs=2),
    ),
    "home": DemoAdapter(
        description=(
            "Turns a spoken home command into compact JSON with intent and slots, in the words of "
            "Home Assistant. No test sentence comes from a template that training saw."
        ),
        build=_home_data,
        options=TrainingOptions(r=4, alpha=16, learning_rate=3e-3, epochs=1.5),
        measures_exact_match=True,
    ),
}


def train_demo(
    name: str, model_directory: Path, output: Path, *, threads: int | None = None
) -> TrainingReport:
    """Builds the data of demo adapter `name`, trains it and publishes `output` at the end.

    An `output` that exists is replaced. Raises ToolchainError for an unknown name or when the
    model is not prepared.
    """
    if name not in DEMO_ADAPTERS:
        raise ToolchainError(
            f"demo adapter {name!r} does not exist: choose from {', '.join(DEMO_ADAPTERS)}"
        )
    # Imported only now, so that naming the adapters does not load torch.
    from edgelora.toolchain.exact_match import exact_match
    from edgelora.toolchain.train import TrainingJob, train_into

    adapter = DEMO_ADAPTERS[name]
    options = dataclasses.replace(adapter.options, threads=threads)
    with published_directory(output) as directory:
        data = directory / "data"
        data.mkdir()
        built = adapter.build(DATA_SEED)
        write_conversations(data / "train.jsonl", built.train)
        write_conversations(data / "test.jsonl", built.test)
        job = TrainingJob(
            name=name,
            model_directory=model_directory,
            train_file=data / "train.jsonl",
            test_file=data / "test.jsonl",
            description=adapter.description,
            licence="apache-2.0",
            task=("exact_match", exact_match) if adapter.measures_exact_match else None,
        )
        write_routing_card(directory, adapter.description, built.train)
        return train_into(job, options, directory)


def main() -> int:
    """Reproduces the demo adapters named on the command line, or all."""
    parser = argparse.ArgumentParser(
        prog="python -m edgelora.toolchain.demo", description=__doc__, allow_abbrev=False
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(DEMO_ADAPTERS))
    parser.add_argument(
        "--home", type=Path, default=Path(os.environ.get("EDGELORA_HOME", ".edgelora"))
    )
    parser.add_argument("--model", default=DEFAULT_NAME, help="prepared model")
    parser.add_argument("--output", type=Path, default=Path("demo"), help="directory of the demos")
    parser.add_argument("--threads", type=int, help="processor threads")
    arguments = parser.parse_args()
    console = Console(stderr=True)
    try:
        for name in arguments.names or DEMO_ADAPTERS:
            console.print(f"Demo adapter {name}", highlight=False)
            report = train_demo(
                name,
                arguments.home / "models" / arguments.model,
                arguments.output / name,
                threads=arguments.threads,
            )
            console.print(f"{name}: {report.held_out_loss} {report.task}", highlight=False)
    except ToolchainError as error:
        console.print(f"error: {error}", highlight=False)
        return 1
    except KeyboardInterrupt:
        console.print("stopped; nothing was written", highlight=False)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
