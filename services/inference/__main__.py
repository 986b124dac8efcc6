"""Starts an inference worker: settings, objects, serve."""

from __future__ import annotations

from collections.abc import Mapping

from services.chassis.server import run_service
from services.inference.backends.torch_factory import make_torch_backend
from services.inference.config import InferenceConfig
from services.inference.worker import serve_until_end


async def main(environ: Mapping[str, str]) -> None:
    """Serves until SIGTERM or SIGINT; exits with status 70 when the engine dies."""
    config = InferenceConfig.from_env(environ)
    backend = make_torch_backend(num_threads=config.num_threads, dtype=config.dtype)
    await serve_until_end(config, backend)


if __name__ == "__main__":
    run_service("inference", main)
