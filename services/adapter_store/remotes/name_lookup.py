"""What the name of a host means, asked without holding anything else up."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor

Resolve = Callable[[str, int], Awaitable[list[str]]]
"""Host and port -> IP addresses; raises OSError when the name is unknown."""

# A dead name server holds a thread for half a minute: not one that the store's own work needs.
_LOOKUPS = ThreadPoolExecutor(max_workers=4, thread_name_prefix="remote-names")


async def system_resolve(host: str, port: int) -> list[str]:
    """Asks the system, as every program does."""
    found = await asyncio.get_running_loop().run_in_executor(
        _LOOKUPS, lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    )
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))
