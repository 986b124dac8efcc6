"""Starts an encoder worker: settings, objects, serve."""

from __future__ import annotations

from collections.abc import Mapping

from services.chassis.logs import get_logger
from services.chassis.server import run_service
from services.inference.encoder.choice import choose_encoder_backend, make_encoder_backend
from services.inference.encoder.config import EncoderConfig
from services.inference.encoder.worker import serve_until_end


async def main(environ: Mapping[str, str]) -> None:
    """Serves until SIGTERM or SIGINT; exits with status 70 when the engine dies."""
    config = EncoderConfig.from_env(environ)
    choice = choose_encoder_backend(config.backend, config.model_directory)
    get_logger().info("backend_chosen", backend=choice.name, reason=choice.reason)
    await serve_until_end(config, make_encoder_backend(choice, config))


if __name__ == "__main__":
    run_service("encoder", main)
