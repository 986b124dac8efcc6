"""Choosing an adapter for a text: features, network and file of the router. Needs numpy alone."""

from edgelora.routing.network import DeviceState, Prototype, PrototypeTable
from edgelora.routing.router import Router
from edgelora.routing.router_file import RouterFile, RouterFileError

__all__ = [
    "DeviceState",
    "Prototype",
    "PrototypeTable",
    "Router",
    "RouterFile",
    "RouterFileError",
]
