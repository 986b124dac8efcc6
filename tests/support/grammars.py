"""Constraints made at once, without the process that checks them."""

from __future__ import annotations

import json
from typing import Any

from llguidance import LLMatcher, LLTokenizer

from edgelora.v1.generation_pb2 import Constraint
from services.inference.constraints.grammar import Grammar, constraint_grammar
from services.inference.constraints.limits import parser_limits
from services.inference.constraints.matcher import TokenConstraint
from services.inference.constraints.vocabulary import OutputVocabulary


def opened(
    tokens: list[bytes], *, eos: int | None = None, control_ids: tuple[int, ...] = ()
) -> LLTokenizer:
    """A vocabulary of these tokens; without `eos` one more token ends."""
    ends = [len(tokens) if eos is None else eos]
    tokens = tokens if eos is not None else [*tokens, b"\xffend"]
    return OutputVocabulary(tokens=tokens, control_ids=control_ids, eos_token_ids=ends).open()


def matcher_of(tokenizer: LLTokenizer, grammar: Grammar) -> LLMatcher:
    """llguidance's own matcher of a grammar."""
    matcher = LLMatcher(tokenizer, grammar.text, log_level=0, limits=parser_limits())
    assert not matcher.is_error(), matcher.get_error()
    return matcher


def constraint_of(tokenizer: LLTokenizer, **constraint: Any) -> TokenConstraint:
    """A constraint as a request has it, for example `json_schema={...}`."""
    if isinstance(constraint.get("json_schema"), dict):
        constraint["json_schema"] = json.dumps(constraint["json_schema"])
    grammar = constraint_grammar(Constraint(**constraint))
    return TokenConstraint(matcher_of(tokenizer, grammar), tokenizer.vocab_size, grammar.field)
