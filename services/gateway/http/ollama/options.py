"""The `options` and `format` of a request as options of a generation. Pure.

As in Ollama an option that is not known here changes nothing. The model's own defaults hold for
what is absent; `/api/show` tells them. Every function raises InvalidRequestError.
"""

from __future__ import annotations

import json

from edgelora.v1.generation_pb2 import Constraint, GenerationOptions
from services.gateway.http.json_fields import Fields

_MAX_INT = 2**63 - 1
NAMES = {
    "options.sampling.": "options.",
    "options.sampling.repetition_penalty": "options.repeat_penalty",
    "options.stop.stop_strings": "options.stop",
    "options.stop.max_tokens": "options.num_predict",
    "options.constraint": "format",
    "options.constraint.json_object": "format",
    "options.constraint.json_schema": "format",
    "tools.tools": "tools",
}
"""What the front door calls a field -> what this dialect calls it."""


def generation_options(body: Fields, context_tokens: int) -> GenerationOptions:
    """Reads `options` and `format`."""
    options = GenerationOptions()
    wanted = body.child("options")
    if wanted is not None:
        _read_sampling(wanted, options)
        _read_stop(wanted, options, context_tokens)
        # The context is the model's: a wish for another one changes nothing.
        wanted.integer("num_ctx", -_MAX_INT, _MAX_INT)
    constraint = _constraint(body)
    if constraint is not None:
        options.constraint.CopyFrom(constraint)
    return options


def _read_sampling(wanted: Fields, options: GenerationOptions) -> None:
    for name, target in (
        ("temperature", "temperature"),
        ("top_p", "top_p"),
        ("min_p", "min_p"),
        ("repeat_penalty", "repetition_penalty"),
        ("presence_penalty", "presence_penalty"),
        ("frequency_penalty", "frequency_penalty"),
    ):
        value = wanted.number(name)
        if value is not None:
            setattr(options.sampling, target, value)
    top_k = wanted.integer("top_k", -_MAX_INT, 2**31)
    if top_k is not None and top_k > 0:
        options.sampling.top_k = top_k
    seed = wanted.integer("seed", -_MAX_INT, _MAX_INT)
    if seed is not None and seed >= 0:
        options.sampling.seed = seed


def _read_stop(wanted: Fields, options: GenerationOptions, context_tokens: int) -> None:
    options.stop.stop_strings.extend(wanted.texts("stop") or ())
    num_predict = wanted.integer("num_predict", -_MAX_INT, _MAX_INT)
    if num_predict is not None:
        has_end = 0 < num_predict <= context_tokens
        options.stop.max_tokens = num_predict if has_end else context_tokens


def _constraint(body: Fields) -> Constraint | None:
    match body.anything("format"):
        case None | "":
            return None
        case "json":
            return Constraint(json_object=True)
        case dict() as schema:
            return Constraint(json_schema=json.dumps(schema))
        case _:
            raise body.invalid("format", 'must be "json" or a JSON schema')
