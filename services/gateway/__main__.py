"""Starts the gateway: settings, objects, serve."""

from __future__ import annotations

from collections.abc import Mapping

from services.chassis.server import run_service
from services.gateway.config import GatewayConfig
from services.gateway.gateway import serving


async def main(environ: Mapping[str, str]) -> None:
    """Serves until SIGTERM or SIGINT."""
    async with serving(GatewayConfig.from_env(environ)) as host:
        await host.wait_for_stop()


if __name__ == "__main__":
    run_service("gateway", main)
