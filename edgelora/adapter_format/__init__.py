"""Reading LoRA adapters as PEFT writes them: numpy and the standard library only.

Everything here treats its input as hostile: no pickle, no imports named by a file, no regular
expression from a file, every size bounded before anything is allocated. An adapter either becomes
`AdapterWeights` in full, or is refused with the field and the remedy.
"""

from edgelora.adapter_format.assemble import assemble, read_adapter
from edgelora.adapter_format.config import AdapterConfig
from edgelora.adapter_format.config_parser import MAX_CONFIG_BYTES, parse_adapter_config
from edgelora.adapter_format.digest import adapter_digest, combine_digest, is_digest
from edgelora.adapter_format.encoder import EncoderAdapter, read_encoder_adapter
from edgelora.adapter_format.head import (
    MAX_HEAD_BYTES,
    ClassifierHead,
    HeadSettings,
    parse_head,
)
from edgelora.adapter_format.recognition import recognise
from edgelora.adapter_format.tensor_file import read_tensors
from edgelora.adapter_format.weights import AdapterWeights, LoraPair

__all__ = [
    "MAX_CONFIG_BYTES",
    "MAX_HEAD_BYTES",
    "AdapterConfig",
    "AdapterWeights",
    "ClassifierHead",
    "EncoderAdapter",
    "HeadSettings",
    "LoraPair",
    "adapter_digest",
    "assemble",
    "combine_digest",
    "is_digest",
    "parse_adapter_config",
    "parse_head",
    "read_adapter",
    "read_encoder_adapter",
    "read_tensors",
    "recognise",
]
