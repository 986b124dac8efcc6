"""Starts an inference worker: settings, objects, serve."""

from __future__ import annotations

from collections.abc import Mapping

from services.chassis.logs import get_logger
from services.chassis.server import run_service
from services.inference.backends.choice import choose_backend, make_backend
from services.inference.config import InferenceConfig
from services.inference.worker import serve_until_end


async def main(environ: Mapping[str, str]) -> None:
    """Serves until SIGTERM or SIGINT; exits with status 70 when the engine dies."""
    config = InferenceConfig.from_env(environ)
    choice = choose_backend(config.backend, config.model_directory)
    get_logger().info(
        "backend_chosen",
        backend=choice.name,
        kv_cache_dtype=config.kv_cache_dtype_of(choice.name),
        reason=choice.reason,
    )
    await serve_until_end(config, make_backend(choice, config))


if __name__ == "__main__":
    run_service("inference", main)
