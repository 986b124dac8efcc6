"""Networks of a router with random parameters."""

from __future__ import annotations

import torch

from edgelora.toolchain.router_twin import NetworkShape, RouterTwin

SHAPE = NetworkShape(num_buckets=512, embedding=8, channels=6, width=10, hidden=7, base_hidden=5)


def random_twin(seed: int = 0) -> RouterTwin:
    """A network in torch, every parameter away from zero."""
    torch.manual_seed(seed)
    twin = RouterTwin(SHAPE, torch.rand(SHAPE.num_buckets) + 0.5)
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return twin
