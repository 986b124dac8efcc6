"""A router made by hand: a text goes to the candidate whose example prompts share its n-grams.

Its text vector is the mean of random n-gram embeddings, its score a multiple of the cosine to the
nearest example; the base model has the score of a fixed cosine. A candidate that is not resident
is marked down by LOAD_SCORE.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from edgelora.routing import Router, RouterFile
from edgelora.routing.network import COSINES, DEVICE_FEATURES, Weights

TEMPERATURE = 0.1
"""Nats of loss for a difference of 1 between two scores."""
LOAD_SCORE = 3.0
_WIDTH, _BUCKETS = 32, 4096
_SCALE, _BASE_COSINE = 20.0, 0.5


def small_router_file(base_cosine: float = _BASE_COSINE) -> RouterFile:
    """The file's content; a text less like any example than `base_cosine` goes to the base."""
    draw = np.random.default_rng(7)

    def zeros(*shape: int) -> np.ndarray:
        return np.zeros(shape, np.float32)

    text = zeros(_WIDTH + 2, _WIDTH)
    text[:_WIDTH] = np.eye(_WIDTH)
    hidden = zeros(4 * _WIDTH + COSINES + DEVICE_FEATURES + 1, 2)
    hidden[4 * _WIDTH + 1, 0] = _SCALE  # cosine to the nearest example
    hidden[-1, 1] = LOAD_SCORE  # resident
    return RouterFile(
        weights=Weights(
            rarity=np.ones(_BUCKETS, np.float32),
            embedding=draw.standard_normal((_BUCKETS, _WIDTH)).astype(np.float32),
            convolution=zeros(3 * _WIDTH, 1),
            convolution_bias=zeros(1),
            text=text,
            text_bias=zeros(_WIDTH),
            candidate_hidden=hidden,
            candidate_hidden_bias=zeros(2),
            candidate_output=np.ones((2, 1), np.float32),
            base_hidden=zeros(_WIDTH + DEVICE_FEATURES, 1),
            base_hidden_bias=zeros(1),
            base_output=zeros(1, 1),
            base_output_bias=np.array([_SCALE * base_cosine + LOAD_SCORE], np.float32),
        ),
        temperature=TEMPERATURE,
    )


def small_router(base_cosine: float = _BASE_COSINE) -> Router:
    """The router itself."""
    return Router(small_router_file(base_cosine))


def write_small_router(path: Path, base_cosine: float = _BASE_COSINE) -> Path:
    """Writes it as `edgelora router train` would, in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.partial")
    partial.write_bytes(small_router_file(base_cosine).encoded())
    return partial.replace(path)
