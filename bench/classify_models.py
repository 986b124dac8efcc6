"""What `classify` serves: an adapter for each task, and the same task as a whole model.

The tasks are adapters of the trained one's shape around the trained one itself: its factors, each
multiplied by random numbers near 1, so that none equals another and all do real work.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from edgelora.adapter_format.encoder import EncoderAdapter, read_encoder_adapter
from edgelora.adapter_format.head import FILE as HEAD_FILE
from edgelora.toolchain.prepare import prepare
from services.chassis.base_model import FLOAT32_FILE, BaseModel

Weights = dict[str, NDArray[np.float32]]
CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
MAX_RANK = 64
_PATHS = {"query": "attention.self.query", "key": "attention.self.key"}
_PATHS["value"] = "attention.self.value"


def read_adapter(directory: Path, base: BaseModel) -> EncoderAdapter:
    """Reads a trained adapter as the encoder worker does."""
    return read_encoder_adapter(
        (directory / CONFIG).read_bytes(),
        (directory / WEIGHTS).read_bytes(),
        (directory / HEAD_FILE).read_bytes(),
        targets=base.targets,
        num_layers=base.num_layers,
        hidden_size=base.hidden_size,
        max_rank=MAX_RANK,
    )


def write_tasks(trained: Path, place: Path, count: int, seed: int) -> list[Path]:
    """Writes `count` adapters below `place`; the first one is the trained one as it is."""
    rng = np.random.default_rng(seed)
    tensors = load_file(trained / WEIGHTS)
    directories = []
    for number in range(count):
        directory = place / f"adapter-{number}"
        directory.mkdir(parents=True)
        for name in (CONFIG, HEAD_FILE):
            shutil.copy(trained / name, directory / name)
        changed = {
            name: values
            if number == 0
            else (values * rng.uniform(0.9, 1.1, values.shape)).astype(values.dtype)
            for name, values in tensors.items()
        }
        save_file(changed, directory / WEIGHTS, metadata={"format": "pt"})
        directories.append(directory)
    return directories


def write_merged(base_directory: Path, adapter: Path, directory: Path) -> None:
    """Writes the whole model that base and adapter are together, as Hugging Face has it."""
    base = BaseModel.load(base_directory)
    weights: Weights = load_file(base_directory / FLOAT32_FILE)
    for (layer, module), pair in read_adapter(adapter, base).weights.pairs.items():
        name = f"encoder.layer.{layer}.{_PATHS.get(module, module)}.weight"
        weights[name] = weights[name] + pair.scaling * (pair.lora_b @ pair.lora_a)
    directory.mkdir(parents=True)
    save_file(weights, directory / FLOAT32_FILE, metadata={"format": "pt"})
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        shutil.copy(base_directory / name, directory / name)
    config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    config["architectures"] = ["BertModel"]
    (directory / "config.json").write_text(json.dumps(config), encoding="utf-8")


def prepare_merged(directory: Path, home: Path, name: str) -> Path:
    """Prepares a whole model for the native core; returns where."""
    prepare(directory, home, name, weights="native")
    return home / "models" / name
