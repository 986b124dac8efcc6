"""How much memory calibrated rounding takes for a model of about 1B weights (random ones).

    python -m bench.quantisation_memory --vocabulary model.gguf --calibration text.txt

Slow: a quarter of an hour and more. Prints JSON. Memory is that of the process's own pages
(RssAnon) and, apart, all resident pages, among them those of the mapped source, which the system
takes back when others need them. Every layer takes the same memory and time:
`--layers` shortens the run, and the rounded matrices are then fewer.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import tempfile
import threading
from pathlib import Path

from bench.random_gguf import write_random_gguf
from bench.shapes import SHAPES
from edgelora.toolchain.gguf_source import open_gguf
from edgelora.toolchain.quantisation.options import QuantisationOptions, SizeBudget
from edgelora.toolchain.quantisation.quantise import quantise

_LAYERS = 14
"""Of the 1.7B shape: 1.04 billion weights."""
_INTERVAL_SECONDS = 0.05


class _Watch(threading.Thread):
    """Looks at this process again and again."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.own_bytes = self.resident_bytes = 0
        self._ended = threading.Event()

    def run(self) -> None:
        while not self._ended.wait(_INTERVAL_SECONDS):
            status = Path("/proc/self/status").read_text(encoding="utf-8")
            fields = dict(line.split(":", 1) for line in status.splitlines())
            self.own_bytes = max(self.own_bytes, _bytes(fields["RssAnon"]))
            self.resident_bytes = max(self.resident_bytes, _bytes(fields["VmRSS"]))

    def end(self) -> None:
        self._ended.set()
        self.join()


def _bytes(field: str) -> int:
    return int(field.split()[0]) * 1024


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--vocabulary", type=Path, required=True, help="GGUF with the tokenizer.")
    parser.add_argument("--calibration", type=Path, required=True, help="A text.")
    parser.add_argument("--layers", type=int, default=_LAYERS)
    parser.add_argument("--inputs", type=int, default=16)
    arguments = parser.parse_args()
    shape = dataclasses.replace(SHAPES["1.7b"], num_layers=arguments.layers)
    with tempfile.TemporaryDirectory(prefix="edgelora-bench-") as directory:
        source = Path(directory) / "random.gguf"
        write_random_gguf(source, shape, vocabulary=arguments.vocabulary, seed=0)
        options = QuantisationOptions(
            calibration=arguments.calibration,
            inputs=arguments.inputs,
            held_out_inputs=2,
            # Below what the source takes, so that nothing stays as it is.
            size_budget=SizeBudget(bits_per_weight=4.51),
        )
        watch = _Watch()
        watch.start()
        report = quantise(open_gguf(source), options).report
        watch.end()
    print(
        json.dumps(
            {
                "weights": report.num_weights,
                "layers": arguments.layers,
                "inputs": arguments.inputs,
                "seconds": report.seconds,
                "own_peak_bytes": watch.own_bytes,
                "resident_peak_bytes": watch.resident_bytes,
            }
        )
    )


if __name__ == "__main__":
    main()
