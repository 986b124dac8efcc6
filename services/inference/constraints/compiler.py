"""Constraints of requests: checked in another process, then compiled beside the steps."""

from __future__ import annotations

import asyncio
import hashlib
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

from edgelora.errors import InvalidRequestError, ServiceUnavailableError
from edgelora.v1.generation_pb2 import GenerationInput, GenerationOptions
from services.chassis.tool_limits import may_call
from services.inference.constraints.checker import GrammarChecker
from services.inference.constraints.grammar import Grammar, constraint_grammar, tools_grammar
from services.inference.constraints.known_verdicts import KnownVerdicts
from services.inference.constraints.limits import parser_limits
from services.inference.constraints.matcher import TokenConstraint
from services.inference.constraints.verdict import REASONS, Verdict
from services.inference.constraints.vocabulary import OutputVocabulary
from services.inference.low_priority import lower_thread_priority
from services.inference.tokenizer import TextTokenizer

if TYPE_CHECKING:
    from llguidance import LLTokenizer


class ConstraintCompiler:
    """Makes the constraint of each request that has one. Lives on the event loop.

    Nothing of llguidance is loaded before the first one.
    """

    def __init__(
        self,
        tokenizer: TextTokenizer,
        vocab_size: int,
        eos_token_ids: frozenset[int],
        checker: GrammarChecker | None = None,
    ) -> None:
        self._tokenizer = tokenizer
        self._vocab_size = vocab_size
        self._eos_token_ids = eos_token_ids
        self._checker = checker or GrammarChecker(lambda: self._vocabulary().to_bytes())
        self._opened: asyncio.Task[LLTokenizer] | None = None
        self._thread = ThreadPoolExecutor(
            1, thread_name_prefix="constraints", initializer=lower_thread_priority
        )
        self._verdicts = KnownVerdicts()
        self._checks: dict[tuple[str, bytes], asyncio.Task[Verdict]] = {}
        """Those under way, by tenant and hash of the grammar: who brings the same shares one."""

    async def compile(
        self, options: GenerationOptions, source: GenerationInput, tenant_id: str
    ) -> TokenConstraint | None:
        """The constraint of a request that was checked; None where any text will do.

        Raises InvalidRequestError naming the field, QueueFullError and ServiceUnavailableError.
        """
        if not options.HasField("constraint") and not may_call(source.conversation.tools):
            return None
        # Reading many tools again takes longer than the event loop has.
        loop = asyncio.get_running_loop()
        grammar = await loop.run_in_executor(self._thread, _grammar_of, options, source)
        await self._check(grammar, tenant_id)
        tokenizer = await self._open()
        return await loop.run_in_executor(self._thread, self._compile, tokenizer, grammar)

    async def close(self) -> None:
        """Ends the process and the thread."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        await self._checker.close()

    async def _check(self, grammar: Grammar, tenant_id: str) -> None:
        key = tenant_id, hashlib.sha256(grammar.text.encode()).digest()
        verdict = self._verdicts.find(*key)
        if verdict is None:
            if key not in self._checks:
                check = asyncio.create_task(self._checker.check(grammar.text, tenant_id))
                check.add_done_callback(partial(self._end_check, key))
                self._checks[key] = check
            # One request that is cancelled must not take it from the others.
            verdict = await asyncio.shield(self._checks[key])
        if verdict is Verdict.TIMED_OUT:
            raise ServiceUnavailableError(
                "the machine is too busy to prepare the constraint: try again in a moment",
                retry_after_s=1.0,
            )
        if verdict is not Verdict.FITS:
            raise _refused(grammar, verdict)

    def _end_check(self, key: tuple[str, bytes], check: asyncio.Task[Verdict]) -> None:
        del self._checks[key]
        # Those who waited may have left: then nobody else looks at it.
        if check.cancelled() or check.exception() is not None:
            return
        if (verdict := check.result()) is not Verdict.TIMED_OUT:
            self._verdicts.note(*key, verdict)

    async def _open(self) -> LLTokenizer:
        if self._opened is None:
            self._opened = asyncio.create_task(asyncio.to_thread(self._open_now))
        return await asyncio.shield(self._opened)

    def _open_now(self) -> LLTokenizer:
        return self._vocabulary().open(self._tokenizer.encode_written)

    def _vocabulary(self) -> OutputVocabulary:
        return OutputVocabulary.of(self._tokenizer, self._vocab_size, self._eos_token_ids)

    def _compile(self, tokenizer: LLTokenizer, grammar: Grammar) -> TokenConstraint:
        from llguidance import LLMatcher

        matcher = LLMatcher(tokenizer, grammar.text, log_level=0, limits=parser_limits())
        if matcher.is_error():
            raise _refused(grammar, Verdict.INVALID)
        constraint = TokenConstraint(matcher, self._vocab_size, grammar.field)
        # The first mask is the most expensive one, and here it holds up nobody.
        constraint.mask()
        return constraint


def _grammar_of(options: GenerationOptions, source: GenerationInput) -> Grammar:
    if options.HasField("constraint"):
        return constraint_grammar(options.constraint)
    return tools_grammar(source.conversation.tools)


def _refused(grammar: Grammar, verdict: Verdict) -> InvalidRequestError:
    return InvalidRequestError(f"{grammar.field} {REASONS[verdict]}", field=grammar.field)
