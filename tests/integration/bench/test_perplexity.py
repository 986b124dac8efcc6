"""The native form of the real model predicts real text as well as the fp32 one does."""

import os

import numpy as np
import pytest

from bench.measure import negative_log_likelihood
from bench.model_files import ModelFiles
from bench.peers.roster import NATIVE, TORCH
from bench.perplexity import VARIABLE, WINDOW_TOKENS, measure_perplexities, read_windows
from bench.result import BenchError, BenchOptions
from tests.support.prepared_model import prepared_model

pytestmark = pytest.mark.integration

MAX_LOSS = 0.02
"""Measured on 2 whole windows: 0.5 %."""


@pytest.fixture
def options():
    return BenchOptions(quick=True, model_directory=prepared_model())


def test_native_is_as_good_as_torch_within_two_percent(options):
    if VARIABLE not in os.environ:
        pytest.skip(f"{VARIABLE} is not set")
    if reason := NATIVE.missing or TORCH.missing:
        pytest.skip(reason)
    windows = read_windows(options)
    assert [len(window) for window in windows] == [WINDOW_TOKENS] * 2
    # A part of each is enough for the bound, and fp32 is slow.
    windows = [window[:128] for window in windows]
    files = ModelFiles(directory=options.model_directory)
    found = measure_perplexities([NATIVE, TORCH], files, windows, options)
    assert found["torch"].reason is None
    assert found["native"].reason is None
    assert 10 < found["torch"].value < 60
    assert found["native"].value == pytest.approx(found["torch"].value, rel=MAX_LOSS)


def test_without_the_variable_there_is_no_text(options):
    assert read_windows(options, {}) is None


def test_a_text_that_is_not_there_is_refused(options, tmp_path):
    with pytest.raises(BenchError, match=f"{VARIABLE} names no readable file"):
        read_windows(options, {VARIABLE: str(tmp_path / "none")})


def test_likelihood_is_that_of_the_definition():
    draw = np.random.default_rng(1)
    logits = draw.normal(0, 5, (4, 50)).astype(np.float32)
    ids = np.array([3, 0, 49, 7], dtype=np.int32)
    wide = logits.astype(np.float64)
    expected = -sum(
        np.log(np.exp(row)[token] / np.exp(row).sum()) for row, token in zip(wide, ids, strict=True)
    )
    assert negative_log_likelihood(logits, ids) == pytest.approx(expected, rel=1e-6)
