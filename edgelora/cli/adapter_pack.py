"""`edgelora adapters pack`: an adapter as a package that registries, servers and media carry."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from edgelora.adapter_package import EncodedForm, is_tag, write_package
from edgelora.cli.errors import CliError
from edgelora.cli.output import print_json
from edgelora.cli.places import home_option, json_option
from services.chassis.base_model import BaseModel

_LEVELS = ("3.2", "4.5", "8")


@click.command()
@click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("output", type=click.Path(path_type=Path))
@click.option("--tag", default="latest", show_default=True, help="The package's tag.")
@click.option(
    "--model",
    metavar="NAME",
    help="Add the encoded form for this prepared model: its nodes restore it sooner.",
)
@click.option(
    "--bits",
    type=click.Choice(_LEVELS),
    help="A parameter's bits in the encoded form.  [default: 3.2]",
)
@home_option
@json_option
def pack(
    directory: Path,
    output: Path,
    tag: str,
    model: str | None,
    bits: str | None,
    home: Path,
    as_json: bool,
) -> None:
    """Write the PEFT adapter in DIRECTORY to OUTPUT as an OCI image layout.

    With --model, the package also holds the form in which nodes of this model keep the adapter.
    When it left a node's flash, that form comes back alone: a fifth of the bytes, and nothing to
    verify.

    \b
    Nodes install it from a directory, a medium or a static server as it is:
      edgelora adapters pack ./my-adapter /media/stick/mail
      edgelora adapters install usb/mail --tenant office
    Registry tools bring it into a registry:
      edgelora adapters pack ./my-adapter ./mail --model smollm2-135m-instruct
      skopeo copy oci:./mail:latest docker://REGISTRY/office/mail:v1
    """
    if not is_tag(tag):
        raise click.UsageError("a tag has 1 to 128 letters, digits, '.', '_' and '-'")
    if bits is not None and model is None:
        raise click.UsageError("--bits needs --model, for which the adapter is encoded")
    form = None if model is None else _encode(directory, home, model, float(bits or _LEVELS[0]))
    digest = write_package(directory, output, tag, () if form is None else (form,))
    if as_json:
        print_json({"digest": digest, "tag": tag, "encoded": _document(form)})
        return
    beside = "" if form is None else f", with {len(form.data)} bytes encoded for {model}"
    click.echo(f"packed {digest} as {output}, tag {tag}{beside}")


def _encode(directory: Path, home: Path, name: str, level: float) -> EncodedForm:
    try:
        model = BaseModel.load(home / "models" / name)
    except FileNotFoundError:
        raise CliError(
            f"model {name} is not prepared in {home}: `edgelora model list` shows those that are"
        ) from None
    except ValueError as error:
        raise CliError(f"model {name}: {error}") from error
    if model.is_encoder:
        raise CliError(
            f"adapters of an encoder such as {name} are kept exact: pack it without --model"
        )
    # Only now: packing the files alone takes no numpy.
    from edgelora.adapter_encoding import encode_adapter

    return encode_adapter(
        directory,
        base_digest=model.digest,
        targets=model.targets,
        num_layers=model.num_layers,
        level=level,
    )


def _document(form: EncodedForm | None) -> dict[str, Any] | None:
    if form is None:
        return None
    return {
        "base_digest": form.base_digest,
        "codec_version": form.codec_version,
        "size_bytes": len(form.data),
    }
