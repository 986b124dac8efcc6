"""Entry point: finds the command, and turns every error into one line."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module

import click

from edgelora.cli.errors import message_of
from services.chassis.extras import install_command

EXIT_ERROR = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
_DEBUG = "EDGELORA_DEBUG"
_MAX_MESSAGE_CHARS = 2000

_COMMANDS = {
    "up": ("edgelora.cli.up", "Start the whole product on this machine."),
    "chat": ("edgelora.cli.chat", "Talk to the model through an adapter."),
    "classify": ("edgelora.cli.classify", "Say which label of a classifier texts belong to."),
    "embed": ("edgelora.cli.embed", "Turn texts into vectors."),
    "adapters": (
        "edgelora.cli.adapters",
        "Add, install, list, show, alias, pin, pack, export and remove adapters.",
    ),
    "sessions": ("edgelora.cli.sessions", "Forget conversations that the node keeps warm."),
    "strength": ("edgelora.cli.strength", "Change an adapter's strength in a running answer."),
    "tenants": ("edgelora.cli.tenants", "Tenants, keys, quotas, grants and usage (operator)."),
    "status": ("edgelora.cli.status", "Show the state of a running stack."),
    "dashboard": ("edgelora.cli.dashboard", "Print the address of the dashboard, and its key."),
    "device": ("edgelora.cli.device", "Show the device's pressure; report outside readings."),
    "doctor": ("edgelora.cli.doctor", "Say whether this machine can carry the load."),
    "model": ("edgelora.cli.model", "Prepare and list base models."),
    "train": ("edgelora.cli.train", "Fine-tune an adapter."),
    "router": ("edgelora.cli.router", "Train and judge the router behind `auto`."),
    "bench": ("edgelora.cli.bench", "Run a benchmark."),
}
"""Name -> (module with a click command of that name, its line in the help)."""

_OUR_ERRORS = (
    ("bench.result", "BenchError"),
    ("edgelora.cli.errors", "CliError"),
    ("edgelora.errors", "EdgeLoraError"),
    ("edgelora.local_stack.errors", "StackError"),
    ("edgelora.routing.router_file", "RouterFileError"),
    ("edgelora.toolchain.errors", "ToolchainError"),
)
"""Errors whose message is one line for people. Not imported here: a command that does not use a
package does not pay for it."""


class _Commands(click.Group):
    """Imports a command's module when it is used, so that the others cost nothing."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = getattr(import_module(_COMMANDS[cmd_name][0]), cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in _COMMANDS.items()])


@click.command(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="edgelora", message="%(prog)s %(version)s")
def cli() -> None:
    """Serve one language model to many tenants, each with its own LoRA adapter.

    \b
    Start:   edgelora up
    Talk:    edgelora chat --tenant office --adapter email
    """


def main() -> None:
    """Runs the command of this process and ends it."""
    # Before gRPC is loaded, which would tell of a connection that ended, in words for its makers.
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Runs one command; returns its exit status: 0, 1 for an error, 2 for wrong usage."""
    try:
        status = cli.main(list(arguments) or ["--help"], "edgelora", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.UsageError as error:
        # A group without a command: its help, as click lays it out. Before click 8.2 no error.
        if isinstance(error, getattr(click.exceptions, "NoArgsIsHelpError", ())):
            error.show()
            return EXIT_USAGE
        return _fail(_usage_text(error), EXIT_USAGE)
    except click.ClickException as error:
        return _fail(error.format_message(), EXIT_ERROR)
    except (KeyboardInterrupt, click.Abort):
        return _fail("interrupted", EXIT_INTERRUPTED)
    except BrokenPipeError:
        # The reader has enough (`| head`). Python would complain once more while it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_ERROR
    except Exception as error:
        if os.environ.get(_DEBUG):
            raise
        return _fail(_explain(error), EXIT_ERROR)
    return status if isinstance(status, int) else 0


def _fail(message: str, status: int) -> int:
    from edgelora.cli.output import printable

    # Names in it may come from files of others, of any length and with what steers a terminal.
    line = printable(" ".join(message.split()))
    if len(line) > _MAX_MESSAGE_CHARS:
        line = f"{line[:_MAX_MESSAGE_CHARS]} ..."
    with suppress(OSError):  # the terminal may be gone
        click.echo(f"edgelora: {line}", err=True)
    return status


def _usage_text(error: click.UsageError) -> str:
    command = error.ctx.command_path if error.ctx else "edgelora"
    return f"{error.format_message().rstrip('.')}: see `{command} --help`"


def _explain(error: Exception) -> str:
    if _is_ours(error):
        return message_of(error)
    if isinstance(error, ModuleNotFoundError):
        return (
            f"the Python package {error.name} is missing: run `{install_command('train')}` in the "
            "source tree, which brings all of them"
        )
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return (
        f"an unexpected {type(error).__name__} occurred: run the command again with {_DEBUG}=1 "
        "and report what it shows"
    )


def _is_ours(error: Exception) -> bool:
    """Whether the message was written for people. The class's module is loaded if it is ours."""
    return any(
        isinstance(error, getattr(sys.modules[module], name))
        for module, name in _OUR_ERRORS
        if module in sys.modules
    )
