"""Opens a verifier: tries the sandbox and the base model, and says what was reached."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from services.adapter_store.bases import ServedBases
from services.adapter_store.config import PREFIX, AdapterStoreConfig
from services.adapter_store.verification import sandbox
from services.adapter_store.verification.child_process import ChildFailedError
from services.adapter_store.verification.measuring_base import open_measuring_base
from services.adapter_store.verification.verifier import Verifier
from services.chassis.logs import get_logger
from services.chassis.settings import ConfigError


@asynccontextmanager
async def open_verifier(config: AdapterStoreConfig, bases: ServedBases) -> AsyncIterator[Verifier]:
    """Makes a verifier for adapters of the base models.

    Raises ConfigError when processes of this machine cannot give up as much as demanded.
    """
    try:
        async with open_measuring_base(
            bases.decoder,
            config.model_directory,
            max_rank=config.max_lora_rank,
            is_encoding=config.is_encoding,
            max_mean_kl=config.codec_max_kl,
            encoder=bases.encoder,
            encoder_directory=config.encoder_model_directory,
        ) as found:
            box = found.sandbox
            get_logger().info(
                "verification_ready",
                sandbox=box.level,
                landlock_abi=box.landlock_abi,
                seccomp=box.has_seccomp,
                root=box.is_root,
                measuring=found.measuring is not None,
                codec=found.measuring is not None and config.is_encoding,
                not_measured_because=found.why_not_measured,
                encoder_measuring=found.encoder_measuring is not None,
                encoder_not_measured_because=found.why_encoder_not_measured,
            )
            if not sandbox.reaches(box.level, config.minimum_sandbox):
                raise ConfigError(
                    f"{PREFIX}SANDBOX_LEVEL is {config.minimum_sandbox}, this machine reaches "
                    f"{box.level}: use a kernel with Landlock and seccomp, or demand less"
                )
            yield Verifier(
                bases,
                max_rank=config.max_lora_rank,
                timeout_s=config.verification_timeout_s,
                max_concurrent=config.max_concurrent_verifications,
                minimum_sandbox=config.minimum_sandbox,
                measuring=found.measuring,
                why_not_measured=found.why_not_measured,
                encoder_measuring=found.encoder_measuring,
                why_encoder_not_measured=found.why_encoder_not_measured,
            )
    except ChildFailedError as error:
        raise ConfigError(f"no adapter could be verified on this machine: {error}") from error
