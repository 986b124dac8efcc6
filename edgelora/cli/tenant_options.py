"""Options that say what a tenant may do and use."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

import click

CommandT = TypeVar("CommandT", bound=Callable[..., Any])

_UNITS = {"": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_SPANS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


def tenant_options(command: CommandT) -> CommandT:
    """Adds --role, the quotas and --spiffe-id, all left as they are where they are not given."""
    for option in reversed(
        (
            click.option(
                "--role",
                type=click.Choice(["user", "author", "trusted"]),
                help="What it may do: use adapters, also bring and change its own (the default), "
                "or also bound its output by grammars of its own.",
            ),
            click.option(
                "--max-concurrent",
                "max_concurrent_requests",
                type=click.IntRange(min=1),
                help="Requests at once; a new tenant has 8.",
            ),
            click.option(
                "--tokens-per-minute",
                "max_tokens_per_minute",
                type=click.IntRange(min=1),
                help="Prompt and output tokens; a new tenant has 60000.",
            ),
            click.option(
                "--requests-per-minute",
                "max_requests_per_minute",
                type=click.IntRange(min=1),
                help="Requests; a new tenant has 600.",
            ),
            click.option(
                "--max-adapters",
                type=click.IntRange(min=0),
                help="Adapters of its own; a new tenant has 2000.",
            ),
            click.option(
                "--adapter-bytes",
                "max_adapter_bytes",
                callback=_size,
                metavar="SIZE",
                help="What they take on flash, such as 500MiB; a new tenant has 4GiB.",
            ),
            click.option(
                "--spiffe-id",
                help="What it is over mutual TLS, spiffe://DOMAIN/tenant/TENANT.",
            ),
        )
    ):
        command = option(command)
    return command


def overlap_option(command: CommandT) -> CommandT:
    """Adds --overlap, in seconds."""
    return click.option(
        "--overlap",
        "overlap_s",
        callback=_span,
        default="24h",
        show_default=True,
        help="How long the other keys still hold, such as 10m, 24h or 7d; 0s ends them now.",
    )(command)


def _size(ctx: click.Context, param: click.Parameter, text: str | None) -> int | None:
    if text is None:
        return None
    match = re.fullmatch(r"(\d{1,15})(KiB|MiB|GiB|)", text)
    if match is None:
        raise click.BadParameter("write a size such as 500MiB or 4GiB", ctx, param)
    return int(match[1]) * _UNITS[match[2]]


def _span(ctx: click.Context, param: click.Parameter, text: str) -> float:
    match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,3})?)([smhd])", text)
    if match is None:
        raise click.BadParameter("write a time such as 10m, 24h or 7d", ctx, param)
    return float(match[1]) * _SPANS[match[2]]
