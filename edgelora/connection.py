"""A channel to a node, and what its calls raise as our own errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

import grpc

from edgelora.errors import InvalidRequestError, ServiceUnavailableError, from_rpc_error

DEFAULT_CALL_S = 15.0
_MAX_MESSAGE_BYTES = 4 * 2**20
_DETAILS_KEY = "grpc-status-details-bin"
"""What a node's own errors carry."""


class NodeConnection:
    """A channel that is closed with its client."""

    def __init__(self, address: str, credentials: grpc.ChannelCredentials | None = None) -> None:
        """`credentials`: for TLS; None speaks plain text."""
        self._address = address
        options = [
            ("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES),
            ("grpc.initial_reconnect_backoff_ms", 100),
            # gRPC's name for how long one attempt may take: a busy node answers late.
            ("grpc.min_reconnect_backoff_ms", 5000),
            ("grpc.max_reconnect_backoff_ms", 1000),
            # A unix socket's path is no host name.
            *([("grpc.default_authority", "localhost")] if address.startswith("unix") else []),
        ]
        self._channel = (
            grpc.aio.insecure_channel(address, options=options)
            if credentials is None
            else grpc.aio.secure_channel(address, credentials, options=options)
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connection; calls that still run are cancelled."""
        await self._channel.close()

    @contextmanager
    def _clear_errors(self) -> Iterator[None]:
        """Raises what a call raised, and what the wire can not carry, as our own classes."""
        try:
            yield
        except grpc.aio.AioRpcError as error:
            has_details = any(key == _DETAILS_KEY for key, _ in error.trailing_metadata() or ())
            if error.code() is grpc.StatusCode.UNAVAILABLE and not has_details:
                # gRPC's own words, for want of a node to give any.
                raise ServiceUnavailableError(
                    f"no node answers at {self._address}: start one with `edgelora up`, or check "
                    "the address, and with TLS the certificates (--ca-file, in Python ca_file)"
                ) from None
            raise from_rpc_error(error) from None
        except UnicodeError:
            raise InvalidRequestError(
                "a text can not be sent: part of it is no Unicode character; give it in UTF-8"
            ) from None
        except (ValueError, TypeError) as error:
            # protobuf's own words name the type and the range, and repeat only the number.
            raise InvalidRequestError(f"a value can not be sent: {error}") from None
