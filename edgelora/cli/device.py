"""`edgelora device`: the device's pressure, and what sources outside of it report."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import click

from edgelora.cli.device_view import pressure_lines, reading_lines
from edgelora.cli.errors import CliError
from edgelora.cli.messages import message_document
from edgelora.cli.node_call import call_node
from edgelora.cli.output import output_console, print_json, progress_console
from edgelora.cli.places import admin_options, admin_target, connection_options, json_option
from edgelora.client import AdminClient
from edgelora.errors import DeadlineExceededError, ServiceUnavailableError
from edgelora.v1.monitor_service_pb2 import BatteryState

MIN_INTERVAL_S = 0.1
_STATES = {
    "charging": BatteryState.BATTERY_STATE_CHARGING,
    "discharging": BatteryState.BATTERY_STATE_DISCHARGING,
    None: BatteryState.BATTERY_STATE_UNSPECIFIED,
}


def _temperatures(
    ctx: click.Context, param: click.Parameter, texts: tuple[str, ...]
) -> dict[str, float]:
    """Reads NAME=CELSIUS."""
    temperatures: dict[str, float] = {}
    for text in texts:
        name, _, celsius = text.partition("=")
        if name in temperatures:
            raise click.BadParameter("give each temperature once", ctx, param)
        try:
            temperatures[name] = float(celsius)
        except ValueError:
            raise click.BadParameter("write it as cabin=47.5, in °C", ctx, param) from None
    return temperatures


def _seconds(ctx: click.Context, param: click.Parameter, text: str | None) -> float | None:
    """Reads a duration."""
    if text is None:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|)", text)
    seconds = float(match[1]) * (0.001 if match[2] == "ms" else 1.0) if match else 0.0
    if seconds < MIN_INTERVAL_S:
        raise click.BadParameter("write at least 100ms, for example 1s", ctx, param)
    return seconds


@click.group()
def device() -> None:
    """Show the device's pressure; report what sources outside of it measure.

    \b
    Examples:
      edgelora device show --tenant office
      edgelora device report --source vehicle --battery 0.18 --discharging --temperature cabin=47
      edgelora device report --source vehicle --withdraw
    """


@device.command()
@connection_options
@json_option
def show(as_json: bool, **where: Any) -> None:
    """Show the pressure of each dimension and why, readings, GPUs, reporting sources, processes."""
    response = call_node(where, lambda client: client.status())
    if not response.HasField("pressure"):
        raise CliError("the monitor does not answer: the device's state is unknown")
    if as_json:
        print_json(
            {
                "pressure": message_document(response.pressure),
                "device": message_document(response.device),
            }
        )
        return
    console = output_console()
    for line in (*pressure_lines(response.pressure), *reading_lines(response.device)):
        console.print(line)


@device.command()
@click.option("--source", required=True, help="Who reports, for example vehicle.")
@click.option("--battery", type=click.FloatRange(0, 1), help="Its battery's charge, 0 to 1.")
@click.option("--discharging", "state", flag_value="discharging", help="The charge falls.")
@click.option("--charging", "state", flag_value="charging", help="It does not.")
@click.option(
    "--temperature",
    "temperatures",
    metavar="NAME=CELSIUS",
    multiple=True,
    callback=_temperatures,
    help="A temperature, degrees Celsius; again for each further one.",
)
@click.option("--every", "every_s", callback=_seconds, help="Go on until Ctrl-C, such as 1s.")
@click.option("--withdraw", is_flag=True, help="Forget the source: it went away for good.")
@admin_options
def report(
    source: str,
    battery: float | None,
    state: str | None,
    temperatures: dict[str, float],
    every_s: float | None,
    withdraw: bool,
    admin_address: str | None,
    home: Path,
    as_json: bool,
) -> None:
    """Tell the node what SOURCE has measured, or that it went away.

    A report is good for 3 s. A source that falls silent is unknown until it reports again or is
    withdrawn. Works for whoever may open the admin socket: the user that runs the stack.
    """
    if not (withdraw or temperatures or battery is not None or state):
        raise click.UsageError("give --battery, --temperature or --withdraw")
    if withdraw and (battery is not None or state or temperatures or every_s):
        raise click.UsageError("--withdraw takes no readings: report, or withdraw")

    async def tell(admin: AdminClient) -> None:
        if withdraw:
            await admin.withdraw_device(source)
            return
        await admin.report_device(
            source,
            battery_charge=battery,
            battery_state=_STATES[state],
            temperatures=temperatures,
        )

    asyncio.run(_tell(admin_target(admin_address, home), tell, every_s))
    if as_json:
        print_json({"source": source, "is_withdrawn": withdraw})
    elif withdraw:
        click.echo(f"withdrew {source}")
    else:
        click.echo(
            f"reported {source}: unknown in a few seconds, until it reports again (--every 1s) "
            "or is withdrawn (--withdraw)"
        )


async def _tell(
    address: str, tell: Callable[[AdminClient], Awaitable[None]], every_s: float | None
) -> None:
    """Reports once, or for ever; then a node that restarts or hangs meanwhile is waited for."""
    async with AdminClient(address) as admin:
        await tell(admin)
        if every_s is None:
            return
        console = progress_console()
        console.print("reporting until Ctrl-C; then the source is unknown until it is withdrawn")
        while True:
            await asyncio.sleep(every_s)
            try:
                await tell(admin)
            except (ServiceUnavailableError, DeadlineExceededError) as error:
                console.print(error.message)
