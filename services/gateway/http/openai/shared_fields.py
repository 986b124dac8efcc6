"""The fields that the generating paths share, read into the messages of the front door."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from edgelora.v1.generation_pb2 import GenerationOptions, SamplingParams, StopConditions
from services.gateway.http.extensions import Extensions, read_extensions
from services.gateway.http.field_names import Rename, by_prefix
from services.gateway.http.json_fields import Fields
from services.gateway.http.model_names import selections_of

_MAX_UINT32 = 2**32 - 1
_MAX_INT64 = 2**63 - 1
_NUMBERS = (
    "temperature",
    "top_p",
    "min_p",
    "repetition_penalty",
    "presence_penalty",
    "frequency_penalty",
)
_HARMLESS = (
    "metadata",
    "moderation",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "safety_identifier",
    "service_tier",
    "store",
)
"""Taken and without effect: nothing is stored here, and there is one tier."""
_NAMES = {
    "options.sampling.": "",
    "options.stop.": "",
    "options.stop.stop_strings": "stop",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedFields:
    """What a request says, whichever path it came by."""

    model: str
    """As the client wrote it; it is a name of the caller's once the request was accepted."""
    extensions: Extensions
    options: GenerationOptions
    is_streamed: bool
    includes_usage: bool
    names: Mapping[str, str]
    """What the front door calls a field -> what the client called it."""

    def rename(self, more: Mapping[str, str]) -> Rename:
        """For errors, with further names."""
        return by_prefix({**_NAMES, **self.names, **more})


def read_shared(
    fields: Fields, base_name: str, other_name: str = "", *, max_tokens: tuple[str, ...]
) -> SharedFields:
    """Reads them; the names are as in `selections_of`.

    `max_tokens` are the names a path has for it, of which one may be given.

    Raises InvalidRequestError.
    """
    extensions = read_extensions(fields, lambda name: selections_of(name, base_name, other_name))
    options = GenerationOptions(sampling=_sampling(fields), stop=StopConditions())
    options.stop.stop_strings.extend(fields.text_or_texts("stop") or ())
    options.stop.stop_token_ids.extend(_stop_token_ids(fields))
    max_tokens_name = _read_max_tokens(fields, options, max_tokens)
    for name in ("n", "best_of"):
        if fields.integer(name, 0) not in (None, 1):
            raise fields.invalid(name, "must be 1: a request has one answer here")
    is_streamed = fields.boolean("stream") or False
    fields.ignore(*_HARMLESS)
    return SharedFields(
        model=fields.required_text("model"),
        extensions=extensions,
        options=options,
        is_streamed=is_streamed,
        includes_usage=_includes_usage(fields, is_streamed=is_streamed),
        names={**extensions.names, "options.stop.max_tokens": max_tokens_name},
    )


def _sampling(fields: Fields) -> SamplingParams:
    sampling = SamplingParams()
    for name in _NUMBERS:
        value = fields.number(name)
        if value is not None:
            setattr(sampling, name, value)
    top_k = fields.integer("top_k", -1, _MAX_UINT32)
    if top_k is not None and top_k > 0:  # vLLM: 0 and -1 keep all
        sampling.top_k = top_k
    seed = fields.integer("seed", -_MAX_INT64, _MAX_INT64)
    if seed is not None:
        sampling.seed = seed % 2**64
    if fields.document("logit_bias"):
        raise fields.invalid("logit_bias", "is not served: leave it out")
    return sampling


def _stop_token_ids(fields: Fields) -> list[int]:
    token_ids = fields.items("stop_token_ids") or []
    for token_id in token_ids:
        is_number = isinstance(token_id, int) and not isinstance(token_id, bool)
        if not is_number or not 0 <= token_id <= _MAX_UINT32:
            raise fields.invalid("stop_token_ids", "must be a list of token ids")
    return token_ids


def _read_max_tokens(fields: Fields, options: GenerationOptions, names: tuple[str, ...]) -> str:
    """Reads the one that is given, and returns its name."""
    given = [name for name in names if fields.has(name)]
    if len(given) > 1:
        raise fields.invalid(given[0], f"goes with no {given[1]}: they mean the same")
    for name in names:
        value = fields.integer(name, 1)
        if value is not None:
            # More than the context holds is clipped to it.
            options.stop.max_tokens = min(value, _MAX_UINT32)
    return given[0] if given else names[0]


def _includes_usage(fields: Fields, *, is_streamed: bool) -> bool:
    options = fields.child("stream_options")
    if options is None:
        return False
    if not is_streamed:
        raise fields.invalid("stream_options", "goes with stream: true only")
    includes_usage = options.boolean("include_usage") or False
    options.ignore("include_obfuscation")
    options.finish()
    return includes_usage
