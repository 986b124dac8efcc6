"""Encodes an adapter for a base model ahead of time, so that its nodes need not."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from edgelora.adapter_format import adapter_digest, read_adapter
from edgelora.adapter_format.codec import VERSION, encode
from edgelora.adapter_format.codec.layout import FEATURE_MULTIPLE, MAX_RANK
from edgelora.adapter_package import EncodedForm
from edgelora.adapter_upload import FILE_NAMES, file_sizes
from edgelora.errors import AdapterIncompatibleError


def encode_adapter(
    directory: Path,
    *,
    base_digest: str,
    targets: Mapping[str, tuple[int, int]],
    num_layers: int,
    level: float,
) -> EncodedForm:
    """Reads a PEFT adapter as a node does, and encodes it at one of the codec's levels.

    `targets`: linear modules of the base model -> (out_features, in_features). Raises
    AdapterRejectedError, and AdapterIncompatibleError when it is not of that base model.
    """
    file_sizes(directory)
    config_file, weights_file = (directory / name for name in FILE_NAMES)
    data = weights_file.read_bytes()
    config, weights = read_adapter(
        config_file.read_bytes(), data, targets=targets, num_layers=num_layers, max_rank=MAX_RANK
    )
    if any(size % FEATURE_MULTIPLE for _, module in weights.pairs for size in targets[module]):
        raise AdapterIncompatibleError(
            f"modules of this base model are no multiples of {FEATURE_MULTIPLE} large: "
            "its nodes serve the original, so pack it without a model",
            field="weights",
        )
    digest = adapter_digest(config, data)
    return EncodedForm(
        base_digest=base_digest,
        codec_version=VERSION,
        data=encode(weights, digest=digest, base_digest=base_digest, level=level),
    )
