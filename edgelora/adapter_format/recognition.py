"""Which kind of base model an adapter is for, before anything of it is believed."""

from __future__ import annotations

from edgelora.adapter_format.architecture import DECODER, ENCODER, Architecture
from edgelora.adapter_format.config_parser import MAX_CONFIG_BYTES
from edgelora.adapter_format.encoder import CLASSIFIER
from edgelora.adapter_format.strict_json import parse_object
from edgelora.adapter_format.tensor_file import Buffer, read_header
from edgelora.error_tree import AdapterRejectedError


def recognise(config: bytes, weights: Buffer) -> Architecture | None:
    """What the names of the tensors say, or else the config's task_type; None when neither does.

    Files that can not be read say nothing: whoever reads them in full says why.
    """
    try:
        names = [entry.name for entry in read_header(memoryview(weights))[0]]
    except AdapterRejectedError:
        names = []
    for architecture in (DECODER, ENCODER):
        if any(architecture.factor.fullmatch(name) for name in names):
            return architecture
    if any(CLASSIFIER.fullmatch(name) for name in names):
        return ENCODER
    if len(config) > MAX_CONFIG_BYTES:
        return None
    try:
        task_type = parse_object(config, field="config").get("task_type")
    except AdapterRejectedError:
        return None
    for architecture in (DECODER, ENCODER):
        if task_type in architecture.task_types:
            return architecture
    return None
