"""Chooses what computes, and imports nothing of what was not chosen."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from services.chassis.base_model import FLOAT32_FILE, NATIVE_FILE, BaseModel
from services.chassis.extras import install_command
from services.chassis.settings import ConfigError
from services.inference.backends.base import Backend
from services.inference.backends.native_backend import NativeBackend
from services.inference.config import PREFIX, InferenceConfig
from services.inference.spare_memory import map_large_blocks


@dataclass(frozen=True, slots=True)
class BackendChoice:
    """What computes, and why."""

    name: str
    """`native` or `torch`."""
    reason: str


def choose_backend(wanted: str, directory: Path) -> BackendChoice:
    """Takes the back end that was asked for; with `auto` native where it runs, else torch.

    Raises FileNotFoundError when the directory holds no prepared model, ConfigError with the
    remedy when no back end can serve it or EDGELORA_ISA names nothing this processor has.
    """
    try:
        model = BaseModel.load(directory)
    except ValueError as error:
        raise ConfigError(f"{PREFIX}MODEL_DIRECTORY: {error}") from error
    # Torch must not stand in for a core that nothing but a mistyped setting keeps from running.
    if wanted == "auto" and (mistake := NativeBackend.setting_obstacle()) is not None:
        raise ConfigError(mistake)
    obstacles: list[str] = []
    for name, find_obstacle in (("native", _native_obstacle), ("torch", _torch_obstacle)):
        if wanted not in ("auto", name):
            continue
        obstacle = find_obstacle(model)
        if obstacle is None:
            reason = "; ".join(obstacles) or (
                "it runs here" if wanted == "auto" else "it was asked for"
            )
            return BackendChoice(name, reason)
        obstacles.append(f"{name} can not serve: {obstacle}")
    raise ConfigError(f"{PREFIX}BACKEND: " + "; ".join(obstacles))


def make_backend(choice: BackendChoice, config: InferenceConfig) -> Backend:
    """Makes the chosen back end. Raises ConfigError for a setting it can not work with."""
    if choice.name == "native":
        from edgelora_native import BLOCK_TOKENS

        if config.block_size != BLOCK_TOKENS:
            raise ConfigError(f"{PREFIX}BLOCK_SIZE must be {BLOCK_TOKENS} with the native back end")
        map_large_blocks()
        return NativeBackend(
            num_threads=config.num_threads, kv_cache_int8=config.kv_cache_dtype == "int8"
        )
    if config.kv_cache_dtype == "int8":
        raise ConfigError(f"{PREFIX}KV_CACHE_DTYPE: int8 needs the native back end")
    from services.inference.backends.torch_factory import make_torch_backend

    return make_torch_backend(num_threads=config.num_threads, dtype=config.dtype)


def _native_obstacle(model: BaseModel) -> str | None:
    return NativeBackend.probe() or model.obstacle(NATIVE_FILE)


def _torch_obstacle(model: BaseModel) -> str | None:
    if find_spec("torch") is None:
        return f"torch is not installed: run `{install_command('torch')}` in the source tree"
    return model.obstacle(FLOAT32_FILE)
