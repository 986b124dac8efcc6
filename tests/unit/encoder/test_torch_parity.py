"""The torch encoder equals transformers and PEFT in float32, alone and in mixed company."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import BertModel

from edgelora.adapter_format.weights import AdapterWeights, LoraPair
from services.inference.backends.base import SlotWeight, UnfitAdapterError
from services.inference.encoder.backend import EncoderLimits, EncoderText
from services.inference.encoder.torch_backend import TorchEncoderBackend
from tests.support.tiny_encoder import LAYERS, TARGETS, module_path, save_tiny_encoder

TOLERANCE = 1e-4


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    directory = tmp_path_factory.mktemp("encoder")
    save_tiny_encoder(directory)
    return directory


@pytest.fixture(scope="module")
def backend(place):
    backend = TorchEncoderBackend(num_threads=1)
    backend.load_model(place, EncoderLimits(max_loras=4, max_lora_rank=8))
    return backend


def tokens(length, seed=0):
    return np.random.default_rng(seed).integers(5, 60, length).astype(np.int32)


def text(token_ids, *uses, pooling="mean"):
    return EncoderText(
        token_ids=token_ids,
        adapters=tuple(SlotWeight(slot, weight) for slot, weight in uses),
        pooling=pooling,
    )


def random_weights(modules, seed, rank=4):
    rng = np.random.default_rng(seed)
    return AdapterWeights(
        {
            (layer, module): LoraPair(
                (rng.standard_normal((rank, TARGETS[module][1])) * 0.3).astype(np.float32),
                (rng.standard_normal((TARGETS[module][0], rank)) * 0.3).astype(np.float32),
                0.5 + seed,
            )
            for layer in range(LAYERS)
            for module in modules
        }
    )


@pytest.mark.parametrize("pooling", ["mean", "cls", "pooler"])
@pytest.mark.parametrize("length", [1, 7, 64])
def test_the_base_equals_transformers(place, backend, pooling, length):
    ids = tokens(length)
    with torch.inference_mode():
        output = BertModel.from_pretrained(place).eval()(torch.tensor(ids[None]).long())
    hidden = output.last_hidden_state[0]
    expected = {"mean": hidden.mean(0), "cls": hidden[0], "pooler": output.pooler_output[0]}
    actual = backend.encode([text(ids, pooling=pooling)])[0]
    assert np.abs(actual - expected[pooling].numpy()).max() < TOLERANCE


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")
@pytest.mark.parametrize("modules", [("query", "value"), tuple(TARGETS)])
def test_an_adapter_equals_peft(place, backend, modules):
    weights = random_weights(modules, seed=1)
    config = LoraConfig(
        r=4,
        lora_alpha=6,  # a scaling of 1.5
        target_modules=[*{module.split(".")[-1] for module in modules}],
        exclude_modules=["pooler.dense"],
    )
    model = get_peft_model(BertModel.from_pretrained(place), config).eval()
    state = model.state_dict()
    for (layer, module), pair in weights.pairs.items():
        path = f"base_model.model.{module_path(layer, module)}"
        state[f"{path}.lora_A.default.weight"].copy_(torch.from_numpy(pair.lora_a))
        state[f"{path}.lora_B.default.weight"].copy_(torch.from_numpy(pair.lora_b))
    assert len([name for name in state if "lora_A" in name]) == len(weights.pairs)
    ids = tokens(20)
    with torch.inference_mode():
        expected = model(torch.tensor(ids[None]).long()).pooler_output[0].numpy()
    backend.load_adapter(0, weights)
    actual = backend.encode([text(ids, (0, 1.0), pooling="pooler")])[0]
    backend.unload_adapter(0)
    assert np.abs(actual - expected).max() < TOLERANCE
    plain = backend.encode([text(ids, pooling="pooler")])[0]
    assert np.abs(actual - plain).max() > 100 * TOLERANCE


def test_a_text_is_the_same_alone_and_among_others_with_other_adapters(backend):
    for slot in range(3):
        backend.load_adapter(slot, random_weights(("query", "output.dense"), seed=slot))
    uses = [(), ((0, 1.0),), ((1, 0.5),), ((2, 2.0), (0, 0.25)), ((2, 1.0),), ()]
    texts = [text(tokens(3 + 9 * n, n), *use) for n, use in enumerate(uses)]
    together = backend.encode(texts)
    alone = np.concatenate([backend.encode([each]) for each in texts])
    assert np.abs(together - alone).max() < TOLERANCE
    swapped = backend.encode([text(each.token_ids, (1, 1.0)) for each in texts])
    assert (np.abs(swapped - alone).max(axis=1) > 100 * TOLERANCE).all()


def test_what_does_not_fit_is_refused_with_the_reason(backend):
    weights = random_weights(("query",), seed=0)
    pairs = weights.pairs
    wrong = {
        "does not exist": {(LAYERS, "query"): pairs[0, "query"]},
        "has rank 9, the slots hold 1 to 8": random_weights(("query",), 0, rank=9).pairs,
        "does not have the shapes": {(0, "output.dense"): pairs[0, "query"]},
    }
    for why, these in wrong.items():
        with pytest.raises(UnfitAdapterError, match=why):
            backend.load_adapter(3, AdapterWeights(these))
