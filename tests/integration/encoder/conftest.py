"""The encoder of these tests, and each back end that can run it here."""

import pytest

from services.chassis.base_model import NATIVE_FILE
from services.inference.encoder.native_backend import NativeEncoderBackend
from services.inference.encoder.torch_backend import TorchEncoderBackend
from tests.support.tiny_encoder import prepare_tiny_encoder


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """A prepared tiny encoder, for reading."""
    return prepare_tiny_encoder(tmp_path_factory.mktemp("home"))


@pytest.fixture(params=["native", "torch"])
def backend(request, tiny):
    """A back end without a model yet."""
    if request.param == "torch":
        return TorchEncoderBackend(num_threads=1)
    if not (tiny / NATIVE_FILE).is_file():
        pytest.skip(NativeEncoderBackend.probe() or "no packed file")
    return NativeEncoderBackend(num_threads=1)
