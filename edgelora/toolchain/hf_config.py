"""The numbers of a Hugging Face `config.json`."""

from __future__ import annotations

from typing import Any

from edgelora.toolchain.decoder_shape import DecoderShape
from edgelora.toolchain.errors import ToolchainError


def read_shape(config: dict[str, Any]) -> DecoderShape:
    """Reads the numbers of a served family. Raises ToolchainError for what is not served."""
    family = config["model_type"]
    # Qwen2's bias is part of the family and named by no flag.
    for flag in ("attention_bias", "mlp_bias"):
        if config.get(flag, False) and family != "qwen2":
            raise ToolchainError(f"the model has {flag}: not supported")
    if config.get("hidden_act", "silu") != "silu":
        raise ToolchainError("config.json: hidden_act must be 'silu'")
    try:
        heads = int(config["num_attention_heads"])
        hidden = int(config["hidden_size"])
        theta, scaling = _rope(config)
        window = _window(config)
        return DecoderShape(
            family=family,
            vocab_size=int(config["vocab_size"]),
            hidden_size=hidden,
            intermediate_size=int(config["intermediate_size"]),
            num_layers=int(config["num_hidden_layers"]),
            num_heads=heads,
            num_kv_heads=int(config.get("num_key_value_heads") or heads),
            head_dim=int(config.get("head_dim") or hidden // heads),
            max_context_tokens=int(config["max_position_embeddings"]) if window is None else window,
            rope_theta=theta,
            rope_scaling=scaling,
            rms_norm_eps=float(config["rms_norm_eps"]),
            tied_embeddings=bool(config.get("tie_word_embeddings", False)),
            sliding_window=window,
        )
    except KeyError as error:
        raise ToolchainError(f"config.json lacks {error.args[0]!r}") from error
    except ToolchainError:
        raise
    except (TypeError, ValueError, ArithmeticError) as error:
        raise ToolchainError("config.json has a size that is not a number") from error


def _rope(config: dict[str, Any]) -> tuple[float, dict[str, Any] | None]:
    """The base of the rotary frequencies, and their scaling in the words of `rope_scaling`."""
    parameters = dict(config.get("rope_parameters") or config.get("rope_scaling") or {})
    part = parameters.pop("partial_rotary_factor", config.get("partial_rotary_factor"))
    if part not in (None, 1.0):
        raise ToolchainError("the model rotates only part of a head: not supported")
    theta = float(parameters.pop("rope_theta", None) or config.get("rope_theta", 10000.0))
    kind = parameters.pop("type", "default")
    parameters.setdefault("rope_type", kind)
    if parameters["rope_type"] == "default":
        return theta, None
    parameters.setdefault(
        "original_max_position_embeddings", int(config["max_position_embeddings"])
    )
    return theta, parameters


def _window(config: dict[str, Any]) -> int | None:
    """The sliding window, where it is shorter than the context."""
    is_mistral = config["model_type"] == "mistral"
    # What transformers takes for a file that does not say.
    window = config.get("sliding_window", 4096 if is_mistral else None)
    slides = config.get("use_sliding_window", is_mistral)
    if not slides or window is None or int(window) >= int(config["max_position_embeddings"]):
        return None
    return int(window)
