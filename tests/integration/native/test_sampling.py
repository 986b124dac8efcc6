"""The sampler of the native core against the definition, written out in float64."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("edgelora_native", reason="the native core is not built")

from edgelora_native import ChosenToken, Engine, Limits, NativeError, RowSampling

from services.inference.backends.numpy_sampling import sample_rows
from tests.support.native_models import LLAMA_KINDS, SMALLEST, write_model

PLAIN = RowSampling(temperature=1.0)
CUTS = {
    "temperature": RowSampling(temperature=0.7),
    "hot": RowSampling(temperature=3.0),
    "top-k": RowSampling(temperature=0.9, top_k=40),
    "top-k 1": RowSampling(temperature=0.9, top_k=1),
    "top-k above the lanes": RowSampling(temperature=1.0, top_k=900),
    "top-p": RowSampling(temperature=0.8, top_p=0.9),
    "wide top-p": RowSampling(temperature=3.0, top_p=0.95),
    "min-p": RowSampling(temperature=1.0, min_p=0.05),
    "all": RowSampling(temperature=1.2, top_k=300, top_p=0.8, min_p=0.01),
    "penalties": RowSampling(
        temperature=0.7,
        repetition_penalty=1.3,
        presence_penalty=0.5,
        frequency_penalty=0.2,
        penalised=(np.array([0, 3, 4], np.int32), np.array([0, 1, 4], np.int32)),
    ),
}
SIZES = (5, 1000, 1024, 49152)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    path: Path = tmp_path_factory.mktemp("model") / "model.edgelora"
    write_model(path, replace(SMALLEST, vocab_size=49152), LLAMA_KINDS, is_qwen=False)
    engine = Engine(
        path,
        Limits(num_kv_blocks=1, max_loras=0, max_lora_rank=1, max_step_tokens=1, num_threads=2),
    )
    yield engine
    engine.close()


def penalised(row: np.ndarray, sampling: RowSampling) -> np.ndarray:
    adjusted = row.copy()
    ids, counts = sampling.penalised or ((), ())
    for token, count in zip(ids, counts, strict=True):
        penalty = np.float32(sampling.repetition_penalty)
        value = adjusted[token]
        value = value / penalty if value > 0 else value * penalty
        if count:
            value -= np.float32(sampling.presence_penalty)
            value -= np.float32(sampling.frequency_penalty) * np.float32(count)
        adjusted[token] = value
    return adjusted


def kept_weights(row: np.ndarray, sampling: RowSampling) -> np.ndarray:
    """The weight of every token, 0 for those that are cut off."""
    values = penalised(row, sampling).astype(np.float64)
    weights = np.exp((values - values.max()) / sampling.temperature)
    order = np.lexsort((np.arange(len(row)), -values))
    kept = order[: sampling.top_k] if 0 < sampling.top_k < len(row) else order
    if sampling.top_p < 1.0:
        reached = np.cumsum(weights[kept]) >= sampling.top_p * weights[kept].sum()
        kept = kept[: int(np.argmax(reached)) + 1]
    kept = kept[weights[kept] >= sampling.min_p]
    result = np.zeros_like(weights)
    result[kept] = weights[kept]
    return result


def assert_is_drawn(
    chosen: ChosenToken | None, row: np.ndarray, sampling: RowSampling, slack: float = 2e-5
) -> None:
    """The draw lies in the chosen token's stretch, but for rounding to float32."""
    assert chosen is not None
    weights = kept_weights(row, sampling)
    ends = np.cumsum(weights) / weights.sum()
    token = chosen.token_id
    begin = ends[token - 1] if token else 0.0
    assert weights[token] > 0
    assert begin - slack <= sampling.draw <= ends[token] + slack


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", CUTS)
def test_a_draw_falls_into_the_chosen_tokens_stretch(engine: Engine, name: str, size: int) -> None:
    random = np.random.default_rng(size)
    logits = random.normal(scale=3.0, size=(24, size)).astype(np.float32)
    rows = [replace(CUTS[name], draw=float(draw)) for draw in random.random(24)]
    rows[0], rows[1] = replace(rows[0], draw=0.0), replace(rows[1], draw=1.0 - 2**-53)
    for chosen, row, sampling in zip(engine.sample(logits, rows), logits, rows, strict=True):
        assert_is_drawn(chosen, row, sampling)


@pytest.mark.parametrize("size", SIZES)
def test_greedy_takes_the_first_of_the_likeliest(engine: Engine, size: int) -> None:
    logits = np.random.default_rng(size).normal(size=(3, size)).astype(np.float32)
    logits[1, -1] = logits[1, size // 2] = 9.0
    chosen = engine.sample(logits, [RowSampling(temperature=0.0)] * 3)
    assert [c.token_id for c in chosen if c] == logits.argmax(axis=1).tolist()


@pytest.mark.parametrize("size", SIZES)
def test_log_probabilities_come_from_the_untouched_row(engine: Engine, size: int) -> None:
    logits = np.random.default_rng(size).normal(scale=2.0, size=(2, size)).astype(np.float32)
    wanted = min(20, size)
    rows = [
        replace(CUTS["penalties"], num_logprobs=wanted, draw=0.4),
        RowSampling(temperature=0.0, num_logprobs=0),
    ]
    chosen = engine.sample(logits, rows)
    exact = logits.astype(np.float64)
    exact -= np.log(np.exp(exact).sum(axis=1, keepdims=True))
    for c, row in zip(chosen, exact, strict=True):
        assert c is not None
        assert c.logprob == pytest.approx(row[c.token_id], abs=1e-5)
    first, second = chosen
    assert first is not None and second is not None
    assert second.top == ()
    best = np.lexsort((np.arange(size), -logits[0]))[:wanted]
    assert [token for token, _ in first.top] == best.tolist()
    assert [p for _, p in first.top] == pytest.approx(exact[0][best].tolist(), abs=1e-5)


def test_a_row_is_the_same_alone_and_in_company(engine: Engine) -> None:
    random = np.random.default_rng(1)
    logits = random.normal(scale=2.0, size=(len(CUTS), 49152)).astype(np.float32)
    rows = [replace(cut, draw=float(random.random()), num_logprobs=3) for cut in CUTS.values()]
    together = engine.sample(logits, rows)
    alone = [engine.sample(logits[i : i + 1], [row])[0] for i, row in enumerate(rows)]
    assert together == alone


def test_equal_logits_are_cut_by_index(engine: Engine) -> None:
    flat = np.zeros((1, 2000), np.float32)
    for cut, last in ((replace(PLAIN, top_k=10), 9), (replace(PLAIN, top_p=0.25), 499)):
        for draw in (0.0, 0.5, 1.0 - 2**-53):
            (chosen,) = engine.sample(flat, [replace(cut, draw=draw)])
            assert chosen is not None and chosen.token_id <= last
        assert chosen.token_id == last


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("at", [0, 517, 1999])
def test_what_is_not_finite_is_told(engine: Engine, value: float, at: int) -> None:
    logits = np.zeros((2, 2000), np.float32)
    logits[0, at] = value
    bad, good = engine.sample(logits, [PLAIN, PLAIN])
    assert bad is None
    assert good is not None


def test_rows_of_a_wider_matrix(engine: Engine) -> None:
    wide = np.random.default_rng(2).normal(size=(3, 64)).astype(np.float32)
    wide[:, 50:] = 100.0
    chosen = engine.sample(wide[:, :50], [RowSampling(temperature=0.0)] * 3)
    assert [c.token_id for c in chosen if c] == wide[:, :50].argmax(axis=1).tolist()


MASKS = {
    "all": lambda size, random: np.ones(size, bool),
    "most": lambda size, random: random.random(size) < 0.98,
    "half": lambda size, random: random.random(size) < 0.5,
    "few": lambda size, random: random.random(size) < 3 / size,
    "one": lambda size, random: np.arange(size) == size - 1,
    "a block": lambda size, random: (np.arange(size) >= size // 3) & (np.arange(size) < size // 2),
}


def words(allowed: np.ndarray) -> np.ndarray:
    """A mask of 32-bit words; the bits behind the last token are set."""
    padded = np.ones(-(-len(allowed) // 32) * 32, bool)
    padded[: len(allowed)] = allowed
    return np.packbits(padded, bitorder="little").view(np.uint32)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("name", CUTS)
def test_only_tokens_of_the_mask_take_part(engine: Engine, name: str, mask: str, size: int) -> None:
    random = np.random.default_rng(size)
    allowed = MASKS[mask](size, random)
    allowed[0] |= not allowed.any()
    logits = random.normal(scale=3.0, size=(12, size)).astype(np.float32)
    masked = replace(CUTS[name], mask=words(allowed), num_logprobs=2)
    rows = [replace(masked, draw=float(draw)) for draw in random.random(12)]
    rows[0] = replace(masked, temperature=0.0)
    chosen = engine.sample(logits, rows)
    ids = np.flatnonzero(allowed)
    unmasked = engine.sample(logits, [replace(row, mask=None) for row in rows])
    for one, free, row, sampling in zip(chosen, unmasked, logits, rows, strict=True):
        assert one is not None and free is not None
        adjusted = penalised(row, sampling)[allowed]
        position = int(np.searchsorted(ids, one.token_id))
        assert ids[position] == one.token_id
        if sampling.temperature == 0:
            assert position == int(adjusted.argmax())
        else:
            at = replace(one, token_id=position)
            assert_is_drawn(at, adjusted, replace(sampling, penalised=None))
        # Log probabilities are those of the untouched row.
        assert one.top == free.top
    if mask == "all":
        assert chosen == unmasked


@pytest.mark.parametrize("mask", MASKS)
def test_the_reference_in_numpy_chooses_the_same_of_a_mask(engine: Engine, mask: str) -> None:
    random = np.random.default_rng(11)
    size = 2000
    logits = random.normal(scale=3.0, size=(len(CUTS), size)).astype(np.float32)
    allowed = MASKS[mask](size, random)
    rows = [
        replace(cut, draw=float(random.random()), mask=words(allowed), num_logprobs=3)
        for cut in CUTS.values()
    ]
    rows[0] = replace(rows[0], temperature=0.0)
    ours = engine.sample(logits, rows)
    reference = sample_rows(logits, rows)  # type: ignore[arg-type]
    for name, row, sampling, one, other in zip(CUTS, logits, rows, ours, reference, strict=True):
        assert one is not None and other is not None
        assert dict(one.top) == pytest.approx(dict(other.top), abs=1e-5)
        if "top" in name or name == "all":
            # It goes through what is left from the best on, and so draws another of the same.
            adjusted = penalised(row, sampling)[allowed]
            position = int(np.searchsorted(np.flatnonzero(allowed), other.token_id))
            assert kept_weights(adjusted, replace(sampling, penalised=None))[position] > 0
        else:
            assert one.token_id == other.token_id
    empty = replace(PLAIN, mask=np.zeros(63, np.uint32))
    assert sample_rows(logits[:1], [empty]) == [None]  # type: ignore[list-item]


def test_a_mask_acts_on_its_own_row(engine: Engine) -> None:
    logits = np.random.default_rng(3).normal(size=(4, 1000)).astype(np.float32)
    greedy = RowSampling(temperature=0.0)
    last = words(np.arange(1000) == 999)
    chosen = engine.sample(logits, [greedy, replace(greedy, mask=last), PLAIN, greedy])
    free = engine.sample(logits, [greedy, greedy, PLAIN, greedy])
    assert [c.token_id for c in chosen if c][1] == 999
    assert [chosen[0], *chosen[2:]] == [free[0], *free[2:]]


def test_an_empty_mask_fails_its_row_alone(engine: Engine) -> None:
    logits = np.zeros((2, 1000), np.float32)
    # The bits that are set lie behind the last token.
    empty = replace(PLAIN, mask=words(np.zeros(1000, bool)))
    bad, good = engine.sample(logits, [empty, PLAIN])
    assert bad is None
    assert good is not None


def test_what_is_not_finite_is_told_where_the_mask_leaves_it_out(engine: Engine) -> None:
    logits = np.zeros((1, 1000), np.float32)
    logits[0, 5] = np.nan
    assert engine.sample(logits, [replace(PLAIN, mask=words(np.arange(1000) != 5))]) == [None]


def test_a_mask_of_another_kind_is_refused(engine: Engine) -> None:
    logits = np.zeros((1, 1000), np.float32)
    with pytest.raises(ValueError, match="needs 32"):
        engine.sample(logits, [replace(PLAIN, mask=np.zeros(31, np.uint32))])
    with pytest.raises(ValueError, match="uint32"):
        engine.sample(logits, [replace(PLAIN, mask=np.zeros(32, np.int64))])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "sampling",
    [
        replace(PLAIN, temperature=-1.0),
        replace(PLAIN, temperature=float("nan")),
        replace(PLAIN, top_k=-1),
        replace(PLAIN, top_p=0.0),
        replace(PLAIN, top_p=float("nan")),
        replace(PLAIN, min_p=1.5),
        replace(PLAIN, draw=1.0),
        replace(PLAIN, repetition_penalty=0.0),
        replace(PLAIN, num_logprobs=21),
        replace(PLAIN, penalised=(np.array([40], np.int32), np.array([0], np.int32))),
        replace(PLAIN, penalised=(np.array([-1], np.int32), np.array([0], np.int32))),
    ],
)
def test_settings_out_of_range_are_refused(engine: Engine, sampling: RowSampling) -> None:
    with pytest.raises(NativeError):
        engine.sample(np.zeros((1, 40), np.float32), [sampling])


def test_arrays_of_another_kind_are_refused(engine: Engine) -> None:
    with pytest.raises(ValueError, match="float32"):
        engine.sample(np.zeros((1, 40), np.float64), [PLAIN])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="settings for 2"):
        engine.sample(np.zeros((1, 40), np.float32), [PLAIN, PLAIN])
    with pytest.raises(NativeError, match="more tokens"):
        engine.sample(np.zeros((1, 50000), np.float32), [PLAIN])
