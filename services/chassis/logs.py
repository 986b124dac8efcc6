"""Structured logs: JSON lines on standard output, one line for each RPC. Never user text."""

from __future__ import annotations

import logging
import sys

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
        logger_factory=structlog.PrintLoggerFactory(),
    )
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    # gRPC logs a traceback when a client leaves in the middle of a write to it. That is no fault,
    # and the call's own line tells of it; what a handler raises never gets past the interceptor.
    logging.getLogger("grpc._cython.cygrpc").setLevel(logging.CRITICAL)


def get_logger() -> FilteringBoundLogger:
    """Returns the process's logger."""
    logger: FilteringBoundLogger = structlog.get_logger()
    return logger
