"""Structured logs: JSON lines on standard output, one line for each RPC. Never user text.

Lines that can not be written, to a full disk for example, are dropped: no request fails of them.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback

import structlog
from structlog.typing import EventDict, FilteringBoundLogger, Processor, WrappedLogger


def configure_logging(service: str, level: str = "info") -> None:
    """Sets up structlog and the standard library's logging for one process."""

    def add_service(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        event["service"] = service
        return event

    processors: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        add_service,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.JSONRenderer(),
    ]
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.getLevelNamesMapping()[level.upper()]
        ),
        logger_factory=_LossyLines(),
    )
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    # gRPC logs a traceback when a client leaves in the middle of a write to it. That is no fault,
    # and the call's own line tells of it; what a handler raises never gets past the interceptor.
    logging.getLogger("grpc._cython.cygrpc").setLevel(logging.CRITICAL)


def code_places(error: BaseException) -> list[str]:
    """Where an exception nobody expected came from, innermost last.

    Its message may hold what a user typed: places are logged, not words.
    """
    frames = traceback.extract_tb(error.__traceback__)
    return [f"{frame.filename}:{frame.lineno}" for frame in frames[-12:]]


class _LossyLines:
    """The logger of the process, and the factory of itself."""

    def __init__(self) -> None:
        self._num_dropped = 0

    def __call__(self, *_arguments: object) -> _LossyLines:
        return self

    def msg(self, line: str) -> None:
        """Writes a line, after the number of those that could not be written before it."""
        if self._num_dropped:
            event = {"num_lines": self._num_dropped, "level": "warning", "event": "log_lines_lost"}
            line = f"{json.dumps(event)}\n{line}"
        try:
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()
        except OSError:
            self._num_dropped += 1
        else:
            self._num_dropped = 0

    debug = info = warning = error = critical = msg


def get_logger() -> FilteringBoundLogger:
    """Returns the process's logger."""
    logger: FilteringBoundLogger = structlog.get_logger()
    return logger
