"""Who can take part in a comparison, and how each one is started and loaded."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bench.peers.process import PeerProcess

OURS = "native"
PEERS = ("llama.cpp", "openvino", "vllm", "peft")
"""Peers by the names `--peers` takes, in the order they are measured in."""
OPTIONAL_PEERS = ("engine", "torch")
"""Also taken by `--peers`, both ours: the whole engine, and the torch back end."""
PEERS_DIRECTORY = Path(__file__).resolve().parents[2] / ".peers"
"""Where `make bench-peers` puts an environment for each peer."""
_IN_OUR_ENVIRONMENT = {
    "native": "edgelora_native",
    "engine": "edgelora_native",
    "torch": "torch",
    "peft": "peft",
}
"""Those that need no environment of their own, and the package they need."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """One engine with one form of the model."""

    name: str
    """What its figures are called."""
    peer: str
    """`native`, one of PEERS or of OPTIONAL_PEERS."""
    module: Sequence[str]
    """What its process runs."""
    weights: str
    """Number format of the weights, for people."""
    model: str
    """The file it reads: `prepared`, `float32` (both a prepared directory), `Q4_0` or `Q4_1`."""
    adapter_files: str
    """`peft`, `safetensors` or `gguf`; `ours` are those of `peft` and, after them, small ones."""
    environ: Mapping[str, str] = field(default_factory=dict)
    windows_at_once: int = 8
    """Windows of text that are predicted side by side for the perplexity."""

    @property
    def interpreter(self) -> Path:
        """The Python that has the peer's packages."""
        if self.peer in _IN_OUR_ENVIRONMENT:
            return Path(sys.executable)
        return PEERS_DIRECTORY / self.peer / "bin/python"

    @property
    def missing(self) -> str | None:
        """Why it can not be started; None when it can."""
        if self.peer in _IN_OUR_ENVIRONMENT:
            package = _IN_OUR_ENVIRONMENT[self.peer]
            return None if find_spec(package) else f"the package {package} is not installed"
        if not (PEERS_DIRECTORY / self.peer / ".ready").exists():
            return f"not installed: run `make bench-peers PEERS={self.peer}`"
        return None

    def start(self, log_directory: Path) -> PeerProcess:
        """Starts its process, with nothing loaded yet."""
        log = log_directory / f"{self.name.replace(' ', '-')}.log"
        return PeerProcess(self.interpreter, self.module, self.environ, log)


NATIVE = Contender(
    name=OURS,
    peer="native",
    module=("bench.peers.native", "native"),
    weights="4 bit",
    model="prepared",
    adapter_files="ours",
    windows_at_once=60,
)
ENGINE = Contender(
    name="engine",
    peer="engine",
    module=("bench.peers.whole_engine",),
    weights="4 bit",
    model="prepared",
    adapter_files="ours",
)
"""The native back end under the scheduling, sampling and detokenising of a worker."""
TORCH = Contender(
    name="torch",
    peer="torch",
    module=("bench.peers.native", "torch"),
    weights="float32",
    model="float32",
    adapter_files="peft",
    windows_at_once=60,
)
_CONTENDERS = (
    *(
        Contender(
            name=f"llama.cpp {kind}",
            peer="llama.cpp",
            module=("bench.peers.llama_cpp",),
            weights=kind,
            model=kind,
            adapter_files="gguf",
        )
        for kind in ("Q4_0", "Q4_1")
    ),
    Contender(
        name="openvino",
        peer="openvino",
        module=("bench.peers.openvino",),
        weights="Q4_0",
        model="Q4_0",
        adapter_files="safetensors",
    ),
    Contender(
        name="vllm",
        peer="vllm",
        module=("bench.peers.vllm",),
        weights="bfloat16",
        model="float32",
        adapter_files="peft",
        environ={
            "HF_HUB_OFFLINE": "1",
            "VLLM_NO_USAGE_STATS": "1",
            "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
        },
    ),
    Contender(
        name="peft",
        peer="peft",
        module=("bench.peers.peft",),
        weights="float32",
        model="float32",
        adapter_files="peft",
        environ={"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"},
    ),
)


def contenders(peers: Sequence[str]) -> list[Contender]:
    """Ours, then those of the named peers in their order. Names are of PEERS, or `torch`."""
    return [
        NATIVE,
        *(one for one in (ENGINE, TORCH) if one.peer in peers),
        *(one for one in _CONTENDERS if one.peer in peers),
    ]


@dataclass(slots=True)
class Loaded:
    """A contender whose process has loaded everything."""

    contender: Contender
    process: PeerProcess
    facts: dict[str, Any]
    """What its load returned."""
    adapter_applied: bool | None = None
    """Whether an adapter changes its output; None before that was tried, or without adapters."""
