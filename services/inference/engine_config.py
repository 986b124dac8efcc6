"""Works the engine's sizes out of the settings and the model."""

from __future__ import annotations

from services.chassis.base_model import BaseModel
from services.chassis.settings import ConfigError
from services.inference.backends.base import BackendLimits
from services.inference.config import PREFIX, InferenceConfig
from services.inference.engine.config import EngineConfig
from services.inference.engine.iteration_scheduler import StepLimits
from services.inference.engine.sessions import SessionLimits
from services.inference.model_files import canary_token_ids, read_eos_token_ids
from services.inference.tokenizer import TextTokenizer

_MIN_SEQUENCE_TOKENS = 64


def make_engine_config(
    config: InferenceConfig,
    model: BaseModel,
    tokenizer: TextTokenizer,
    kv_bytes_per_token: int,
) -> EngineConfig:
    """`kv_bytes_per_token`: of the back end in use, see Backend.

    Raises ConfigError when the KV cache is too small to be of use.
    """
    block_bytes = config.block_size * kv_bytes_per_token
    # More than every sequence at full length is never used.
    most_blocks = config.max_num_seqs * -(-model.max_context_tokens // config.block_size)
    engine_config = EngineConfig(
        model_directory=config.model_directory,
        limits=BackendLimits(
            num_kv_blocks=min(config.kv_cache_bytes // block_bytes, most_blocks + 64),
            block_size=config.block_size,
            max_loras=config.max_loras,
            max_lora_rank=config.max_lora_rank,
            max_step_tokens=config.max_num_batched_tokens,
        ),
        step=StepLimits(
            max_num_seqs=config.max_num_seqs,
            max_num_batched_tokens=config.max_num_batched_tokens,
            lower_prefill_tokens=config.lower_prefill_tokens,
            tenant_prefill_tokens=config.tenant_prefill_tokens,
            slot_patience_s=config.slot_patience_s,
            aging_s=config.aging_s,
        ),
        token_bytes=tokenizer.token_bytes,
        eos_token_ids=read_eos_token_ids(config.model_directory, tokenizer),
        canary_token_ids=canary_token_ids(tokenizer),
        adapter_budget_bytes=config.adapter_memory_bytes,
        min_residency_s=config.min_residency_s,
        prefix_caching=config.prefix_caching,
        sessions=SessionLimits(
            max_per_tenant=config.max_sessions,
            tenant_share=config.tenant_session_share,
            total_share=config.session_share,
            max_age_s=config.session_age_s,
        ),
    )
    if engine_config.capacity_tokens < _MIN_SEQUENCE_TOKENS:
        blocks = -(-_MIN_SEQUENCE_TOKENS // config.block_size) + engine_config.num_canary_blocks
        raise ConfigError(
            f"{PREFIX}KV_CACHE_SIZE is too small for {model.name}: "
            f"give at least {-(-blocks * block_bytes // 1024)}KiB"
        )
    return engine_config
