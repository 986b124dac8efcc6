"""`edgelora up`: the whole product on this machine, and the demonstration of what it does."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import click
from rich.console import Console

from edgelora.cli.demo_run import StreamResult, run_demo
from edgelora.cli.demo_view import DemoView, print_results
from edgelora.cli.errors import CliError
from edgelora.cli.output import output_console, print_json, progress_console
from edgelora.cli.places import home_option, json_option, layout_of
from edgelora.cli.served_model import ensure_encoder, ensure_model
from edgelora.cli.serving_view import serving_document, show_serving
from edgelora.cli.start_view import StartView
from edgelora.local_stack.layout import StackLayout
from edgelora.local_stack.ports import HOST, choose_port
from edgelora.local_stack.redis_binary import find_redis_binary
from edgelora.local_stack.stack import StackOptions, owned_home, running_stack
from edgelora.local_stack.stop_signals import StopSignals
from edgelora.local_stack.supervisor import Supervisor
from services.chassis.base_model import DEFAULT_ENCODER_NAME, DEFAULT_NAME

EXIT_FAILED = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wish:
    """What the user asked of `up`."""

    stack: StackOptions
    demo: bool
    once: bool
    as_json: bool


@click.command()
@click.option("--once", is_flag=True, help="Stop after the demonstration; exit 0 if it worked.")
@click.option(
    "--demo/--no-demo",
    default=None,
    help="Let four tenants stream at once. [default: demo, where there is a decoder]",
)
@click.option("--model", default=DEFAULT_NAME, show_default=True, help="Prepared decoder.")
@click.option(
    "--encoder",
    is_flag=False,
    flag_value=DEFAULT_ENCODER_NAME,
    metavar="[NAME]",
    help=f"Serve a prepared encoder as well, which classifies and embeds: {DEFAULT_ENCODER_NAME} "
    "unless named.",
)
@click.option("--no-decoder", is_flag=True, help="Serve the encoder alone.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help="Gateway's port; 0 takes any. [default: 50051, or any when it is taken]",
)
@click.option(
    "--host",
    default=HOST,
    show_default=True,
    metavar="ADDRESS",
    help="Address that tenants reach; 0.0.0.0 for all. Other than this machine's needs TLS.",
)
@click.option(
    "--http-port",
    type=click.IntRange(0, 65535),
    help="Port of the OpenAI and Ollama APIs. [default: 8080, or any when it is taken]",
)
@click.option(
    "--dashboard-port",
    type=click.IntRange(0, 65535),
    help="Port of the dashboard. [default: 8081, or any when it is taken]",
)
@click.option(
    "--metrics",
    "has_metrics",
    is_flag=True,
    help="Let a Prometheus on this machine read every service; see docs/metrics.md.",
)
@click.option(
    "--redis-url",
    envvar="EDGELORA_REDIS_URL",
    help="An existing Redis instead of our own: redis://user@host:port/0 or unix://user@/path.",
)
@click.option(
    "--redis-password-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File with the password for --redis-url.",
)
@home_option
@json_option
def up(
    once: bool,
    demo: bool | None,
    model: str,
    encoder: str | None,
    no_decoder: bool,
    port: int | None,
    host: str,
    http_port: int | None,
    dashboard_port: int | None,
    has_metrics: bool,
    redis_url: str | None,
    redis_password_file: Path | None,
    home: Path,
    as_json: bool,
) -> int:
    """Start Redis and the services, show four tenants at once, and keep serving.

    Prepares a default model when it is missing. Ctrl-C stops everything; a second one kills it.

    \b
    Examples:
      edgelora up
      edgelora up --once --json
      edgelora up --no-demo --port 6000 --home /var/lib/edgelora
      edgelora up --encoder
      edgelora up --encoder my-bert --no-decoder
    """
    if no_decoder and encoder is None:
        raise CliError("--no-decoder leaves nothing to serve: give --encoder as well")
    if no_decoder and demo:
        raise CliError("--demo needs the decoder: leave out --no-decoder")
    if redis_url is not None and urlsplit(redis_url).password:
        raise CliError(
            "the Redis URL holds a password, which others can see: "
            "leave it out and give --redis-password-file"
        )
    layout = layout_of(home)
    wish = _Wish(
        stack=StackOptions(
            model=None if no_decoder else model,
            encoder=encoder,
            port=port,
            host=host,
            http_port=http_port,
            dashboard_port=dashboard_port,
            has_metrics=has_metrics,
            redis_url=redis_url,
            redis_password_file=redis_password_file and redis_password_file.resolve(),
        ),
        demo=not no_decoder if demo is None else demo,
        once=once,
        as_json=as_json,
    )
    console = progress_console() if as_json else output_console()
    with StopSignals() as stop, owned_home(layout):
        # What takes long comes after what may be refused.
        choose_port(port)
        if redis_url is None:
            find_redis_binary()
        say = partial(console.print, soft_wrap=True)
        if not no_decoder:
            ensure_model(layout.home, model, os.environ, say)
        if encoder is not None:
            ensure_encoder(layout.home, encoder, os.environ, say)
        stop.hold()
        return asyncio.run(_run(layout, wish, stop, console))


async def _run(layout: StackLayout, wish: _Wish, stop: StopSignals, console: Console) -> int:
    view = StartView(console)
    supervisor = Supervisor(logs=layout.logs, pids=layout.pids, report=view.report)
    task = asyncio.current_task()
    assert task is not None
    stop.cancel(task, notice=view.stopping, at_once=supervisor.kill)
    is_serving = False
    try:
        view.start()
        async with running_stack(layout, wish.stack, os.environ, supervisor) as stack:
            view.ready()
            results: list[StreamResult] = []
            if wish.demo:
                results = await supervisor.guard(run_demo(stack, DemoView(console)))
            if wish.as_json:
                print_json(serving_document(stack, results))
            else:
                if results:
                    print_results(console, results)
                if not wish.once:
                    show_serving(stack, results, console)
            if wish.once:
                return EXIT_FAILED if any(result.error for result in results) else 0
            is_serving = True
            await supervisor.wait_failure()
    except asyncio.CancelledError:
        if stop.received is None:
            raise
        if not is_serving:
            raise KeyboardInterrupt from None
    finally:
        stop.hold()
        view.end()
    return 0
