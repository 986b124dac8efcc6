"""`edgelora bench`: dispatches to the benchmarks."""

from __future__ import annotations

from pathlib import Path

import click

from bench.peers.roster import OPTIONAL_PEERS, PEERS
from bench.registry import BENCHMARKS, run_and_print
from bench.result import BenchOptions
from bench.shapes import SHAPES
from edgelora.cli.places import home_option
from edgelora.toolchain.prepare import DEFAULT_NAME


def _peers(_context: click.Context, _parameter: click.Parameter, value: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in value.split(",") if name.strip())
    known = (*PEERS, *OPTIONAL_PEERS)
    if unknown := sorted(set(names) - set(known)):
        raise click.BadParameter(f"{', '.join(unknown)}: use {', '.join(known)}")
    return names


_SCENARIO = "scenario"
_SCENARIOS = [name.removeprefix(f"{_SCENARIO}-") for name in BENCHMARKS if _SCENARIO in name]
_NAMES = [*(name for name in BENCHMARKS if _SCENARIO not in name), _SCENARIO]


@click.command()
@click.argument("name", type=click.Choice(_NAMES))
@click.argument("scenario", type=click.Choice(_SCENARIOS), required=False)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--quick", is_flag=True, help="Under a minute on two cores; rougher figures.")
@click.option("--seed", default=1, show_default=True, help="Same seed, same load.")
@click.option("--model", default=DEFAULT_NAME, show_default=True, help="Prepared model.")
@click.option(
    "--peers",
    default=",".join(PEERS),
    show_default=True,
    callback=_peers,
    help="engine: whom to compare with (also: engine, torch); a missing one is left out.",
)
@click.option(
    "--threads", type=click.IntRange(1, 1024), default=2, show_default=True, help="Of an engine."
)
@click.option(
    "--shape", type=click.Choice(list(SHAPES)), help="engine: random weights of this shape."
)
@click.option("--address", help="A running gateway; without it a stack is started.")
@click.option(
    "--api-key-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File with the API key for --address.",
)
@home_option
def bench(
    name: str,
    scenario: str | None,
    as_json: bool,
    quick: bool,
    seed: int,
    model: str,
    peers: tuple[str, ...],
    threads: int,
    shape: str | None,
    address: str | None,
    api_key_file: Path | None,
    home: Path,
) -> int:
    """Run the benchmark NAME. Progress goes to standard error.

    \b
      engine       speed of the native core beside other engines, same prompts and adapters
      perplexity   what each engine's form of the weights costs in quality
      quant        what rounding the base model costs in quality, and saves in size and time
      sampling     choosing the tokens, beside the step that makes the logits
      worker       start, memory and idle processor time of a worker
      first-token  time to the first token of 8 tenants' prompts at once
      sessions     a conversation's next turn, once others have used the KV cache
      doors        gRPC beside the OpenAI and Ollama APIs, and what each costs the gateway
      end-to-end   throughput of clients, beside the engine alone
      serve        latency under open-loop load through the gateway
      scale        load spread over 1,000 adapters, beside the same load on 10
      warmup       first responses after a cold start, with and without forecasts
      tiers        until an adapter is ready, from memory, flash and a remote
      loads        loading inside a worker, and what its other streams notice
      constraints  what bounded output costs, and what hostile schemas do
      adapters     the adapter store with 100, 1,000 and 10,000 adapters
      export       the demo adapters as GGUF in llama.cpp, beside PEFT
      routing      choosing adapters, and what knowing who is resident saves
      classify     intents on the encoder: accuracy, memory and speed beside whole models
      codec        what an adapter loses and saves when it is kept in few bits
      priority     classes and fair shares, beside first come first served
      stress       a device that heats, drains and fills up while requests come
      scenario     `car`: a driver among others, its remote cut; `shop`: 8 requests at a time

    \b
    Examples:
      edgelora bench engine --peers llama.cpp,openvino
      edgelora bench engine --shape 1.7b
      edgelora bench serve --json --quick
      edgelora bench scenario car
    """
    if (name == _SCENARIO) != (scenario is not None):
        raise click.UsageError(
            f"`{_SCENARIO}` takes one of {', '.join(_SCENARIOS)}; no other benchmark does"
        )
    options = BenchOptions(
        quick=quick,
        seed=seed,
        model_directory=home / "models" / model,
        peers=peers,
        num_threads=threads,
        shape=shape,
        address=address,
        api_key_file=api_key_file,
        progress=lambda line: click.echo(line, err=True),
    )
    return run_and_print(f"{name}-{scenario}" if scenario else name, options, as_json=as_json)
