"""Reads a packed model file back: an independent reading of the layout in packing.py."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from edgelora_native.matrices import HalfMatrix, Matrix, Matrix4, Matrix8, SymmetricMatrix
from numpy.typing import NDArray

_HEADER = struct.Struct("<8s10I2fQ")
_ENTRY = struct.Struct("<4I2Q")
_LAYER_TENSORS = 9


@dataclass(frozen=True)
class PackedFile:
    """The tensors of a file in its order: (head, norm, embedding, frequencies), then layers."""

    num_heads: int
    num_kv_heads: int
    head_size: int
    attention_factor: float
    model: list[Matrix | NDArray[np.float32] | None]
    layers: list[list[Matrix | NDArray[np.float32] | None]]

    @classmethod
    def read(cls, path: Path) -> PackedFile:
        """Reads everything."""
        data = path.read_bytes()
        fields = _HEADER.unpack_from(data)
        at = range(_HEADER.size, fields[2], _ENTRY.size)
        tensors = [_tensor(data, *_ENTRY.unpack_from(data, start)) for start in at]
        layers = [tensors[i : i + _LAYER_TENSORS] for i in range(4, len(tensors), _LAYER_TENSORS)]
        return cls(fields[6], fields[7], fields[8], fields[12], tensors[:4], layers)

    def weights(self, vocab_size: int) -> dict[str, NDArray[np.float32]]:
        """What the quantised tensors stand for, under Hugging Face names."""
        head, norm, embedding, _ = self.model
        weights = {
            "lm_head.weight": _dense(head)[:vocab_size],
            "model.norm.weight": _dense(norm),
            "model.embed_tokens.weight": _dense(head if embedding is None else embedding)[
                :vocab_size
            ],
        }
        queries, keys = self.num_heads * self.head_size, self.num_kv_heads * self.head_size
        cuts = [queries, queries + keys]
        for number, layer in enumerate(self.layers):
            prefix = f"model.layers.{number}."
            norm, qkv, output, mlp_norm, gate_up, down, bias, query_norm, key_norm = layer
            weights[f"{prefix}input_layernorm.weight"] = _dense(norm)
            weights[f"{prefix}post_attention_layernorm.weight"] = _dense(mlp_norm)
            weights[f"{prefix}self_attn.o_proj.weight"] = _dense(output)
            weights[f"{prefix}mlp.down_proj.weight"] = _dense(down)
            for name, part in zip("qkv", np.split(_dense(qkv), cuts), strict=True):
                weights[f"{prefix}self_attn.{name}_proj.weight"] = part
            if bias is not None:
                for name, part in zip("qkv", np.split(_dense(bias), cuts), strict=True):
                    weights[f"{prefix}self_attn.{name}_proj.bias"] = part
            if query_norm is not None:
                weights[f"{prefix}self_attn.q_norm.weight"] = _dense(query_norm)
                weights[f"{prefix}self_attn.k_norm.weight"] = _dense(key_norm)
            # Sixteen rows of gate, sixteen of up, and so on.
            both = _dense(gate_up)
            blocks = both.reshape(-1, 2, 16, both.shape[1])
            for index, name in enumerate(("gate", "up")):
                part = blocks[:, index].reshape(-1, both.shape[1])
                weights[f"{prefix}mlp.{name}_proj.weight"] = part
        return weights


def _dense(tensor: Matrix | NDArray[np.float32] | None) -> NDArray[np.float32]:
    assert tensor is not None
    return tensor if isinstance(tensor, np.ndarray) else tensor.dequantise()


def _tensor(
    data: bytes, kind: int, rows: int, columns: int, _: int, offset: int, size: int
) -> Matrix | NDArray[np.float32] | None:
    if kind == 0:
        return None
    raw = np.frombuffer(data, np.uint8, size, offset)
    if kind == 1:
        return raw.view("<f4")
    blocks = raw.reshape(rows // 16, columns // 32, -1)
    if kind == 7:
        # Two inputs of each of sixteen rows, then the next two.
        pairs = (
            np.ascontiguousarray(blocks).view("<u2").reshape(rows // 16, columns // 32, 16, 16, 2)
        )
        return HalfMatrix(pairs.transpose(0, 3, 1, 2, 4).reshape(rows, columns))
    scale = _halves(blocks[..., :32])
    if kind == 3:
        return Matrix8(scale, (_parts(blocks[..., 32:]) ^ 128).view(np.int8))
    if kind == 2:
        return Matrix4(scale, _halves(blocks[..., 32:64]), _nibbles(blocks[..., 64:]))
    numbers = _nibbles(blocks[..., 32:288]).astype(np.int8)
    for number in range(8):  # four inputs each
        shift = (kind - 4) * number
        at = 288 + 64 * (shift // 8)
        if kind > 4:
            high = _lanes(blocks[..., at : at + 64]) >> (shift % 8) & (2 ** (kind - 4) - 1)
            numbers[..., 4 * number : 4 * number + 4] |= (high << 4).astype(np.int8)
    return SymmetricMatrix(kind, scale, numbers - np.int8(2 ** (kind - 1)))


def _lanes(data: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """[rows, groups, 4] from four bytes of each of sixteen rows."""
    lanes = data.reshape(*data.shape[:2], 16, 4).transpose(0, 2, 1, 3)
    return lanes.reshape(-1, data.shape[1], 4)


def _parts(data: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """[rows, groups, 32] from four inputs of each of sixteen rows, then the next four."""
    return np.concatenate([_lanes(part) for part in np.split(data, 8, axis=2)], axis=2)


def _nibbles(data: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The same from nibbles: of eight inputs four are low ones, four high."""
    lanes = [_lanes(part) for part in np.split(data, 4, axis=2)]
    return np.concatenate([half for part in lanes for half in (part & 15, part >> 4)], axis=2)


def _halves(data: NDArray[np.uint8]) -> NDArray[np.float16]:
    lanes = np.ascontiguousarray(data).view("<f2")
    return lanes.transpose(0, 2, 1).reshape(-1, lanes.shape[1])
