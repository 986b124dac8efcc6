"""BERT as an ONNX graph of onnxruntime's own fused operators, from the weights as transformers
names them.

It is what onnxruntime's optimiser makes of an exported model: one Attention a layer, a residual and
its norm at once, bias and GELU at once. Runs in that peer's environment.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

_FUSED = "com.microsoft"
_OPSET = 17


def read_weights(file: Path) -> dict[str, Any]:
    """Reads the float32 tensors of a safetensors file, names without a leading `bert.`."""
    data = file.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    weights = {}
    for name, entry in json.loads(data[8 : 8 + size]).items():
        if name == "__metadata__" or entry["dtype"] != "F32":
            continue
        begin, end = (8 + size + offset for offset in entry["data_offsets"])
        values = np.frombuffer(data[begin:end], np.float32).reshape(entry["shape"])
        weights[name.removeprefix("bert.")] = values
    return weights


def build_graph(directory: Path) -> Any:
    """Returns a model: input_ids and lengths (of each text, int32) to mean vectors.

    `directory` is that of a BertModel: config.json and model.safetensors.
    """
    config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    weights = read_weights(directory / "model.safetensors")
    graph = _Graph(weights, float(config["layer_norm_eps"]), int(config["num_attention_heads"]))
    x = graph.embed()
    for layer in range(config["num_hidden_layers"]):
        x = graph.layer(f"encoder.layer.{layer}", x)
    graph.pool(x)
    return graph.model(int(config["hidden_size"]))


class _Graph:
    def __init__(self, weights: dict[str, Any], eps: float, num_heads: int) -> None:
        self._weights = weights
        self._eps = eps
        self._num_heads = num_heads
        self._nodes: list[Any] = []
        self._constants: dict[str, Any] = {}

    def embed(self) -> str:
        names = [f"embeddings.{kind}_embeddings.weight" for kind in ("word", "position")]
        words, positions = (self._tensor(name) for name in names)
        # The second kind of token is for pairs of texts.
        kind = self._constant("kind", self._weights["embeddings.token_type_embeddings.weight"][0])
        shape = self._add("Shape", "input_ids")
        longest = self._add("Gather", shape, self._constant("one", np.int64(1)))
        numbers = self._add(
            "Range",
            self._constant("zero", np.int64(0)),
            longest,
            self._constant("one", np.int64(1)),
        )
        rows = self._add("Add", self._add("Gather", positions, numbers), kind)
        x = self._add("Add", self._add("Gather", words, "input_ids"), rows)
        gamma, beta = self._norm("embeddings.LayerNorm")
        return self._add("LayerNormalization", x, gamma, beta, axis=-1, epsilon=self._eps)

    def layer(self, name: str, x: str) -> str:
        parts = [f"{name}.attention.self.{part}" for part in ("query", "key", "value")]
        weight = np.concatenate([self._weights[f"{part}.weight"].T for part in parts], axis=1)
        bias = np.concatenate([self._weights[f"{part}.bias"] for part in parts])
        context = self._add(
            "Attention",
            x,
            self._constant(f"{name}.qkv.weight", weight),
            self._constant(f"{name}.qkv.bias", bias),
            "lengths",
            domain=_FUSED,
            num_heads=self._num_heads,
        )
        x = self._residual(f"{name}.attention.output", context, x)
        inner = self._add("MatMul", x, self._transposed(f"{name}.intermediate.dense"))
        bias_name = self._tensor(f"{name}.intermediate.dense.bias")
        inner = self._add("BiasGelu", inner, bias_name, domain=_FUSED)
        return self._residual(f"{name}.output", inner, x)

    def pool(self, x: str) -> None:
        numbers = self._add("Cast", self._count(), to=TensorProto.INT32)
        axis = self._constant("axis", np.array([1], np.int64))
        last = self._constant("last", np.array([2], np.int64))
        lengths = self._add("Unsqueeze", "lengths", axis)
        mask = self._add("Cast", self._add("Less", numbers, lengths), to=TensorProto.FLOAT)
        masked = self._add("Mul", x, self._add("Unsqueeze", mask, last))
        total = self._add("ReduceSum", masked, axis, keepdims=0)
        self._add("Div", total, self._add("Cast", lengths, to=TensorProto.FLOAT), output="vectors")

    def model(self, hidden_size: int) -> Any:
        graph = helper.make_graph(
            self._nodes,
            "bert",
            [
                helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["texts", "tokens"]),
                helper.make_tensor_value_info("lengths", TensorProto.INT32, ["texts"]),
            ],
            [helper.make_tensor_value_info("vectors", TensorProto.FLOAT, ["texts", hidden_size])],
            list(self._constants.values()),
        )
        opsets = [helper.make_opsetid("", _OPSET), helper.make_opsetid(_FUSED, 1)]
        model = helper.make_model(graph, opset_imports=opsets)
        model.ir_version = 9
        return model

    def _count(self) -> str:
        """0, 1, ... for the tokens of the longest text."""
        one, zero = (self._constant(f"{n}", np.int64(n)) for n in (1, 0))
        longest = self._add("Gather", self._add("Shape", "input_ids"), one)
        return self._add("Range", zero, longest, one)

    def _residual(self, name: str, x: str, skip: str) -> str:
        y = self._add("MatMul", x, self._transposed(f"{name}.dense"))
        gamma, beta = self._norm(f"{name}.LayerNorm")
        bias = self._tensor(f"{name}.dense.bias")
        return self._add(
            "SkipLayerNormalization", y, skip, gamma, beta, bias, domain=_FUSED, epsilon=self._eps
        )

    def _norm(self, name: str) -> tuple[str, str]:
        return self._tensor(f"{name}.weight"), self._tensor(f"{name}.bias")

    def _transposed(self, name: str) -> str:
        weight = np.ascontiguousarray(self._weights[f"{name}.weight"].T)
        return self._constant(f"{name}.transposed", weight)

    def _tensor(self, name: str) -> str:
        return self._constant(name, self._weights[name])

    def _constant(self, name: str, values: Any) -> str:
        self._constants[name] = numpy_helper.from_array(np.asarray(values), name)
        return name

    def _add(
        self, kind: str, *inputs: str, output: str | None = None, domain: str = "", **fields: Any
    ) -> str:
        name = output or f"{kind}.{len(self._nodes)}"
        self._nodes.append(
            helper.make_node(kind, inputs, [name], name=f"node.{name}", domain=domain, **fields)
        )
        return name


def save(model: Any, file: Path) -> None:
    """Writes a model."""
    onnx.save(model, str(file))
