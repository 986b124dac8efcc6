"""`python -m tests.support.dying_worker`: a worker whose engine dies at the third token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from services.chassis.base_model import BaseModel
from services.chassis.server import run_service
from services.inference.backends.base import SequenceChunk
from services.inference.config import InferenceConfig
from services.inference.worker import serve_until_end
from tests.support.stand_in_backend import StandInBackend


def _die(chunks: Sequence[SequenceChunk]) -> None:
    # The start-up token does not get that far, so the worker becomes ready first.
    if any(len(chunk.token_ids) == 1 and chunk.start_position >= 2 for chunk in chunks):
        raise SystemExit(0)


async def main(environ: Mapping[str, str]) -> None:
    """Serves until it dies."""
    config = InferenceConfig.from_env(environ)
    backend = StandInBackend(BaseModel.load(config.model_directory).vocab_size)
    backend.before_forward = _die
    await serve_until_end(config, backend)


if __name__ == "__main__":
    run_service("inference", main)
