"""`edgelora doctor`: says whether this machine can carry the load."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path

import click

from edgelora.cli.device_checks import Level, device_findings
from edgelora.cli.output import output_console, print_json
from edgelora.cli.places import home_option, json_option, layout_of
from edgelora.cli.sensor_checks import sensor_findings
from edgelora.cli.software_checks import software_findings

_STYLES = {Level.OK: "green", Level.WARNING: "yellow", Level.PROBLEM: "red", Level.UNKNOWN: "dim"}


@click.command()
@home_option
@json_option
def doctor(home: Path, as_json: bool) -> int:
    """Check cores, memory, disk, sensors and software; exit 1 when something must be changed.

    \b
    Examples:
      edgelora doctor
      edgelora doctor --json
    """
    findings = [
        *device_findings(Path("/")),
        *sensor_findings(Path("/"), os.environ),
        *software_findings(layout_of(home), os.environ),
    ]
    num_problems = sum(finding.level is Level.PROBLEM for finding in findings)
    if as_json:
        print_json({"ok": num_problems == 0, "findings": [asdict(finding) for finding in findings]})
        return min(num_problems, 1)
    console = output_console()
    width = max(len(finding.name) for finding in findings)
    for finding in findings:
        console.print(f"{finding.level.value:8}", style=_STYLES[finding.level], end="")
        console.print(f" {finding.name:{width}}  {finding.text}")
    if num_problems:
        console.print(f"\n{num_problems} to change before this machine can carry the load")
    else:
        console.print("\nThis machine can carry the load")
    return min(num_problems, 1)
