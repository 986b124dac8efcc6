"""The strengths of one running generation's adapters, and who has to learn of a change.

While the request waits for its ticket a change is noted and goes with the request to the worker;
afterwards it goes to the worker as a call of its own, behind the request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from edgelora.errors import DeadlineExceededError, InvalidRequestError
from edgelora.v1.adapter_pb2 import AdapterStrength, ResolvedAdapter
from edgelora.v1.inference_service_pb2 import InferenceServiceSetStrengthRequest
from services.chassis.channel import call_metadata
from services.gateway.authentication import Caller
from services.gateway.upstream import errors_of

_ANSWER_S = 10.0
"""Longest wait for the worker, which answers after the step it is in."""


class RunningStrengths:
    """What is in force, as far as the gateway knows."""

    def __init__(self) -> None:
        self._adapters: Sequence[ResolvedAdapter] = ()
        self._changed: dict[str, float] = {}
        self._worker: Any = None
        self._generation: Any = None

    def resolve(self, adapters: Sequence[ResolvedAdapter]) -> None:
        """Says which adapters the generation has."""
        self._adapters = adapters

    def start(self, worker: Any, generation: Any) -> None:
        """Says where it runs from now on: the worker's stub and the call."""
        self._worker, self._generation = worker, generation

    def changed(self) -> list[AdapterStrength]:
        """What was changed before it ran; a lower-rank version stands for its original."""
        return [
            AdapterStrength(digest=adapter.digest, strength=self._changed[name])
            for adapter in self._adapters
            for name in (adapter.digest, adapter.version_of_digest)
            if name in self._changed
        ]

    async def set(
        self, caller: Caller, request_id: str, adapter: str, strength: float
    ) -> Sequence[AdapterStrength]:
        """Changes one from the next token on, and returns all. `adapter`: digest, alias, or empty
        for the only one.

        Raises InvalidRequestError for an adapter the generation does not have, NotFoundError when
        it has ended, ServiceUnavailableError when the worker does not answer.
        """
        digest = self._digest_of(adapter)
        if self._generation is None:
            self._changed[digest] = strength
            return self._before_start()
        try:
            async with asyncio.timeout(_ANSWER_S):
                # Its headers come once the worker knows the request.
                await self._generation.initial_metadata()
                with errors_of("worker"):
                    response = await self._worker.SetStrength(
                        InferenceServiceSetStrengthRequest(
                            claim=caller.claim,
                            request_id=request_id,
                            adapter=digest,
                            strength=strength,
                        ),
                        metadata=call_metadata(),
                    )
                adapters: Sequence[AdapterStrength] = response.adapters
                return adapters
        except TimeoutError:
            raise DeadlineExceededError(
                "the worker did not answer: look at the stream, and try again"
            ) from None

    def _before_start(self) -> list[AdapterStrength]:
        strengths: dict[str, float] = {}
        for adapter in self._adapters:
            strengths[adapter.digest] = strengths.get(adapter.digest, 0.0) + adapter.strength
        return [
            AdapterStrength(digest=digest, strength=self._changed.get(digest, strength))
            for digest, strength in strengths.items()
        ]

    def _digest_of(self, name: str) -> str:
        digests = {
            adapter.digest
            for adapter in self._adapters
            if name in ("", adapter.alias, adapter.digest, adapter.version_of_digest)
        }
        if len(digests) != 1:
            rule = (
                "must name one of the adapters of the generation: see its Accepted"
                if name
                else "must be given: the generation has not exactly one adapter"
            )
            raise InvalidRequestError(f"adapter {rule}", field="adapter")
        return digests.pop()
