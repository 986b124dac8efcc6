"""The async clients of a node: `EdgeLoraClient` for tenants, `AdminClient` for the operator.

    async with EdgeLoraClient("127.0.0.1:50051", api_key) as client:
        await client.register_adapter(Path("adapters/email"), alias="email")
        async for event in client.chat([("user", "Invite Ann to lunch.")], adapters="email"):
            if isinstance(event, Delta):
                print(event.text, end="", flush=True)

Everything a node refuses is raised as a class of `edgelora.errors`, with the field and the remedy.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

from edgelora.adapter_upload import Progress, upload_messages
from edgelora.admin_client import AdminClient
from edgelora.client_tls import channel_credentials
from edgelora.connection import DEFAULT_CALL_S, NodeConnection
from edgelora.degradation import DegradationPreference
from edgelora.errors import InternalError, InvalidRequestError
from edgelora.generation import (
    Adapters,
    GenerationEvent,
    GenerationOptions,
    Priority,
    from_event,
    to_priority,
    to_selections,
)
from edgelora.tools import Messages, Tool, to_messages, to_tool_use
from edgelora.v1 import gateway_service_pb2 as pb
from edgelora.v1.adapter_pb2 import Adapter, AdapterAlias, AdapterSelection, WarmUpState
from edgelora.v1.gateway_service_pb2_grpc import GatewayServiceStub

__all__ = ["AdminClient", "EdgeLoraClient"]

DEFAULT_GENERATION_S = 300.0
DEFAULT_UPLOAD_S = 300.0
DEFAULT_INSTALL_S = 3600.0
MAX_PAGE_SIZE = 1000
_DEFAULT_OPTIONS = GenerationOptions()
_DEFAULT_DEGRADATION = DegradationPreference()


class EdgeLoraClient(NodeConnection):
    """A tenant's view of a node. One client serves any number of calls at once."""

    def __init__(
        self,
        address: str,
        api_key: str | None = None,
        *,
        ca_file: Path | str | None = None,
        cert_file: Path | str | None = None,
        key_file: Path | str | None = None,
    ) -> None:
        """Connects at the first call to `host:port` or `unix:/path`.

        `ca_file`: who signs the node's certificate, as PEM; without it no TLS is spoken.
        `cert_file` and `key_file`: a client certificate, which may stand for the API key. Raises
        InvalidRequestError when a file can not be read, or nothing says which tenant this is.
        """
        if api_key is None and cert_file is None:
            raise InvalidRequestError("an API key or a certificate is needed", field="api_key")
        super().__init__(address, channel_credentials(ca_file, cert_file, key_file))
        self._stub: Any = GatewayServiceStub(self._channel)  # type: ignore[no-untyped-call]
        self._metadata = () if api_key is None else (("authorization", f"Bearer {api_key}"),)

    async def generate(
        self,
        prompt: str,
        *,
        adapters: Adapters = (),
        options: GenerationOptions = _DEFAULT_OPTIONS,
        priority: Priority = "interactive",
        user: str = "",
        degradation: DegradationPreference = _DEFAULT_DEGRADATION,
        session: str = "",
        timeout_s: float = DEFAULT_GENERATION_S,
    ) -> AsyncGenerator[GenerationEvent, None]:
        """Continues a prompt: Accepted, then Deltas, then Usage and Done.

        `priority` is the request's class: interactive goes before background, background before
        batch. `user` names who of the tenant's people asks, in at most 64 characters; the node uses
        it only to forecast which adapter comes next. `degradation` says what to do while the device
        is under pressure; what was done is in Accepted. `session` names a conversation, in at most
        64 characters: what was computed of it stays warm on the node for its next request.

        Done comes only after a complete answer; anything else raises. Leaving the loop early
        cancels the generation on the node:

            async with aclosing(client.generate("Once upon a time")) as events:
                async for event in events:
                    ...
        """
        with self._clear_errors():
            request = pb.GenerateRequest(
                prompt=prompt,
                adapters=to_selections(adapters),
                options=options.to_message(),
                priority=to_priority(priority),
                user=user,
                degradation=degradation.to_message(),
                session=session,
            )
        async for event in self._stream(self._stub.Generate, request, timeout_s):
            yield event

    async def chat(
        self,
        messages: Messages,
        *,
        tools: Iterable[Tool] = (),
        tool_choice: str = "auto",
        parallel_tool_calls: bool = True,
        adapters: Adapters = (),
        options: GenerationOptions = _DEFAULT_OPTIONS,
        priority: Priority = "interactive",
        user: str = "",
        degradation: DegradationPreference = _DEFAULT_DEGRADATION,
        session: str = "",
        timeout_s: float = DEFAULT_GENERATION_S,
    ) -> AsyncGenerator[GenerationEvent, None]:
        """Answers a conversation of (role, content) pairs or `Message`s.

        The model may call `tools` instead of answering: then ToolCalls come among the Deltas, or
        without any, and Done says `tool_calls`. `tool_choice`: auto (it decides), none, required
        (it calls one at least), or the name of the tool it has to call. Else this yields and
        raises as `generate` does.
        """
        with self._clear_errors():
            request = pb.ChatRequest(
                messages=to_messages(messages),
                tools=to_tool_use(tools, tool_choice, is_parallel=parallel_tool_calls),
                adapters=to_selections(adapters),
                options=options.to_message(),
                priority=to_priority(priority),
                user=user,
                degradation=degradation.to_message(),
                session=session,
            )
        async for event in self._stream(self._stub.Chat, request, timeout_s):
            yield event

    async def classify(
        self,
        texts: str | Iterable[str],
        *,
        adapter: str,
        top_labels: int = 1,
        strength: float | None = None,
        priority: Priority = "interactive",
        user: str = "",
        timeout_s: float = DEFAULT_CALL_S,
    ) -> pb.ClassifyResponse:
        """Says which label of a classifier each text belongs to, with the `top_labels` likeliest.

        `adapter`: one with a head, an alias or a digest. 1 to 64 texts; one that is longer than the
        encoder's context is cut, which the usage tells. At most 5000 labels of all texts together.
        Raises AdapterNotFoundError, NotFoundError where the node has no encoder, and what else the
        node refuses.
        """
        with self._clear_errors():
            request = pb.ClassifyRequest(
                texts=_listed(texts),
                adapter=AdapterSelection(adapter=adapter, strength=strength),
                top_labels=top_labels,
                priority=to_priority(priority),
                user=user,
            )
        response: pb.ClassifyResponse = await self._call(self._stub.Classify, request, timeout_s)
        return response

    async def embed(
        self,
        texts: str | Iterable[str],
        *,
        adapter: str = "",
        strength: float | None = None,
        priority: Priority = "interactive",
        user: str = "",
        timeout_s: float = DEFAULT_CALL_S,
    ) -> pb.EmbedResponse:
        """Turns each text into a vector of length 1; without an adapter by the base model alone.

        Takes and raises what `classify` does.
        """
        with self._clear_errors():
            selection = AdapterSelection(adapter=adapter, strength=strength) if adapter else None
            request = pb.EmbedRequest(
                texts=_listed(texts),
                adapter=selection,
                priority=to_priority(priority),
                user=user,
            )
        response: pb.EmbedResponse = await self._call(self._stub.Embed, request, timeout_s)
        return response

    async def set_strength(
        self, request_id: str, strength: float, *, adapter: str = ""
    ) -> dict[str, float]:
        """Changes how strong an adapter (0 to 2) of a running generation is, from its next token.

        `request_id` comes with Accepted; `adapter` is a digest or the alias the request used, and
        may be left out where there is one. Returns the strengths in force by digest. Raises
        NotFoundError when the generation has ended, InvalidRequestError for an adapter it does not
        have: one it was started with at strength 0 is not loaded.
        """
        response = await self._call(
            self._stub.SetStrength,
            pb.SetStrengthRequest(request_id=request_id, adapter=adapter, strength=strength),
        )
        return {each.digest: each.strength for each in response.adapters}

    async def forget_session(self, session: str = "") -> int:
        """Drops what the node keeps of a conversation, or of all (empty); returns how many.

        Raises ServiceUnavailableError when a worker did not answer: ask again then.
        """
        response = await self._call(
            self._stub.ForgetSession, pb.ForgetSessionRequest(session=session)
        )
        num_forgotten: int = response.num_forgotten
        return num_forgotten

    async def register_adapter(
        self,
        directory: Path,
        *,
        alias: str = "",
        description: str = "",
        replace_alias: bool = False,
        expected_generation: int | None = None,
        version_of_digest: str = "",
        on_progress: Progress | None = None,
        timeout_s: float = DEFAULT_UPLOAD_S,
    ) -> pb.RegisterAdapterResponse:
        """Uploads a PEFT adapter directory; returns when the node has verified and stored it.

        A `probe.jsonl` in the directory goes with it, questions the node measures the adapter on,
        and a `card.json`, what it is for. `version_of_digest`: the adapter this one is a lower-rank
        version of. With `expected_generation` the alias is replaced only if nobody changed it since
        (0: only if there is none). Raises AdapterRejectedError or AdapterIncompatibleError with
        what is wrong with the adapter, AlreadyExistsError when the alias is not as expected.
        """
        messages = upload_messages(
            directory,
            alias=alias,
            description=description,
            replace_alias=replace_alias,
            expected_generation=expected_generation,
            version_of_digest=version_of_digest,
            on_progress=on_progress,
        )
        with self._clear_errors():
            first = next(messages)
        call = self._stub.RegisterAdapter(timeout=timeout_s, metadata=self._metadata)
        try:
            with self._clear_errors():
                await _upload(call, first, messages)
                response: pb.RegisterAdapterResponse = await call
                return response
        finally:
            call.cancel()

    async def install_adapter(
        self,
        package: str,
        *,
        alias: str = "",
        description: str = "",
        replace_alias: bool = False,
        expected_generation: int | None = None,
        on_progress: Progress | None = None,
        timeout_s: float = DEFAULT_INSTALL_S,
    ) -> pb.RegisterAdapterResponse:
        """Lets the node bring a package from one of its remotes, verify it and store it.

        `package` is REMOTE/NAME, REMOTE/NAME:TAG or REMOTE/NAME@sha256:...; the operator names the
        remotes. The rest is as in `register_adapter`; raises NotFoundError for an unknown remote or
        package too.
        """
        with self._clear_errors():
            request = pb.InstallAdapterRequest(
                package=package,
                alias=alias,
                description=description,
                replace_alias=replace_alias,
                expected_generation=expected_generation,
            )
        call = self._stub.InstallAdapter(request, timeout=timeout_s, metadata=self._metadata)
        registered: pb.RegisterAdapterResponse | None = None
        try:
            with self._clear_errors():
                async for event in call:
                    if event.WhichOneof("event") == "registered":
                        registered = event.registered
                    elif on_progress is not None:
                        on_progress(event.progress.received_bytes, event.progress.total_bytes)
        finally:
            call.cancel()
        if registered is None:
            raise InternalError("the node ended the installation without a result")
        return registered

    async def adapter_pages(
        self, *, page_size: int = MAX_PAGE_SIZE
    ) -> AsyncGenerator[pb.ListAdaptersResponse, None]:
        """The tenant's adapters, newest first, `page_size` (1 to 1000) at a time."""
        page_token = ""
        while True:
            with self._clear_errors():
                request = pb.ListAdaptersRequest(page_size=page_size, page_token=page_token)
            page: pb.ListAdaptersResponse = await self._call(self._stub.ListAdapters, request)
            yield page
            page_token = page.next_page_token
            if not page_token:
                return

    async def list_adapters(self) -> pb.ListAdaptersResponse:
        """All of the tenant's adapters, newest first, and its aliases by name."""
        adapters: list[Adapter] = []
        aliases: list[AdapterAlias] = []
        async with aclosing(self.adapter_pages()) as pages:
            async for page in pages:
                adapters += page.adapters
                aliases += page.aliases
        aliases.sort(key=lambda alias: alias.name)
        return pb.ListAdaptersResponse(adapters=adapters, aliases=aliases)

    async def get_adapter(self, adapter: str) -> pb.GetAdapterResponse:
        """Everything about one adapter, an alias or digest: certificate, lineage, usage.

        Raises AdapterNotFoundError.
        """
        response: pb.GetAdapterResponse = await self._call(
            self._stub.GetAdapter, pb.GetAdapterRequest(adapter=adapter)
        )
        return response

    async def pin_adapter(self, adapter: str, *, is_pinned: bool = True) -> Adapter:
        """Keeps an adapter on flash and, while there is room, in memory; or lets it go.

        Raises AdapterNotFoundError.
        """
        response = await self._call(
            self._stub.PinAdapter, pb.PinAdapterRequest(adapter=adapter, is_pinned=is_pinned)
        )
        pinned: Adapter = response.adapter
        return pinned

    async def set_warm_up(
        self, *, is_enabled: bool | None = None, forget: bool = False
    ) -> WarmUpState:
        """Switches the forecasts of the tenant's habits on or off, or forgets what was learnt.

        Without arguments it only tells what is known.
        """
        response = await self._call(
            self._stub.SetWarmUp, pb.SetWarmUpRequest(is_enabled=is_enabled, forget=forget)
        )
        state: WarmUpState = response.state
        return state

    async def set_adapter_alias(
        self, name: str, digest: str, *, expected_generation: int | None = None
    ) -> AdapterAlias:
        """Points a name to a digest; with `expected_generation` only if nobody changed it since.

        Raises AlreadyExistsError when somebody did.
        """
        request = pb.SetAdapterAliasRequest(name=name, digest=digest)
        if expected_generation is not None:
            request.expected_generation = expected_generation
        response = await self._call(self._stub.SetAdapterAlias, request)
        alias: AdapterAlias = response.alias
        return alias

    async def delete_adapter(self, adapter: str) -> pb.DeleteAdapterResponse:
        """Removes an alias, or a digest with all its aliases."""
        response: pb.DeleteAdapterResponse = await self._call(
            self._stub.DeleteAdapter, pb.DeleteAdapterRequest(adapter=adapter)
        )
        return response

    async def status(self) -> pb.GetStatusResponse:
        """The node at a glance, and the tenant's own usage."""
        response: pb.GetStatusResponse = await self._call(
            self._stub.GetStatus, pb.GetStatusRequest()
        )
        return response

    async def _call(self, method: Any, request: Any, timeout_s: float = DEFAULT_CALL_S) -> Any:
        with self._clear_errors():
            return await method(request, timeout=timeout_s, metadata=self._metadata)

    async def _stream(
        self, method: Any, request: Any, timeout_s: float
    ) -> AsyncIterator[GenerationEvent]:
        call = method(request, timeout=timeout_s, metadata=self._metadata)
        try:
            with self._clear_errors():
                async for response in call:
                    event = from_event(response.event)
                    if event is not None:
                        yield event
        finally:
            # A call object that is merely dropped goes on at the server.
            call.cancel()


def _listed(texts: str | Iterable[str]) -> list[str]:
    return [texts] if isinstance(texts, str) else list(texts)


async def _upload(
    call: Any, first: pb.RegisterAdapterRequest, rest: Iterator[pb.RegisterAdapterRequest]
) -> None:
    try:
        await call.write(first)
        for message in rest:
            await call.write(message)
        await call.done_writing()
    except asyncio.InvalidStateError:
        return  # the node has answered already; the call itself says what
