"""Chooses what computes an encoder, and imports nothing of what was not chosen."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from services.chassis.base_model import FLOAT32_FILE, NATIVE_FILE, BaseModel
from services.chassis.extras import install_command
from services.chassis.settings import ConfigError
from services.inference.backends.choice import BackendChoice
from services.inference.backends.native_backend import NativeBackend
from services.inference.encoder.backend import EncoderBackend
from services.inference.encoder.config import PREFIX, EncoderConfig
from services.inference.spare_memory import map_large_blocks


def choose_encoder_backend(wanted: str, directory: Path) -> BackendChoice:
    """Takes the back end that was asked for; with `auto` native where it runs, else torch.

    Raises FileNotFoundError when the directory holds no prepared model, ConfigError with the
    remedy when it holds no encoder, when no back end can serve it, or when EDGELORA_ISA names
    nothing this processor has.
    """
    try:
        model = BaseModel.load(directory)
    except ValueError as error:
        raise ConfigError(f"{PREFIX}MODEL_DIRECTORY: {error}") from error
    if not model.is_encoder:
        raise ConfigError(
            f"{PREFIX}MODEL_DIRECTORY: {model.name} is no encoder: run `edgelora model prepare` "
            "with one"
        )
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


def make_encoder_backend(choice: BackendChoice, config: EncoderConfig) -> EncoderBackend:
    """Makes the chosen back end."""
    if choice.name == "native":
        from services.inference.encoder.native_backend import NativeEncoderBackend

        map_large_blocks()
        return NativeEncoderBackend(num_threads=config.num_threads)
    from services.inference.encoder.torch_backend import TorchEncoderBackend

    return TorchEncoderBackend(num_threads=config.num_threads)


def _native_obstacle(model: BaseModel) -> str | None:
    from services.inference.encoder.native_backend import NativeEncoderBackend

    return NativeEncoderBackend.probe() or model.obstacle(NATIVE_FILE)


def _torch_obstacle(model: BaseModel) -> str | None:
    if find_spec("torch") is None:
        return f"torch is not installed: run `{install_command('torch')}` in the source tree"
    return model.obstacle(FLOAT32_FILE)
