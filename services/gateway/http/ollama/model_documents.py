"""How this dialect describes models: the base models, and adapters as models made from it. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp

from edgelora.adapter_names import AUTO
from edgelora.v1.adapter_pb2 import Adapter
from edgelora.v1.encoder_service_pb2 import GetEncoderResponse
from edgelora.v1.inference_service_pb2 import GetModelResponse
from services.chassis.generation_limits import DEFAULT_MAX_TOKENS
from services.gateway.front_door import BaseModel
from services.gateway.http.ollama.model_tags import tagged

_PARAMETERS = {"temperature": "0", "num_predict": str(DEFAULT_MAX_TOKENS)}
"""What holds where a request says nothing."""
_NEVER = "9999-12-31T23:59:59Z"


def base_entry(model: BaseModel) -> dict[str, Any]:
    """The base model in a list. When it was made is not known: the epoch stands for that."""
    return {
        **_naming(tagged(model.name), model.digest),
        "modified_at": _time(Timestamp()),
        "size": model.weights_bytes,
        "details": _details(model),
    }


def auto_entry(model: GetModelResponse) -> dict[str, Any]:
    """The router's choice of an adapter in a list."""
    entry = base_entry(model)
    details = entry["details"] | {"parent_model": entry["model"]}
    return entry | _naming(tagged(AUTO), model.digest) | {"details": details}


def adapter_entries(adapter: Adapter, model: BaseModel) -> Iterator[dict[str, Any]]:
    """An adapter in a list, once for each of its names."""
    for name in adapter.aliases or [adapter.digest]:
        yield {
            **_naming(tagged(name), adapter.digest),
            "modified_at": _time(adapter.registered_at),
            "size": adapter.size_bytes,
            "details": _details(model, adapter),
        }


def running_entry(model: BaseModel) -> dict[str, Any]:
    """The base model among those that are loaded, where it always is."""
    entry = base_entry(model)
    del entry["modified_at"]
    return entry | {"expires_at": _NEVER, "context_length": model.max_context_tokens}


def shown(model: BaseModel, adapter: Adapter | None) -> dict[str, Any]:
    """Everything about a model. Its chat template stays here: clients need it for nothing."""
    lines = [f"FROM {tagged(model.name)}"]
    if adapter is not None:
        lines.append(f"ADAPTER {adapter.digest}")
    is_encoder = isinstance(model, GetEncoderResponse)
    parameters = {} if is_encoder else _PARAMETERS
    lines += [f"PARAMETER {name} {value}" for name, value in parameters.items()]
    return {
        "modelfile": "\n".join(lines) + "\n",
        "parameters": "\n".join(f"{name} {value}" for name, value in parameters.items()),
        "template": "",
        "details": _details(model, adapter),
        "model_info": _info(model, adapter),
        "capabilities": ["embedding"] if is_encoder else ["completion", "tools"],
        "modified_at": _time(adapter.registered_at if adapter is not None else Timestamp()),
    }


def _naming(name: str, digest: str) -> dict[str, str]:
    return {"name": name, "model": name, "digest": digest.removeprefix("sha256:")}


def _details(model: BaseModel, adapter: Adapter | None = None) -> dict[str, Any]:
    if adapter is None:
        bits = model.weights_bytes * 8 / model.num_parameters if model.num_parameters else 0.0
        made_of = {
            "parent_model": "",
            "format": model.backend,
            "parameter_size": _count(model.num_parameters),
            "quantization_level": f"{bits:.1f} bits",
        }
    else:
        made_of = {
            "parent_model": tagged(model.name),
            "format": "safetensors",
            "parameter_size": _count(adapter.num_parameters),
            "quantization_level": "",
        }
    return {**made_of, "family": model.family, "families": [model.family]}


def _info(model: BaseModel, adapter: Adapter | None) -> dict[str, Any]:
    """Keys as GGUF names them."""
    info: dict[str, Any] = {
        "general.architecture": model.family,
        "general.basename": model.name,
        "general.parameter_count": model.num_parameters,
        f"{model.family}.context_length": model.max_context_tokens,
    }
    if isinstance(model, GetEncoderResponse):
        info[f"{model.family}.embedding_length"] = model.hidden_size
    else:
        info[f"{model.family}.block_count"] = model.num_layers
        info[f"{model.family}.vocab_size"] = model.vocab_size
    if adapter is not None:
        info |= {
            "general.description": adapter.description,
            "adapter.type": "lora",
            "adapter.lora.alpha": adapter.alpha,
            "adapter.lora.rank": adapter.rank,
        }
    return info


def _count(number: int) -> str:
    """134.48M, as people write parameters."""
    for size, letter in ((10**9, "B"), (10**6, "M"), (10**3, "K")):
        if number >= size:
            return f"{number / size:.2f}{letter}"
    return str(number)


def _time(moment: Timestamp) -> str:
    return moment.ToJsonString()
