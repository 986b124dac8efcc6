"""The models that `edgelora up` serves: prepares what is missing, says when torch computes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from edgelora.cli.errors import CliError
from services.chassis.base_model import DEFAULT_ENCODER_NAME, DEFAULT_NAME, FORMS, BaseModel
from services.chassis.native_core import native_core_obstacle
from services.chassis.settings import ConfigError
from services.inference.backends.choice import BackendChoice, choose_backend
from services.inference.config import BACKENDS, PREFIX
from services.inference.encoder.choice import choose_encoder_backend
from services.inference.encoder.config import PREFIX as ENCODER_PREFIX


def wanted_backend(environ: Mapping[str, str], prefix: str = PREFIX) -> str:
    """The back end that the worker's settings ask for, checked by nobody yet."""
    return environ.get(f"{prefix}BACKEND", "").strip() or "auto"


def ensure_model(
    home: Path, name: str, environ: Mapping[str, str], say: Callable[[str], None]
) -> None:
    """Adds a decoder's weights for the best back end of this machine, where their source is known.

    `say` takes remarks for people. Raises CliError when nothing can serve the model, and
    ToolchainError when it cannot be prepared.
    """
    _ensure(home / "models" / name, wanted_backend(environ), choose_backend, say)


def ensure_encoder(
    home: Path, name: str, environ: Mapping[str, str], say: Callable[[str], None]
) -> None:
    """The same for an encoder."""
    wanted = wanted_backend(environ, ENCODER_PREFIX)
    _ensure(home / "models" / name, wanted, choose_encoder_backend, say)


def _ensure(
    directory: Path,
    wanted: str,
    choose: Callable[[str, Path], BackendChoice],
    say: Callable[[str], None],
) -> None:
    if wanted not in BACKENDS:
        return  # the worker says which there are
    is_native = wanted == "native" or (wanted == "auto" and native_core_obstacle() is None)
    is_encoder = choose is choose_encoder_backend
    _add_form("native" if is_native else "float32", directory, say, is_encoder=is_encoder)
    try:
        choice = choose(wanted, directory)
    except ConfigError as error:
        raise CliError(str(error)) from error
    if choice.name == "torch":
        say(f"torch computes, several times slower than the native core: {choice.reason}")


def _add_form(form: str, directory: Path, say: Callable[[str], None], *, is_encoder: bool) -> None:
    home, name = directory.parents[1], directory.name
    try:
        model = BaseModel.load(directory)
    except FileNotFoundError:
        model = None
    except ValueError as error:
        raise CliError(f"model {name}: {error}") from error
    if model is not None and model.is_encoder != is_encoder:
        kind, option = ("a decoder", "--model") if is_encoder else ("an encoder", "--encoder")
        raise CliError(f"model {name} is {kind}: name it with {option}")
    if model is not None and FORMS[form] in model.files:
        return
    if model is None and name != (DEFAULT_ENCODER_NAME if is_encoder else DEFAULT_NAME):
        raise CliError(
            f"model {name} is not prepared: run `edgelora model prepare SOURCE --name {name}`; "
            "`edgelora model list` shows those that are"
        )
    # Imported only now: later starts do not need the tool chain.
    from edgelora.toolchain.errors import ToolchainError
    from edgelora.toolchain.prepare import (
        DEFAULT_ENCODER_SOURCE,
        DEFAULT_SOURCE,
        known_source,
        prepare,
    )

    if model is None:
        source = DEFAULT_ENCODER_SOURCE if is_encoder else DEFAULT_SOURCE
        prepare(source, home, name, weights=form)
    elif (known := known_source(model)) is not None:
        try:
            prepare(known, home, name, weights=form)
        except ToolchainError as error:
            say(f"{FORMS[form]} could not be added to {name}: {error}")
