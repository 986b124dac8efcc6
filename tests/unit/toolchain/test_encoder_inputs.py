"""Measuring an encoder's inputs: damaged models are refused, layers that are off are not."""

from __future__ import annotations

import numpy as np
import pytest

from edgelora.toolchain.bert_shape import read_bert_shape
from edgelora.toolchain.encoder_inputs import MeasuredInputs, factors
from edgelora.toolchain.errors import ToolchainError
from tests.support.tiny_encoder import HIDDEN, tiny_config, tiny_tokenizer, tiny_weights


def measured(**changes: float) -> MeasuredInputs:
    """Of the tiny encoder, some of whose tensors are one number throughout."""
    vocab_size = tiny_tokenizer().get_vocab_size()
    tensors = tiny_weights(vocab_size)
    for name, value in changes.items():
        tensors[name][...] = value
    shape = read_bert_shape(tiny_config(vocab_size), has_pooler=True)
    return MeasuredInputs(shape, tensors.__getitem__)


@pytest.mark.parametrize(
    "name", ["embeddings.LayerNorm.weight", "encoder.layer.0.attention.self.query.weight"]
)
def test_a_model_that_overflows_is_refused(name):
    inputs = measured(**{name: 3e38})
    with pytest.raises(ToolchainError, match="layer 0 of the model"):
        inputs.run_layer(0)


def test_a_layer_that_is_off_leaves_its_inputs_as_they_are():
    norm = "encoder.layer.0.output.LayerNorm"
    inputs = measured(**{f"{norm}.weight": 0.0, f"{norm}.bias": 0.0})
    inputs.run_layer(0)
    before, middle = inputs.run_layer(1)
    np.testing.assert_array_equal(before, np.ones(HIDDEN, np.float32))
    assert np.isfinite(middle).all()


def test_the_largest_inputs_are_made_smaller():
    inputs = np.ones((2, 3, 4), np.float32)
    inputs[..., 1] = 16
    np.testing.assert_allclose(factors(inputs), [1, 0.25, 1, 1])
