"""Files written by PEFT itself are read with PEFT's own scalings."""

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

from edgelora.adapter_format import read_adapter
from tests.support.adapter_files import TINY_LAYERS, TINY_TARGETS

CASES = {
    "plain": {"target_modules": ["q_proj", "v_proj"]},
    "rslora": {"target_modules": ["q_proj", "v_proj"], "use_rslora": True},
    "all-linear": {"target_modules": "all-linear"},
    "patterns": {
        "target_modules": "all-linear",
        "rank_pattern": {
            "q_proj": 2,
            "layers.1.mlp.up_proj": 3,
            "^model.layers.0.mlp.down_proj": 5,
        },
        "alpha_pattern": {"1.self_attn.q_proj": 3, "q_proj": 7},
    },
    "one layer": {"target_modules": ["q_proj"], "layers_to_transform": [1]},
    "exclusion": {
        "target_modules": ["q_proj", "up_proj"],
        "exclude_modules": ["layers.1.mlp.up_proj"],
    },
    "fan in": {"target_modules": ["q_proj"], "fan_in_fan_out": True},
}


@pytest.mark.filterwarnings("ignore:fan_in_fan_out is set to True")
@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning")
@pytest.mark.parametrize("options", CASES.values(), ids=CASES.keys())
def test_reads_what_peft_writes_A01(options, tmp_path):
    torch.set_num_threads(1)
    base = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=64,
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=TINY_LAYERS,
            num_attention_heads=4,
            num_key_value_heads=2,
        )
    )
    config = LoraConfig(
        r=4, lora_alpha=8, task_type="CAUSAL_LM", init_lora_weights=False, **options
    )
    model = get_peft_model(base, config)
    model.save_pretrained(tmp_path)

    _, weights = read_adapter(
        (tmp_path / "adapter_config.json").read_bytes(),
        (tmp_path / "adapter_model.safetensors").read_bytes(),
        targets=TINY_TARGETS,
        num_layers=TINY_LAYERS,
        max_rank=64,
    )

    adapted = {}
    for name, module in model.named_modules():
        if hasattr(module, "scaling") and "default" in getattr(module, "lora_A", {}):
            parts = name.split(".")
            adapted[int(parts[parts.index("layers") + 1]), parts[-1]] = module
    assert set(weights.pairs) == set(adapted)
    for key, module in adapted.items():
        pair = weights.pairs[key]
        assert pair.scaling == pytest.approx(module.scaling["default"])
        assert torch.equal(torch.from_numpy(pair.lora_a), module.lora_A["default"].weight)
        assert torch.equal(torch.from_numpy(pair.lora_b), module.lora_B["default"].weight)
