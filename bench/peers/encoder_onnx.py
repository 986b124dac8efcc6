"""onnxruntime in 8 bits: `python -m bench.peers.encoder_onnx`.

A model of its own for each task, the adapters merged into it: the graph of fused operators, its
products quantised to 8 bits, a scale for each output, inputs quantised as they come.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from onnx import TensorProto
from onnxruntime.quantization import QuantType, quantize_dynamic

from bench.peers.bert_graph import build_graph, save
from bench.peers.child import serve
from bench.peers.vectors import pack_vectors


class EncoderOnnx:
    """A session for each model."""

    def load(self, *, models: list[str], adapters: list[str], threads: int) -> dict[str, Any]:
        """`models`: directories of BertModel; there are no `adapters`."""
        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = threads
        settings.inter_op_num_threads = 1
        self._sessions = []
        with tempfile.TemporaryDirectory(prefix="edgelora-bench-") as place:
            for directory in models:
                exact, rounded = Path(place) / "exact.onnx", Path(place) / "int8.onnx"
                save(build_graph(Path(directory)), exact)
                quantize_dynamic(
                    exact,
                    rounded,
                    weight_type=QuantType.QInt8,
                    per_channel=True,
                    extra_options={"DefaultTensorType": TensorProto.FLOAT},
                )
                self._sessions.append(
                    onnxruntime.InferenceSession(
                        str(rounded), settings, providers=["CPUExecutionProvider"]
                    )
                )
        return {"version": onnxruntime.__version__}

    def encode(self, *, texts: list[list[int]], tasks: list[int | None]) -> dict[str, Any]:
        """Vectors of texts, each for its task, and the seconds it took."""
        begin = time.perf_counter()
        if len(self._sessions) == 1:
            vectors = self._run(self._sessions[0], texts)
        else:
            each = [
                self._run(self._sessions[task or 0], [text])
                for text, task in zip(texts, tasks, strict=True)
            ]
            vectors = np.concatenate(each)
        return {"seconds": time.perf_counter() - begin, "vectors": pack_vectors(vectors)}

    def _run(self, session: Any, texts: list[list[int]]) -> Any:
        lengths = np.array([len(text) for text in texts], np.int32)
        ids = np.zeros((len(texts), int(lengths.max())), np.int64)
        for row, text in enumerate(texts):
            ids[row, : len(text)] = text
        return session.run(None, {"input_ids": ids, "lengths": lengths})[0]


if __name__ == "__main__":
    serve(EncoderOnnx())
