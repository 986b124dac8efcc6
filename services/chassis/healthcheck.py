"""`python -m services.chassis.healthcheck ADDRESS [SERVICE]`: exit status 0 when it serves.

For containers and start-up scripts. Asks grpc.health.v1 for the server as a whole, or for one
service it tells of. Speaks no TLS: a gateway with TLS is asked at its admin socket, for
edgelora.v1.GatewayService.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence

import grpc
from grpc_health.v1 import health_pb2

_TIMEOUT_S = 3.0
_EXIT_USAGE = 2
GATEWAY_SERVICE = "edgelora.v1.GatewayService"
"""Whose readiness the gateway tells at its admin socket too."""


async def is_serving(address: str, timeout_s: float = _TIMEOUT_S, service: str = "") -> bool:
    """Returns whether the gRPC server at `address` answers SERVING within the time."""
    async with grpc.aio.insecure_channel(
        address, options=[("grpc.default_authority", "localhost"), ("grpc.enable_http_proxy", 0)]
    ) as channel:
        check = channel.unary_unary(
            "/grpc.health.v1.Health/Check",
            request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
            response_deserializer=health_pb2.HealthCheckResponse.FromString,
        )
        try:
            reply = await check(health_pb2.HealthCheckRequest(service=service), timeout=timeout_s)
        except grpc.aio.AioRpcError:
            return False
    return bool(reply.status == health_pb2.HealthCheckResponse.SERVING)


def main(arguments: Sequence[str]) -> int:
    """Returns the exit status: 0 serving, 1 not serving or no answer, 2 wrong usage."""
    if len(arguments) not in (1, 2):
        sys.stderr.write("usage: python -m services.chassis.healthcheck ADDRESS [SERVICE]\n")
        return _EXIT_USAGE
    return 0 if asyncio.run(is_serving(arguments[0], service="".join(arguments[1:]))) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
