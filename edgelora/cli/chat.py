"""`edgelora chat`: talks to the model, once or in turns."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Iterable
from contextlib import aclosing
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args

import click

from edgelora.adapter_names import AUTO
from edgelora.cli.adapter_lookup import find_adapter
from edgelora.cli.chat_session import ChatSession, parse_adapters
from edgelora.cli.degradation_view import DegradationNotes
from edgelora.cli.errors import CliError, message_of
from edgelora.cli.output import counted, print_json, printable, progress_console
from edgelora.cli.places import Connection, connection, connection_options, json_option
from edgelora.cli.stdin_lines import stdin_lines
from edgelora.client import EdgeLoraClient
from edgelora.degradation import DegradationPreference
from edgelora.generation import Accepted, Delta, Done, GenerationOptions, Priority, Usage
from edgelora.routed import Routing

_PROMPT = "you> "
_SHOWN_DIGEST_CHARS = len("sha256:") + 12
_HELP = (
    "/adapter NAME[=STRENGTH] ...  use these from now on; none: the base model; auto: the node\n"
    "                              chooses for each message\n"
    "/new                          forget the conversation\n"
    "/quit                         leave (also Ctrl-D, or Ctrl-C at the prompt)"
)


@click.command()
@click.option(
    "--message",
    "-m",
    help="Ask once and leave. Without it and without a terminal, standard input is the message.",
)
@click.option(
    "--adapter",
    "-a",
    "adapters",
    multiple=True,
    help="Alias or digest, with =STRENGTH (0 to 2); may be repeated. auto: the node chooses.",
)
@click.option("--system", help="A system message to start with.")
@click.option("--max-tokens", type=click.IntRange(min=1), default=512, show_default=True)
@click.option("--temperature", type=click.FloatRange(0, 2), default=0.0, show_default=True)
@click.option("--top-p", type=click.FloatRange(0, 1, min_open=True))
@click.option("--seed", type=click.IntRange(min=0))
@click.option(
    "--json-schema",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file with a JSON schema that every answer has to satisfy.",
)
@click.option(
    "--regex", help="A regular expression that every answer has to match; for trusted tenants."
)
@click.option(
    "--priority",
    type=click.Choice(get_args(Priority)),
    default="interactive",
    show_default=True,
    help="The request's class: batch waits for background, both for interactive.",
)
@click.option(
    "--user",
    default="",
    help="Who of the tenant's people asks: helps to forecast which adapter comes next.",
)
@click.option(
    "--session",
    "name",
    metavar="NAME",
    default="",
    help="Keep the conversation warm on the node under this name; see `edgelora sessions`.",
)
@click.option(
    "--show-id",
    is_flag=True,
    help="Show the request's id while the answer runs, for `edgelora strength`.",
)
@click.option(
    "--no-degraded",
    is_flag=True,
    help="While the device is under pressure: an error rather than less than asked.",
)
@click.option(
    "--fallback",
    metavar="NAME",
    default="",
    help="Alias or digest that answers for an adapter that is off; else the base model does.",
)
@connection_options
@json_option
def chat(
    message: str | None,
    adapters: tuple[str, ...],
    system: str | None,
    max_tokens: int,
    temperature: float,
    top_p: float | None,
    seed: int | None,
    json_schema: Path | None,
    regex: str | None,
    priority: Priority,
    user: str,
    name: str,
    show_id: bool,
    no_degraded: bool,
    fallback: str,
    as_json: bool,
    **where: Any,
) -> None:
    """Talk to the model, streaming.

    In turns, Ctrl-C stops the answer; at the prompt it leaves. /help lists more.

    \b
    Examples:
      edgelora chat --tenant office --adapter email
      edgelora chat --tenant office -a email=0.5 -m "Invite Ann to lunch."
      edgelora chat --tenant office -a auto -m "Invite Ann to lunch."
      echo "Invite Ann to lunch." | edgelora chat --tenant office --json
      edgelora chat --tenant office --json-schema person.json -m "Describe Ada Lovelace."
    """
    if no_degraded and fallback:
        raise click.UsageError("--fallback goes with no --no-degraded: nothing stands in then")
    if json_schema is not None and regex is not None:
        raise click.UsageError("--regex goes with no --json-schema: an answer has one form")
    session = ChatSession(
        adapters=parse_adapters(adapters),
        options=GenerationOptions(
            max_tokens=max_tokens,
            temperature=temperature,
            top_p=top_p,
            seed=seed,
            json_schema=None if json_schema is None else _read_schema(json_schema),
            regex=regex,
        ),
        system=system,
        priority=priority,
        user=user,
        degradation=DegradationPreference(is_refused=no_degraded, fallback_adapter=fallback),
        name=name,
        is_id_shown=show_id,
    )
    target = connection(**where)
    if message is None and not sys.stdin.isatty():
        message = "".join(stdin_lines()).strip()
        if not message:
            raise CliError("standard input is empty: give a message, or --message TEXT")
    if message is not None:
        asyncio.run(_ask_once(target, session, message, as_json=as_json))
    elif as_json:
        raise click.UsageError("--json needs --message or a message on standard input")
    else:
        _talk(target, session)


def _read_schema(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise CliError(
            "the schema cannot be read: give a file with a JSON schema in UTF-8"
        ) from None


async def _ask_once(
    target: Connection, session: ChatSession, message: str, *, as_json: bool
) -> None:
    async with target.client() as client:
        document = await _answer(client, session, message, is_shown=not as_json)
    if as_json:
        print_json(document)


def _talk(target: Connection, session: ChatSession) -> None:
    """Turns until the user leaves. The loop runs only while an answer streams."""
    import readline  # noqa: F401 - gives input() editing and history

    # A script's background job ignores Ctrl-C and hands that on; who talks on a terminal wants it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with asyncio.Runner() as runner:
        client = target.client()
        try:
            fallback = session.degradation.fallback_adapter
            named = [*session.adapters, *([fallback] if fallback else [])]
            runner.run(_check_adapters(client, named))
            while True:
                try:
                    line = input(_PROMPT).strip()
                except (EOFError, KeyboardInterrupt):
                    click.echo()
                    return
                if line in ("/quit", "/exit"):
                    return
                if line.startswith("/"):
                    _obey(runner, client, session, line)
                elif line:
                    _take_turn(runner, client, session, line)
        finally:
            runner.run(client.close())


def _take_turn(
    runner: asyncio.Runner, client: EdgeLoraClient, session: ChatSession, line: str
) -> None:
    from edgelora.errors import EdgeLoraError

    try:
        runner.run(_answer(client, session, line, is_shown=True))
    except KeyboardInterrupt:
        click.echo("\n(stopped)")
    except EdgeLoraError as error:
        click.echo(f"\nedgelora: {printable(message_of(error))}", err=True)


def _obey(runner: asyncio.Runner, client: EdgeLoraClient, session: ChatSession, line: str) -> None:
    from edgelora.errors import EdgeLoraError

    command, *words = line.split()
    try:
        match command:
            case "/adapter":
                chosen = parse_adapters(words)
                runner.run(_check_adapters(client, chosen))
                session.adapters = chosen
                click.echo(f"now with {', '.join(words) or 'the base model'}")
            case "/new":
                session.forget()
                click.echo("a new conversation")
            case "/help":
                click.echo(_HELP)
            case _:
                click.echo(f"there is no such command\n{_HELP}")
    except (CliError, EdgeLoraError) as error:
        click.echo(f"edgelora: {printable(message_of(error))}", err=True)


async def _check_adapters(client: EdgeLoraClient, adapters: Iterable[str]) -> None:
    """Raises CliError when the tenant has none of a name, before anything is asked."""
    for name in adapters:
        if name != AUTO:
            await find_adapter(client, name)


async def _answer(
    client: EdgeLoraClient, session: ChatSession, message: str, *, is_shown: bool
) -> dict[str, Any]:
    """Streams one answer, shows it as it comes, and returns everything about it."""
    document: dict[str, Any] = {"text": ""}
    text = ""
    notes = DegradationNotes()
    try:
        async with aclosing(
            client.chat(
                session.messages_with(message),
                adapters=session.selection,
                options=session.options,
                priority=session.priority,
                user=session.user,
                degradation=session.degradation,
                session=session.name,
            )
        ) as events:
            async for event in events:
                match event:
                    case Accepted():
                        if session.is_id_shown and "request_id" not in document:
                            progress_console().print(f"(request {event.request_id})", style="dim")
                        document["request_id"] = event.request_id
                        document["adapters"] = [asdict(used) for used in event.adapters]
                        document["degradations"] = [asdict(step) for step in event.degradations]
                        if is_shown:
                            notes.note(event.degradations)
                        if event.routing is not None:
                            if is_shown and "routing" not in document:
                                note = routing_note(event.routing)
                                progress_console().print(note, style="dim")
                            document["routing"] = asdict(event.routing)
                    case Delta():
                        text += event.text
                        if is_shown:
                            click.echo(printable(event.text), nl=False)
                    case Usage():
                        document["usage"] = {
                            "num_prompt_tokens": event.num_prompt_tokens,
                            "num_output_tokens": event.num_output_tokens,
                            "queue_s": event.queue_s,
                            "adapter_load_s": event.adapter_load_s,
                            "time_to_first_token_s": event.time_to_first_token_s,
                            "total_s": event.total_s,
                            "mean_batch_size": event.mean_batch_size,
                            "num_cached_prompt_tokens": event.num_cached_prompt_tokens,
                            "engine_s": event.engine_s,
                        }
                    case Done():
                        document["finish_reason"] = event.finish_reason
    finally:
        session.remember(message, text)
    document["text"] = text
    if is_shown:
        click.echo()
        _note_cut(document, session.options)
    return document


def routing_note(routing: Routing) -> str:
    """Says what the router chose, for example `(auto: email 0.82, base 0.18, chosen in 1.3 ms)`."""
    parts = [
        f"{printable(each.alias) or each.digest[:_SHOWN_DIGEST_CHARS]} {each.share:.2f}"
        for each in routing.adapters
    ]
    if routing.base_share > 0:
        parts.append(f"base {routing.base_share:.2f}")
    return f"(auto: {', '.join(parts)}, chosen in {routing.decision_s * 1000:.1f} ms)"


def _note_cut(document: dict[str, Any], options: GenerationOptions) -> None:
    """Says on standard error that an answer is not whole, and why."""
    if document.get("finish_reason") != "length":
        return
    num_tokens = document["usage"]["num_output_tokens"]
    if num_tokens in {step["max_output_tokens"] for step in document["degradations"]}:
        why = "the device's state allows no more"
    elif num_tokens == options.max_tokens:
        why = "give more with --max-tokens"
    else:
        why = "the model's context is full"
    progress_console().print(f"(cut at {counted(num_tokens, 'token')}: {why})", style="dim")
