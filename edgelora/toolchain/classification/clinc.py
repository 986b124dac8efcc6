"""The classifiers of CLINC150 that `edgelora bench classify` compares.

The data set (Larson et al., EMNLP 2019, https://github.com/clinc/oos-eval, CC BY 3.0) is read where
EDGELORA_CLINC150 points and is not part of this tree. Run `make classifiers`, or
`python -m edgelora.toolchain.classification.clinc`: those that are there already are kept.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from edgelora.toolchain.classification.options import ClassificationOptions
from edgelora.toolchain.errors import ToolchainError
from edgelora.toolchain.router_clinc import PLACE_VARIABLE
from services.chassis.base_model import DEFAULT_ENCODER_NAME

FOLDER = "classifiers"
"""Below the home: NAME-sSEED for each."""
DATA_FILE = "data_full.json"
FULL = "full fine-tuning"
CONSISTENT = "full fine-tuning, consistent"
_QUERY_VALUE = ("query", "value")
CONFIGURATIONS: Mapping[str, ClassificationOptions] = {
    "linear probe": ClassificationOptions(
        method="probe", epochs=25, head_learning_rate=0.03, batch_size=256
    ),
    "LoRA r=8": ClassificationOptions(r=8, alpha=16),
    FULL: ClassificationOptions(method="full", learning_rate=1.5e-4, layer_decay=0.9),
    CONSISTENT: ClassificationOptions(
        method="full", learning_rate=1.5e-4, layer_decay=0.9, consistency=2.0, epochs=5
    ),
    "LoRA r=4, query and value": ClassificationOptions(r=4, alpha=8, targets=_QUERY_VALUE),
    "LoRA r=8, query and value": ClassificationOptions(r=8, alpha=16, targets=_QUERY_VALUE),
    "LoRA r=16, query and value": ClassificationOptions(r=16, alpha=32, targets=_QUERY_VALUE),
}
"""By name, the most wanted ones first."""
MEAN = "full fine-tuning, consistent, mean of the seeds"
"""One model whose weights are the mean of those of the seeds."""


def place_of(home: Path, name: str, seed: int) -> Path:
    """Where a configuration's outcome is kept."""
    words = name.replace(",", "").replace("=", "").replace(" ", "-").lower()
    return home / FOLDER / f"{words}-s{seed}"


def data_file() -> Path:
    """The data set's file. Raises ToolchainError when it is not there."""
    place = os.environ.get(PLACE_VARIABLE)
    file = Path(place) / DATA_FILE if place else None
    if file is None or not file.is_file():
        raise ToolchainError(
            f"{PLACE_VARIABLE} is not set, or has no {DATA_FILE}: point it to the directory with "
            "that file of github.com/clinc/oos-eval"
        )
    return file


def train_missing(home: Path, model: str, seeds: int, threads: int | None) -> None:
    """Trains what is not there of each configuration and seed, and takes the mean."""
    # Imported only now, so that wrong usage does not load torch.
    from edgelora.toolchain.classification.train import ClassificationJob, train

    console = Console(stderr=True)
    job = ClassificationJob(
        name="intents",
        model_directory=home / "models" / model,
        train_file=data_file(),
        description="Names the intent of an utterance, one of the 150 of CLINC150.",
        licence="CC-BY-3.0",
        quotes_data=True,
    )
    for seed in range(seeds):
        for name, options in CONFIGURATIONS.items():
            place = place_of(home, name, seed)
            if place.exists():
                continue
            console.print(f"{name}, seed {seed}", highlight=False)
            train(job, replace(options, seed=seed, threads=threads), place, resume=True)
    mean = place_of(home, MEAN, 0)
    if seeds > 1 and not mean.exists():
        console.print(MEAN, highlight=False)
        runs = tuple(place_of(home, CONSISTENT, seed) for seed in range(seeds))
        options = replace(CONFIGURATIONS[CONSISTENT], threads=threads)
        train(replace(job, mean_of=runs), options, mean)


def main() -> int:
    """Trains the classifiers that are missing."""
    parser = argparse.ArgumentParser(
        prog="python -m edgelora.toolchain.classification.clinc",
        description=__doc__,
        allow_abbrev=False,
    )
    home = Path(os.environ.get("EDGELORA_HOME", ".edgelora"))
    parser.add_argument("--home", type=Path, default=home)
    parser.add_argument("--model", default=DEFAULT_ENCODER_NAME, help="prepared encoder")
    parser.add_argument("--seeds", type=int, default=3, help="how often each is trained")
    parser.add_argument("--threads", type=int, help="processor threads")
    arguments = parser.parse_args()
    try:
        train_missing(arguments.home, arguments.model, arguments.seeds, arguments.threads)
    except ToolchainError as error:
        Console(stderr=True).print(f"clinc: {error}", highlight=False)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
