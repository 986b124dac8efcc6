"""Adapters as PEFT writes them in the wild: any of its options, then whatever befalls the files."""

from __future__ import annotations

import copy
import json
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, PeftConfig, PeftModel, get_peft_model, initialize_lora_eva_weights
from safetensors.torch import load_file, save_file

from tests.support.tiny_families import VOCAB_SIZE

Tensors = dict[str, torch.Tensor]
CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"


@dataclass(frozen=True)
class Refusal:
    """How an adapter is turned away: the field, and words the message holds."""

    field: str
    words: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Wild:
    """One adapter: how PEFT makes it, what happens to it afterwards, and what comes of it."""

    options: dict[str, Any] = field(default_factory=dict)
    """Of LoraConfig; `r` 8, `lora_alpha` 16, q and v are taken where it says nothing."""
    config: Callable[[], PeftConfig] | None = None
    """In place of `options`; made anew for every use, because PEFT changes it."""
    family: str = "llama"
    changes: dict[str, Any] = field(default_factory=dict)
    """Of the base model's config, when it is another base than the one served."""
    name: str = "default"
    """The adapter's name inside PEFT."""
    is_bare_decoder: bool = False
    """Trained on the decoder without its output head."""
    train: Callable[[PeftModel], None] | None = None
    """In place of noise on every trained parameter."""
    save: Callable[[PeftModel, Path], None] | None = None
    """In place of PEFT's save_pretrained."""
    then: Callable[[Path], None] | None = None
    """What happens to the directory."""
    refused: Refusal | None = None
    """None: the answers equal PEFT's."""

    def peft_config(self) -> PeftConfig:
        """What PEFT is asked for."""
        if self.config is not None:
            return self.config()
        defaults = {
            "r": 8,
            "lora_alpha": 16,
            "target_modules": ["q_proj", "v_proj"],
            "task_type": "CAUSAL_LM",
        }
        return LoraConfig(**{**defaults, **self.options})


@contextmanager
def quiet() -> Iterator[None]:
    """Hides PEFT's remarks on options that are unusual on purpose."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@quiet()
def write(wild: Wild, base: torch.nn.Module, out: Path) -> Path:
    """Has PEFT make and save the adapter of a base model, which stays as it is.

    Returns the directory that a user would upload.
    """
    torch.manual_seed(23)
    model: Any = copy.deepcopy(base)
    if wild.is_bare_decoder:
        model = model.model
    adapted: Any = get_peft_model(model, wild.peft_config(), adapter_name=wild.name)
    (wild.train or add_noise)(adapted)
    if wild.save is None:
        adapted.save_pretrained(str(out))
    else:
        wild.save(adapted, out)
    directory = next(out.rglob(CONFIG)).parent
    if wild.then is not None:
        wild.then(directory)
    return directory


@torch.no_grad()
def add_noise(adapted: torch.nn.Module) -> None:
    """Stands for training: every trained parameter moves."""
    for parameter in adapted.parameters():
        if parameter.requires_grad:
            parameter += 0.1 * torch.randn_like(parameter)


def leave_untrained(_adapted: torch.nn.Module) -> None:
    """Factors as they are at the start."""


def start_with_eva(adapted: PeftModel) -> None:
    """The data-driven start of EVA on random text (arXiv 2410.07170), then training."""
    shape = (2, 16)
    batches = [
        {
            "input_ids": torch.randint(3, VOCAB_SIZE, shape),
            "attention_mask": torch.ones(shape, dtype=torch.long),
        }
        for _ in range(8)
    ]
    initialize_lora_eva_weights(adapted, batches, show_progress_bar=False)
    add_noise(adapted)


def train_and_convert(init: str) -> Callable[[PeftModel, Path], None]:
    """Trains an adapter that took its start from the base; saves the plain one it amounts to."""

    def save(adapted: PeftModel, out: Path) -> None:
        config: Any = adapted.peft_config["default"]
        start = str(out.with_name("start"))
        config.init_lora_weights = True
        adapted.save_pretrained(start)
        config.init_lora_weights = init
        add_noise(adapted)
        adapted.save_pretrained(str(out), path_initial_model_for_weight_conversion=start)

    return save


def save_sum_of_two(adapted: PeftModel, out: Path) -> None:
    """Adds a second adapter, and saves both together as one, of the ranks' sum."""
    adapted.add_adapter("second", LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj"]))
    adapted.set_adapter("second")
    add_noise(adapted)
    adapted.add_weighted_adapter(["default", "second"], [0.7, 0.5], "sum", combination_type="cat")
    adapted.save_pretrained(str(out), selected_adapters=["sum"])


def save_again(adapted: PeftModel, out: Path) -> None:
    """Saved, loaded and saved once more."""
    once = str(out.with_name("once"))
    adapted.save_pretrained(once)
    base: Any = copy.deepcopy(adapted).unload()
    PeftModel.from_pretrained(base, once).save_pretrained(str(out))


def pickled(adapted: PeftModel, out: Path) -> None:
    """The old format."""
    adapted.save_pretrained(str(out), safe_serialization=False)


def with_embeddings(adapted: PeftModel, out: Path) -> None:
    """What PEFT does by itself after tokens were added."""
    adapted.save_pretrained(str(out), save_embedding_layers=True)


def edit_config(**changes: Any) -> Callable[[Path], None]:
    """Sets keys of the saved config; `...` removes one."""

    def then(directory: Path) -> None:
        document = {**json.loads((directory / CONFIG).read_text()), **changes}
        kept = {key: value for key, value in document.items() if value is not ...}
        (directory / CONFIG).write_text(json.dumps(kept))

    return then


def edit_tensors(edit: Callable[[Tensors], Tensors]) -> Callable[[Path], None]:
    """Changes the saved tensors."""

    def then(directory: Path) -> None:
        tensors = edit(load_file(directory / WEIGHTS))
        save_file(
            {name: value.contiguous() for name, value in tensors.items()}, directory / WEIGHTS
        )

    return then


def cast(*types: torch.dtype) -> Callable[[Path], None]:
    """Stores the tensors in these types, in turn."""
    return edit_tensors(
        lambda tensors: {
            name: value.to(types[index % len(types)])
            for index, (name, value) in enumerate(tensors.items())
        }
    )


def rename_keys(old: str, new: str) -> Callable[[Path], None]:
    """Replaces a part of every tensor's name."""
    return edit_tensors(
        lambda tensors: {name.replace(old, new): value for name, value in tensors.items()}
    )


def spoil(value: float) -> Callable[[Path], None]:
    """Puts one number into the first tensor."""

    def edit(tensors: Tensors) -> Tensors:
        next(iter(tensors.values())).view(-1)[0] = value
        return tensors

    return edit_tensors(edit)


def add_files(**files: str) -> Callable[[Path], None]:
    """Puts files beside the adapter; `__` in a name stands for a dot."""

    def then(directory: Path) -> None:
        for name, text in files.items():
            (directory / name.replace("__", ".")).write_text(text)

    return then


def move(old: str, new: str) -> Callable[[Path], None]:
    """Renames a file of the directory."""
    return lambda directory: (directory / old).rename(directory / new)


def replace_weights(content: bytes) -> Callable[[Path], None]:
    """Saves something else under the name of the weights."""
    return lambda directory: (directory / WEIGHTS).write_bytes(content)


def shard(directory: Path) -> None:
    """Two files and an index, as transformers does with large models."""
    tensors = load_file(directory / WEIGHTS)
    (directory / WEIGHTS).unlink()
    names = sorted(tensors)
    places = {}
    for part in range(2):
        file = f"adapter_model-{part + 1:05}-of-00002.safetensors"
        chosen = names[part::2]
        save_file({name: tensors[name] for name in chosen}, directory / file)
        places.update(dict.fromkeys(chosen, file))
    index = {"metadata": {}, "weight_map": places}
    (directory / f"{WEIGHTS}.index.json").write_text(json.dumps(index))
