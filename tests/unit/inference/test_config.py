"""Settings of a worker."""

import re

import pytest

from services.chassis.settings import ConfigError
from services.inference import config as config_module
from services.inference.config import InferenceConfig
from services.inference.engine_config import make_engine_config
from services.inference.tokenizer import TextTokenizer
from tests.support.small_tokenizer import save_tokenizer
from tests.support.stand_in_backend import stand_in_model


@pytest.fixture
def environ(tmp_path):
    key = tmp_path / "key"
    key.write_bytes(b"k" * 32)
    save_tokenizer(tmp_path)
    return {
        "EDGELORA_INFERENCE_ADDRESS": "unix:/x.sock",
        "EDGELORA_INFERENCE_MODEL_DIRECTORY": str(tmp_path),
        "EDGELORA_INFERENCE_STORE_ADDRESS": "unix:/s.sock",
        "EDGELORA_INFERENCE_SEAL_KEY_FILE": str(key),
    }


def test_defaults_and_secrets(environ):
    config = InferenceConfig.from_env(environ)
    assert (config.name, config.backend, config.max_loras) == ("inference", "auto", 16)
    assert config.shared_blob_directory is None
    assert "kkkk" not in repr(config)


def test_every_mistake_is_told_at_once(environ):
    environ |= {
        "EDGELORA_INFERENCE_MAX_LORAS": "0",
        "EDGELORA_INFERENCE_BACKEND": "magic",
        "EDGELORA_INFERENCE_KV_CACHE_SIZE": "much",
        "EDGELORA_INFERENCE_MAX_NUM_SEQS": "64",
        "EDGELORA_INFERENCE_MAX_NUM_BATCHED_TOKENS": "32",
        "EDGELORA_INFERENCE_TYPO": "1",
    }
    del environ["EDGELORA_INFERENCE_STORE_ADDRESS"]
    with pytest.raises(ConfigError) as caught:
        InferenceConfig.from_env(environ)
    lines = str(caught.value).splitlines()
    assert len(lines) == 6
    for name in ("MAX_LORAS", "BACKEND", "KV_CACHE_SIZE", "MAX_NUM_BATCHED_TOKENS", "TYPO"):
        assert any(f"EDGELORA_INFERENCE_{name} " in line for line in lines)


def test_the_kv_cache_is_cut_into_blocks(environ, tmp_path):
    model = stand_in_model()
    per_token = 512
    tokenizer = TextTokenizer.load(tmp_path)
    environ["EDGELORA_INFERENCE_KV_CACHE_SIZE"] = str(per_token * 16 * 50)
    config = make_engine_config(InferenceConfig.from_env(environ), model, tokenizer, per_token)
    assert config.limits.num_kv_blocks == 50
    assert config.num_sequence_blocks == 50 - config.num_canary_blocks
    environ["EDGELORA_INFERENCE_KV_CACHE_SIZE"] = "1GiB"
    config = make_engine_config(InferenceConfig.from_env(environ), model, tokenizer, per_token)
    assert config.limits.num_kv_blocks == 16 * 8 + 64  # what 16 full sequences can use
    environ["EDGELORA_INFERENCE_KV_CACHE_SIZE"] = "1KiB"
    with pytest.raises(ConfigError, match="KV_CACHE_SIZE is too small") as caught:
        make_engine_config(InferenceConfig.from_env(environ), model, tokenizer, per_token)
    least = re.search(r"give at least (\d+)KiB$", str(caught.value))[1]
    environ["EDGELORA_INFERENCE_KV_CACHE_SIZE"] = f"{least}KiB"
    make_engine_config(InferenceConfig.from_env(environ), model, tokenizer, per_token)


def test_more_threads_than_the_native_core_takes_are_refused(environ, monkeypatch):
    environ["EDGELORA_INFERENCE_THREADS"] = "257"
    with pytest.raises(ConfigError, match=r"EDGELORA_INFERENCE_THREADS must be a number .* to 256"):
        InferenceConfig.from_env(environ)
    del environ["EDGELORA_INFERENCE_THREADS"]
    monkeypatch.setattr(config_module, "count_physical_cores", lambda: 300)
    assert InferenceConfig.from_env(environ).num_threads == 256


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("config.json", "[]"),
        ("config.json", '{"eos_token_id": "x"}'),
        ("config.json", '{"eos_token_id": [[1]]}'),
        ("tokenizer_config.json", "5"),
    ],
)
def test_model_files_of_wrong_shapes_are_named_with_the_remedy(environ, tmp_path, name, content):
    tokenizer = TextTokenizer.load(tmp_path)
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=rf"^{name} .*prepare"):
        make_engine_config(InferenceConfig.from_env(environ), stand_in_model(), tokenizer, 512)
