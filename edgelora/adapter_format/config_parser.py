"""Strict reading of adapter_config.json: an allow-list, bounds, and a reason for every refusal."""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import Any, Literal

from edgelora.adapter_format.architecture import DECODER, Architecture
from edgelora.adapter_format.config import ALL_LINEAR, NO_TARGETS, AdapterConfig
from edgelora.adapter_format.naming import is_plain_name, shown
from edgelora.adapter_format.strict_json import parse_object
from edgelora.error_tree import AdapterRejectedError

FILE = "adapter_config.json"
MAX_CONFIG_BYTES = 1 << 20
MAX_ALPHA = 1e6
"""Keeps scaling x factors finite in float32; real adapters stay below 1,000."""
MAX_LIST_ENTRIES = 4096
"""Entries of target_modules, rank_pattern and the like; a 100-layer model has 700 modules."""

_READ = {
    "peft_type", "task_type", "r", "lora_alpha", "lora_dropout", "use_rslora", "fan_in_fan_out",
    "rank_pattern", "alpha_pattern", "target_modules", "exclude_modules", "layers_to_transform",
    "layers_pattern", "bias", "init_lora_weights", "modules_to_save", "auto_mapping",
}  # fmt: skip
_IGNORED_TEXT = {"base_model_name_or_path", "revision", "peft_version"}
"""Provenance. Never followed, never stored."""
_IGNORED_FLAGS = {"inference_mode"}
_IGNORED_OBJECTS = {"eva_config"}
"""How training started, which leaves no trace but the factors."""
_INACTIVE_DEFAULTS: dict[str, object] = {
    # PEFT writes these even when the feature they belong to is off.
    "megatron_core": "megatron.core",
    "qalora_group_size": 16,
}
_REASONS = {
    "use_dora": "DoRA is not served: train with use_dora false",
    "lora_bias": "biases are not served: train with lora_bias false",
    "trainable_token_indices": "trained token rows are not served: train without "
    "trainable_token_indices",
    "target_parameters": "LoRA on bare parameters is not served: list linear modules in "
    "target_modules",
    "layer_replication": "layer replication would change the shared base model: train without it",
    "megatron_config": "nothing is ever imported for an adapter: remove the field",
    "megatron_core": "nothing is ever imported for an adapter: remove the field",
    "loftq_config": "this initialisation would change the shared base model: train with the "
    "default",
    "corda_config": "this initialisation would change the shared base model: convert the adapter "
    "to plain LoRA when saving it, or train with the default",
    "auto_map": "nothing is ever imported for an adapter: remove the field",
    "trust_remote_code": "nothing is ever imported for an adapter: remove the field",
}
_HARMLESS_INITS = ("gaussian", "orthogonal", "eva")
"""Ways to start training that leave the base weights alone. PiSSA, OLoRA, LoftQ and others
subtract from the base, so their factors mean nothing beside an unchanged base."""


def refuse(key: str, why: str) -> AdapterRejectedError:
    """The refusal of one field of the configuration.

    The message names any harmless key; `field` only those of ours, because fields are logged.
    """
    is_ours = key in _READ or key in _REASONS
    return AdapterRejectedError(
        f"{FILE}: {shown(key)}: {why}", field=f"config.{key}" if is_ours else "config"
    )


def parse_adapter_config(
    data: bytes, *, max_rank: int, architecture: Architecture = DECODER
) -> AdapterConfig:
    """Reads the bytes of an adapter_config.json as PEFT writes it.

    Fields of newer trainers are ignored while they hold nothing (null, false, empty) and refused
    by name when they hold a value. Raises AdapterRejectedError with `field` set.
    """
    if not data:
        raise AdapterRejectedError(f"{FILE} is missing or empty", field="config")
    if len(data) > MAX_CONFIG_BYTES:
        raise AdapterRejectedError(
            f"{FILE} has {len(data)} bytes, the limit is {MAX_CONFIG_BYTES}", field="config"
        )
    document = parse_object(data, field=FILE)
    _check_kind(document, architecture)
    _check_unread(document)
    saves_classifier = _saves_classifier(document, architecture)
    _check_training_side(document, architecture)
    targets = _targets(document, architecture, may_be_empty=saves_classifier)
    return AdapterConfig(
        rank=_rank(document.get("r"), "r", max_rank),
        alpha=_alpha(document.get("lora_alpha"), "lora_alpha"),
        target_modules=targets,
        use_rslora=_flag(document, "use_rslora"),
        fan_in_fan_out=_flag(document, "fan_in_fan_out"),
        rank_pattern=MappingProxyType(
            {
                key: _rank(value, "rank_pattern", max_rank, module=key)
                for key, value in _patterns(document, "rank_pattern").items()
            }
        ),
        alpha_pattern=MappingProxyType(
            {
                key: _alpha(value, "alpha_pattern", module=key)
                for key, value in _patterns(document, "alpha_pattern").items()
            }
        ),
        exclude_modules=_names(document.get("exclude_modules"), "exclude_modules", architecture),
        layers_to_transform=_layers(document),
        saves_classifier=saves_classifier,
    )


def _check_kind(document: dict[str, Any], architecture: Architecture) -> None:
    if document.get("peft_type") != "LORA":
        raise refuse("peft_type", 'only "LORA" is served: train with LoraConfig')
    task_types = architecture.task_types
    if document.get("task_type") not in (None, *task_types):
        names = ", ".join(f'"{name}"' for name in task_types)
        raise refuse("task_type", f"only {names} (or null) is served")
    if not _holds_nothing(document.get("auto_mapping")):
        raise refuse(
            "auto_mapping",
            "nothing is ever imported for an adapter: set it to null, and task_type to "
            f"{task_types[0]}",
        )


def _saves_classifier(document: dict[str, Any], architecture: Architecture) -> bool:
    """Whether the classifier is among the tensors; every other full copy is refused."""
    saved = document.get("modules_to_save")
    if not _holds_nothing(saved):
        known = architecture.saved_modules
        if not known:
            raise refuse(
                "modules_to_save",
                "full copies of modules are not served: train without modules_to_save",
            )
        if not isinstance(saved, list) or not all(isinstance(name, str) for name in saved):
            raise refuse("modules_to_save", "has to be a list of module names")
        others = sorted({shown(name) for name in saved if name not in known})
        if others:
            raise refuse(
                "modules_to_save",
                f"a full copy of {others[0]} is not served, only a classifier: train without it",
            )
        return True
    return document.get("task_type") == "SEQ_CLS"


def _holds_nothing(value: Any) -> bool:
    if isinstance(value, dict):
        return all(entry is None or entry is False for entry in value.values())
    return value is None or value is False or value in ("", [])


def _check_unread(document: dict[str, Any]) -> None:
    for key, value in document.items():
        if key in _READ or _holds_nothing(value):
            continue
        if key in _INACTIVE_DEFAULTS and _INACTIVE_DEFAULTS[key] == value:
            continue
        if key in _IGNORED_TEXT and isinstance(value, str):
            continue
        if key in _IGNORED_FLAGS and value is True:
            continue
        if key in _IGNORED_OBJECTS and isinstance(value, dict):
            continue
        raise refuse(key, _REASONS.get(key, "this option is not served: remove it and retrain"))


def _check_training_side(document: dict[str, Any], architecture: Architecture) -> None:
    if document.get("bias", "none") != "none":
        raise refuse("bias", 'biases are not served: train with bias "none"')
    dropout = document.get("lora_dropout", 0.0)
    if not _is_number(dropout) or not 0 <= dropout <= 1:
        raise refuse("lora_dropout", "has to be a number from 0 to 1")
    init = document.get("init_lora_weights", True)
    if not isinstance(init, bool) and init not in _HARMLESS_INITS:
        raise refuse(
            "init_lora_weights",
            "this initialisation may change the shared base model: convert the adapter to plain "
            "LoRA when saving it, or train with the default",
        )
    pattern = architecture.layers_pattern
    if document.get("layers_pattern") not in (None, "", [], pattern, [pattern]):
        raise refuse("layers_pattern", f'only "{pattern}" is served')
    if document.get("layers_pattern") and document.get("layers_to_transform") is None:
        raise refuse("layers_pattern", "means nothing without layers_to_transform: set it to null")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _flag(document: dict[str, Any], key: str) -> bool:
    value = document.get(key, False)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise refuse(key, "has to be true or false")
    return value


def _rank(value: Any, key: str, max_rank: int, module: str | None = None) -> int:
    where = "" if module is None else f"the entry for {shown(module)} "
    if isinstance(value, bool) or not isinstance(value, int):
        raise refuse(key, f"{where}has to be a whole number from 1 to {max_rank}")
    if value < 1:
        raise refuse(key, f"{where}is below 1")
    if value > max_rank:
        rank = str(value) if value < 10**9 else "huge"
        raise refuse(key, f"{where}asks for rank {rank}, this node serves at most {max_rank}")
    return value


def _alpha(value: Any, key: str, module: str | None = None) -> float:
    where = "" if module is None else f"the entry for {shown(module)} "
    if value is None:
        raise refuse(key, f"{where}is missing: the scaling can not be guessed")
    # Compared before float(): a JSON integer may be too large for one. NaN fails both.
    if not _is_number(value) or not 0 < value <= MAX_ALPHA or not math.isfinite(value):
        raise refuse(key, f"{where}has to be a number above 0 and at most {MAX_ALPHA:.0f}")
    return float(value)


def _names(value: Any, key: str, architecture: Architecture) -> frozenset[str]:
    told = f"patterns are not served: list plain module names, such as {architecture.example}"
    if value is None or value == "":
        return frozenset()
    # To PEFT a text is a pattern, also when it looks like a name.
    if isinstance(value, str):
        raise refuse(key, told)
    if not isinstance(value, list) or len(value) > MAX_LIST_ENTRIES:
        raise refuse(key, f"has to be a list of at most {MAX_LIST_ENTRIES} module names")
    if not all(isinstance(entry, str) and is_plain_name(entry) for entry in value):
        raise refuse(key, told)
    return frozenset(value)


def _targets(
    document: dict[str, Any], architecture: Architecture, *, may_be_empty: bool
) -> frozenset[str] | Literal["all-linear"]:
    value = document.get("target_modules")
    if isinstance(value, str) and value.lower() == ALL_LINEAR:
        return ALL_LINEAR
    names = _names(None if value == NO_TARGETS else value, "target_modules", architecture)
    if not names and not may_be_empty:
        raise refuse("target_modules", "is missing or empty: list the adapted modules")
    return names


def _patterns(document: dict[str, Any], key: str) -> dict[str, Any]:
    value = document.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict) or len(value) > MAX_LIST_ENTRIES:
        raise refuse(key, f"has to be an object of at most {MAX_LIST_ENTRIES} entries")
    for name in value:
        if not is_plain_name(name.removeprefix("^")):
            raise refuse(key, "regular expressions are not served: use plain module names as keys")
    return value


def _layers(document: dict[str, Any]) -> tuple[int, ...] | None:
    value = document.get("layers_to_transform")
    if value is None:
        return None
    if isinstance(document.get("target_modules"), str):
        raise refuse("layers_to_transform", "needs target_modules as a list of module names")
    if value == []:
        return None
    entries = value if isinstance(value, list) else [value]
    if len(entries) > MAX_LIST_ENTRIES or not all(
        isinstance(entry, int) and not isinstance(entry, bool) and 0 <= entry < MAX_LIST_ENTRIES
        for entry in entries
    ):
        raise refuse("layers_to_transform", "has to be a layer index or a list of them")
    return tuple(sorted(set(entries)))
