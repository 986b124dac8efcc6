"""`edgelora adapters add` and `install`: from a directory, or from a remote."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import click

from edgelora.adapter_upload import Progress, file_sizes
from edgelora.cli.adapter_versions import (
    LowerVersion,
    cut_versions,
    kept_versions,
    parse_ranks,
)
from edgelora.cli.messages import adapter_document, alias_document
from edgelora.cli.node_call import call_node
from edgelora.cli.output import print_json
from edgelora.cli.places import connection_options, json_option
from edgelora.client import EdgeLoraClient
from edgelora.toolchain.progress import Bar, progress_bar
from edgelora.v1.gateway_service_pb2 import RegisterAdapterResponse

CommandT = TypeVar("CommandT", bound=Callable[..., Any])


def _naming_options(command: CommandT) -> CommandT:
    """Adds --alias, --replace, --expect and --description."""
    command = click.option("--description", default="", help="Free text, at most 500 characters.")(
        command
    )
    command = click.option(
        "--expect",
        type=click.IntRange(min=0),
        metavar="GENERATION",
        help="Replace the alias only at this generation; 0: only if there is none.",
    )(command)
    command = click.option("--replace", is_flag=True, help="Let an alias that exists point to it.")(
        command
    )
    return click.option("--alias", default="", help="Name for it: letters, digits, '.', '_', '-'.")(
        command
    )


@click.command()
@click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path))
@_naming_options
@click.option(
    "--ranks",
    callback=parse_ranks,
    metavar="RANK,...",
    help="Register versions of it cut to these lower ranks too, such as 16,32.",
)
@connection_options
@json_option
def add(
    directory: Path,
    alias: str,
    replace: bool,
    expect: int | None,
    description: str,
    ranks: tuple[int, ...],
    as_json: bool,
    **where: Any,
) -> None:
    """Register the PEFT adapter in DIRECTORY.

    The node verifies it against its base model before anything can use it. A probe.jsonl beside it,
    with lines such as {"prompt": "...", "answer": "..."}, goes with it: what compression costs is
    measured on these too. So goes a card.json, {"description": "...", "examples": ["...", ...]}: it
    tells which prompts the adapter is meant for, by which the router chooses. A classifier of an
    encoder brings its labels in a head.json.

    With --ranks, versions of lower ranks go with it, each the nearest there is; those that
    `edgelora train` kept in DIRECTORY go with it anyway. The node serves them in its place while
    the device is too hot for its rank.

    \b
    Examples:
      edgelora adapters add ./my-adapter --alias mail --tenant office
      edgelora adapters add ./my-adapter --alias mail --expect 3 --tenant office
      edgelora adapters add ./my-adapter --alias mail --ranks 16,32 --tenant office
    """
    _check(alias, expect)
    kept = kept_versions(directory)
    if ranks and kept:
        raise click.UsageError("DIRECTORY holds versions of lower ranks already: leave out --ranks")
    for source in (directory, *(version.directory for version in kept)):
        file_sizes(source)

    async def upload(client: EdgeLoraClient, source: Path, **more: Any) -> RegisterAdapterResponse:
        with _progress(f"Uploading {source.name}") as on_progress:
            return await client.register_adapter(
                source, description=description, on_progress=on_progress, **more
            )

    async def upload_all(
        client: EdgeLoraClient, versions: Sequence[LowerVersion]
    ) -> tuple[RegisterAdapterResponse, list[RegisterAdapterResponse]]:
        original = await upload(
            client, directory, alias=alias, replace_alias=replace, expected_generation=expect
        )
        digest = original.adapter.digest
        return original, [
            await upload(client, version.directory, version_of_digest=digest)
            for version in versions
        ]

    with TemporaryDirectory(prefix="edgelora-") as place:
        versions = kept or cut_versions(directory, ranks, Path(place))
        original, registered = call_node(where, lambda client: upload_all(client, versions))
    if as_json:
        print_json(
            {
                **_document(original),
                "versions": [
                    {**_document(response), "relative_error": version.relative_error}
                    for version, response in zip(versions, registered, strict=True)
                ],
            }
        )
        return
    click.echo(_line(original))
    for version, response in zip(versions, registered, strict=True):
        away = version.relative_error
        distance = "" if away is None else f": {away * 100:.1f} % away from it"
        click.echo(f"{_line(response)}, its version of rank {version.rank}{distance}")


@click.command()
@click.argument("package")
@_naming_options
@connection_options
@json_option
def install(
    package: str,
    alias: str,
    replace: bool,
    expect: int | None,
    description: str,
    as_json: bool,
    **where: Any,
) -> None:
    """Bring PACKAGE from a remote of the node and register it.

    PACKAGE is REMOTE/NAME, REMOTE/NAME:TAG or REMOTE/NAME@sha256:DIGEST. The operator names the
    remotes in HOME/remotes.toml. What was cut goes on where it stopped when installed again.

    \b
    Examples:
      edgelora adapters install shop/mail:v2 --alias mail --tenant office
      edgelora adapters install usb/letters --alias mail --replace --tenant office
    """
    _check(alias, expect)
    with _progress(f"Installing {package}") as on_progress:
        response = call_node(
            where,
            lambda client: client.install_adapter(
                package,
                alias=alias,
                description=description,
                replace_alias=replace,
                expected_generation=expect,
                on_progress=on_progress,
            ),
        )
    if as_json:
        print_json(_document(response))
    else:
        click.echo(_line(response))


def _check(alias: str, expect: int | None) -> None:
    if expect is not None and not alias:
        raise click.UsageError("--expect needs --alias, whose generation it is")


@contextmanager
def _progress(title: str) -> Iterator[Progress]:
    """A bar on standard error that appears with the first bytes."""
    with ExitStack() as shown:
        bar: Bar | None = None
        done = 0

        def advance(now_done: int, total: int) -> None:
            nonlocal bar, done
            if bar is None:
                bar = shown.enter_context(progress_bar(title, total or None))
            bar.advance(now_done - done)
            done = now_done

        yield advance


def _document(response: RegisterAdapterResponse) -> dict[str, Any]:
    return {
        "adapter": adapter_document(response.adapter),
        "alias": alias_document(response.alias) if response.HasField("alias") else None,
        "is_new": response.is_new,
    }


def _line(response: RegisterAdapterResponse) -> str:
    what = "registered" if response.is_new else "was registered before:"
    alias = response.alias
    has_alias = response.HasField("alias")
    name = f" as {alias.name} (generation {alias.generation})" if has_alias else ""
    return f"{what} {response.adapter.digest}{name}"
