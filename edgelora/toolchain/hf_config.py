"""The numbers of a Hugging Face `config.json`."""

from __future__ import annotations

from typing import Any

from edgelora.toolchain.decoder_shape import DecoderShape, is_count
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
    tied = config.get("tie_word_embeddings")
    if tied not in (None, True, False):
        raise ToolchainError("config.json: tie_word_embeddings must be true or false")
    try:
        heads = _count(config, "num_attention_heads")
        hidden = _count(config, "hidden_size")
        context = _count(config, "max_position_embeddings")
        theta, scaling = _rope(config, context)
        window = _window(config, context)
        return DecoderShape(
            family=family,
            vocab_size=_count(config, "vocab_size"),
            hidden_size=hidden,
            intermediate_size=_count(config, "intermediate_size"),
            num_layers=_count(config, "num_hidden_layers"),
            num_heads=heads,
            num_kv_heads=_count(config, "num_key_value_heads", heads),
            head_dim=_count(config, "head_dim", hidden // max(heads, 1)),
            max_context_tokens=context if window is None else window,
            rope_theta=theta,
            rope_scaling=scaling,
            rms_norm_eps=_real(config["rms_norm_eps"]),
            tied_embeddings=bool(tied),
            sliding_window=window,
        )
    except KeyError as error:
        raise ToolchainError(f"config.json lacks {error.args[0]!r}") from error
    except ToolchainError:
        raise
    except (TypeError, ValueError, ArithmeticError) as error:
        raise ToolchainError("config.json has a size that is not a number") from error


def _count(config: dict[str, Any], name: str, default: int | None = None) -> int:
    """A whole number; null counts as missing."""
    value = config.get(name)
    if value is None:
        if default is None:
            raise KeyError(name)
        return default
    if not is_count(value):
        raise TypeError
    return int(value)


def _real(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError
    return float(value)


def _rope(config: dict[str, Any], context: int) -> tuple[float, dict[str, Any] | None]:
    """The base of the rotary frequencies, and their scaling in the words of `rope_scaling`."""
    parameters = dict(config.get("rope_parameters") or config.get("rope_scaling") or {})
    part = parameters.pop("partial_rotary_factor", config.get("partial_rotary_factor"))
    if part not in (None, 1.0):
        raise ToolchainError("the model rotates only part of a head: not supported")
    theta = parameters.pop("rope_theta", None)
    theta = _real(config.get("rope_theta", 10000.0) if theta is None else theta)
    kind = parameters.pop("type", "default")
    parameters.setdefault("rope_type", kind)
    if parameters["rope_type"] == "default":
        return theta, None
    parameters.setdefault("original_max_position_embeddings", context)
    return theta, parameters


def _window(config: dict[str, Any], context: int) -> int | None:
    """The sliding window, where it is shorter than the context."""
    is_mistral = config["model_type"] == "mistral"
    slides = config.get("use_sliding_window", is_mistral)
    # What transformers takes for a Mistral that does not say; null there means none.
    if not slides or config.get("sliding_window", 0 if is_mistral else None) is None:
        return None
    window = _count(config, "sliding_window", 4096)
    return window if window < context else None
