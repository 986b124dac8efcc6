"""Decodes on one thread while another loads and unloads adapters: `native_churn.py MODEL ROWS`.

Every row must have the bits of the adapter its slot held. Ends after ROWS rows with each adapter.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from pathlib import Path

import numpy as np
from edgelora_native import AdapterFactors, Chunk, Engine, Limits, NativeError

HIDDEN, QUERY, INNER, LAYERS = 64, 128, 96, 2
"""The Llama-like model of native_models.py."""
SLOTS = 2
LIMITS = Limits(
    num_kv_blocks=8, max_loras=SLOTS, max_lora_rank=8, max_step_tokens=32, num_threads=2
)
SIZES = {"q_proj": (QUERY, HIDDEN), "o_proj": (HIDDEN, QUERY), "down_proj": (HIDDEN, INNER)}


def adapter(seed: int, rank: int) -> list[AdapterFactors]:
    """Random factors for some modules of every layer."""
    rng = np.random.default_rng(seed)
    return [
        AdapterFactors(
            layer,
            module,
            rng.normal(0, 0.2, (rank, columns)).astype(np.float32),
            rng.normal(0, 0.2, (rows, rank)).astype(np.float32),
            1.5,
        )
        for layer in range(LAYERS)
        for module, (rows, columns) in SIZES.items()
    ]


def row(block: int, slot: int | None) -> Chunk:
    """One prompt, with the adapter of a slot."""
    return Chunk(
        token_ids=np.arange(5, dtype=np.int32),
        start_position=0,
        block_table=[block],
        adapters=[] if slot is None else [(slot, 1.0)],
        needs_logits=True,
    )


def main(model: Path, num_rows: int) -> None:
    """Raises AssertionError for a row that is neither refused nor right."""
    engine = Engine(model, LIMITS)
    adapters = [adapter(seed, rank) for seed, rank in enumerate((2, 5, 8))]
    expected: list[bytes] = []
    for each in adapters:
        engine.load_adapter(0, each)
        expected.append(engine.forward([row(0, 0)]).tobytes())
        engine.unload_adapter(0)
    base = engine.forward([row(0, None)]).tobytes()
    assert len({base, *expected}) == len(adapters) + 1

    enough = threading.Event()
    failures: list[BaseException] = []
    num_swaps = 0

    def swap() -> None:
        nonlocal num_swaps
        while not enough.is_set():
            slot, kind = num_swaps % SLOTS, num_swaps // SLOTS % len(adapters)
            try:
                engine.unload_adapter(slot)
            except NativeError as error:
                assert "in use" in str(error), error
                continue
            engine.load_adapter(slot, adapters[kind])
            num_swaps += 1

    def guarded_swap() -> None:
        try:
            swap()
        except BaseException as error:
            failures.append(error)

    served: Counter[int] = Counter()
    step = 0
    second = threading.Thread(target=guarded_swap)
    second.start()
    try:
        while not failures and (
            num_swaps < num_rows or any(served[kind] < num_rows for kind in range(len(adapters)))
        ):
            step += 1
            # Now and then the slots are left alone, or they would be held nearly always.
            slot = None if step % 3 == 0 else step % SLOTS
            try:
                first, other = engine.forward([row(0, None), row(1, slot)])
            except NativeError as error:
                assert slot is not None and "holds nothing" in str(error), error
                continue
            assert first.tobytes() == base
            if slot is None:
                assert other.tobytes() == base
            else:
                assert other.tobytes() in expected, "a row has the bits of no adapter"
                served[expected.index(other.tobytes())] += 1
    finally:
        enough.set()
        second.join()
    assert not failures, failures


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
