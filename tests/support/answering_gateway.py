"""A gateway that answers, refuses or loses requests as a test tells it."""

import asyncio
from contextlib import asynccontextmanager

import grpc
from grpc_status import rpc_status

from edgelora.errors import QueueFullError, to_status
from edgelora.v1 import gateway_service_pb2 as pb
from edgelora.v1.gateway_service_pb2_grpc import (
    GatewayServiceServicer,
    add_GatewayServiceServicer_to_server,
)
from edgelora.v1.generation_pb2 import Delta, FinishReason, PriorityClass, Usage


class AnsweringGateway(GatewayServiceServicer):
    """Refuses the requests that `is_refused` says.

    Of the others the `lost`-th is closed without an end, the `failed`-th in an undeclared error.
    """

    def __init__(self, *, is_refused=lambda request: False, lost=None, failed=None):
        self.requests = []
        self._num_accepted = 0
        self._is_refused = is_refused
        self._lost = lost
        self._failed = failed

    def classes(self):
        """Names of the classes that were asked for."""
        return {PriorityClass.Name(one.priority).rpartition("_")[2] for one in self.requests}

    async def Generate(self, request, context):
        self.requests.append(request)
        if self._is_refused(request):
            error = QueueFullError("full: try again in 10 ms", retry_after_s=0.01)
            await context.abort_with_status(rpc_status.to_status(to_status(error)))
        self._num_accepted += 1
        number = self._num_accepted
        yield _event(accepted=pb.Accepted(request_id="r"))
        if number == self._failed:
            await context.abort(grpc.StatusCode.INTERNAL, "a fault")
        num_tokens = request.options.stop.max_tokens
        for token in range(num_tokens):
            await asyncio.sleep(0)
            yield _event(delta=Delta(text="a", token_ids=[token]))
        if number == self._lost:
            return
        usage = Usage(num_prompt_tokens=len(request.prompt.split()), num_output_tokens=num_tokens)
        usage.queue_time.FromMilliseconds(1)
        yield _event(usage=usage)
        yield _event(done=pb.Done(finish_reason=FinishReason.FINISH_REASON_LENGTH))

    async def GetStatus(self, request, context):
        return pb.GetStatusResponse()


def _event(**kind):
    return pb.GenerateResponse(event=pb.GenerationEvent(**kind))


@asynccontextmanager
async def serving(gateway, directory):
    """Yields the address of a gateway that serves."""
    server = grpc.aio.server()
    add_GatewayServiceServicer_to_server(gateway, server)
    address = f"unix:{directory}/gateway.sock"
    server.add_insecure_port(address)
    await server.start()
    try:
        yield address
    finally:
        await server.stop(None)
