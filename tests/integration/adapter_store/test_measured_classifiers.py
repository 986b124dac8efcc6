"""Adapters of an encoder are tried with the native core before anything can use them."""

import numpy as np
import pytest

from edgelora.errors import AdapterRejectedError
from edgelora.toolchain.prepare import prepare
from services.adapter_store.bases import ServedBases
from services.adapter_store.verification.measuring_base import open_measuring_base
from services.adapter_store.verification.verifier import Verifier
from services.chassis.base_model import FLOAT32_FILE
from tests.support.adapter_files import AdapterFiles, safetensors_bytes
from tests.support.tiny_encoder import (
    classifier_files,
    embedding_files,
    encoder_config,
    encoder_tensors,
    head_bytes,
    save_tiny_source,
    tiny_weights,
)

pytestmark = pytest.mark.integration
LABELS = ("pay", "move", "alarm")


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    place = tmp_path_factory.mktemp("encoder")
    save_tiny_source(place / "source")
    model = prepare(place / "source", place, "tiny", weights="native")
    return place / "models" / "tiny", model


async def verify(encoder, directory, files):
    async with open_measuring_base(
        None,
        None,
        max_rank=8,
        is_encoding=True,
        max_mean_kl=1.0,
        encoder=encoder[1],
        encoder_directory=encoder[0],
    ) as found:
        assert found.measuring is None
        assert found.why_encoder_not_measured == ""
        verifier = Verifier(
            ServedBases(encoder=encoder[1]),
            max_rank=8,
            timeout_s=60,
            max_concurrent=1,
            why_not_measured=found.why_not_measured,
            encoder_measuring=found.encoder_measuring,
        )
        paths = [directory / name for name in ("config", "weights", "head")]
        for path, data in zip(paths, (files.config, files.weights, files.head), strict=True):
            path.write_bytes(data)
        config, weights, head = paths
        return await verifier.verify(
            config, weights, None, directory / "encoded", head=head if files.head else None
        )


@pytest.mark.parametrize(
    ("files", "changes"),
    [
        (classifier_files(LABELS), True),
        (embedding_files(), True),
        (
            AdapterFiles(encoder_config(()), safetensors_bytes(encoder_tensors((), num_labels=3))),
            False,
        ),
    ],
)
async def test_effect_is_measured_and_certified(encoder, tmp_path, files, changes):
    found = await verify(encoder, tmp_path, files)
    certificate = found.certificate
    assert certificate.measurement is not None
    assert certificate.measurement.engine == "edgelora_native"
    assert certificate.measurement.canary.largest == ()
    assert (certificate.measurement.canary.largest_change > 0) == changes
    assert certificate.why_not_measured == ""
    assert "kept exact" in certificate.why_exact
    assert found.encoded is None


def scaled(factor):
    """A classifier whose factors B are that much larger."""
    named = {
        name: tensor * np.float32(factor if "lora_B" in name else 1)
        for name, tensor in encoder_tensors(num_labels=3).items()
    }
    return AdapterFiles(encoder_config(), safetensors_bytes(named), head=head_bytes(LABELS))


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        (scaled(1e-30), "changes nothing"),
        (AdapterFiles(encoder_config(r=16), safetensors_bytes(encoder_tensors(rank=16))), "rank"),
    ],
)
async def test_adapter_without_a_sound_effect_is_refused(encoder, tmp_path, files, reason):
    with pytest.raises(AdapterRejectedError, match=reason):
        await verify(encoder, tmp_path, files)
    assert not (tmp_path / "encoded").exists()


async def test_pooling_that_the_encoder_does_not_have_is_refused(tmp_path):
    vocab_size = save_tiny_source(tmp_path / "source")
    weights = {n: t for n, t in tiny_weights(vocab_size).items() if "pooler" not in n}
    (tmp_path / "source" / FLOAT32_FILE).write_bytes(safetensors_bytes(weights))
    model = prepare(tmp_path / "source", tmp_path, "bare", weights="native")
    bare = tmp_path / "models" / "bare", model
    with pytest.raises(AdapterRejectedError, match="no pooler") as caught:
        await verify(bare, tmp_path, classifier_files(LABELS, pooling="pooler"))
    assert caught.value.field == "head.pooling"
    assert (await verify(bare, tmp_path, classifier_files(LABELS, pooling="cls"))).head
