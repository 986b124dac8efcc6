"""The model that `edgelora up` serves: prepares what is missing, and says when torch computes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from edgelora.cli.errors import CliError
from services.chassis.base_model import DEFAULT_NAME, FORMS, BaseModel
from services.chassis.native_core import native_core_obstacle
from services.chassis.settings import ConfigError
from services.inference.backends.choice import choose_backend
from services.inference.config import BACKENDS, PREFIX


def wanted_backend(environ: Mapping[str, str]) -> str:
    """The back end that the worker's settings ask for, checked by nobody yet."""
    return environ.get(f"{PREFIX}BACKEND", "").strip() or "auto"


def ensure_model(
    home: Path, name: str, environ: Mapping[str, str], say: Callable[[str], None]
) -> None:
    """Adds the weights that the best back end of this machine needs, where their source is known.

    `say` takes remarks for people. Raises CliError when nothing can serve the model, and
    ToolchainError when it cannot be prepared.
    """
    directory = home / "models" / name
    wanted = wanted_backend(environ)
    if wanted not in BACKENDS:
        return  # the worker says which there are
    is_native = wanted == "native" or (wanted == "auto" and native_core_obstacle() is None)
    _add_form("native" if is_native else "float32", directory, say)
    try:
        choice = choose_backend(wanted, directory)
    except ConfigError as error:
        raise CliError(str(error)) from error
    if choice.name == "torch":
        say(f"torch computes, several times slower than the native core: {choice.reason}")


def _add_form(form: str, directory: Path, say: Callable[[str], None]) -> None:
    home, name = directory.parents[1], directory.name
    try:
        model = BaseModel.load(directory)
    except FileNotFoundError:
        model = None
    except ValueError as error:
        raise CliError(f"model {name}: {error}") from error
    if model is not None and FORMS[form] in model.files:
        return
    if model is None and name != DEFAULT_NAME:
        raise CliError(
            f"model {name} is not prepared: run `edgelora model prepare SOURCE --name {name}`"
        )
    # Imported only now: later starts do not need the tool chain.
    from edgelora.toolchain.errors import ToolchainError
    from edgelora.toolchain.prepare import DEFAULT_SOURCE, known_source, prepare

    if model is None:
        prepare(DEFAULT_SOURCE, home, name, weights=form)
    elif (source := known_source(model)) is not None:
        try:
            prepare(source, home, name, weights=form)
        except ToolchainError as error:
            say(f"{FORMS[form]} could not be added to {name}: {error}")
