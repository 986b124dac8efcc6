"""Generates edgelora/v1 from protos/edgelora/v1.

`python protos/generate.py` writes the files; with `--check` it writes nothing and exits 1 when the
committed files differ from what the protos say.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from importlib import resources
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROTOS = ROOT / "protos"


def generate(output: Path) -> None:
    """Runs protoc with the Python, type stub and gRPC plug-ins into `output`."""
    from grpc_tools import protoc

    includes = str(resources.files("grpc_tools") / "_proto")
    sources = sorted(str(path.relative_to(PROTOS)) for path in PROTOS.rglob("*.proto"))
    status = protoc.main(
        [
            "protoc",
            f"--proto_path={PROTOS}",
            f"--proto_path={includes}",
            f"--python_out={output}",
            f"--pyi_out={output}",
            f"--grpc_python_out={output}",
            *sources,
        ]
    )
    if status != 0:
        raise SystemExit(f"protoc failed with status {status}")


def stale_files(fresh: Path) -> list[str]:
    """Lists generated files that are missing, different or no longer made."""
    made = {path.name: path.read_bytes() for path in (fresh / "edgelora/v1").iterdir()}
    committed = {
        path.name: path.read_bytes()
        for path in (ROOT / "edgelora/v1").iterdir()
        if "_pb2" in path.name
    }
    return sorted(
        name for name in made.keys() | committed.keys() if made.get(name) != committed.get(name)
    )


def main() -> int:
    """Parses the command line and generates or checks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only compare, write nothing")
    arguments = parser.parse_args()
    if not arguments.check:
        generate(ROOT)
        return 0
    with tempfile.TemporaryDirectory() as directory:
        generate(Path(directory))
        stale = stale_files(Path(directory))
    if stale:
        sys.stderr.write(f"out of date, run `make protos`: {', '.join(stale)}\n")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
