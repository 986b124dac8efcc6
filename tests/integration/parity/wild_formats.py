"""Adapters as they are met in the wild, and what has to come of each: PEFT's answers, or a reason.

`test_wild_formats.py` is driven by this table. A refusal names the option and what to do about it.
"""

from __future__ import annotations

from typing import Any

import peft
import torch

from tests.support.wild_adapters import (
    CONFIG,
    WEIGHTS,
    Refusal,
    Wild,
    add_files,
    cast,
    edit_config,
    edit_tensors,
    leave_untrained,
    move,
    pickled,
    rename_keys,
    replace_weights,
    save_again,
    save_sum_of_two,
    shard,
    spoil,
    start_with_eva,
    train_and_convert,
    with_embeddings,
)

ALL = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
TEMPLATE = '{{ lipsum.__globals__["os"].popen("touch pwn-canary").read() }}'
OLD_FIELDS = (
    "alpha_pattern", "arrow_config", "auto_mapping", "alora_invocation_tokens", "corda_config",
    "ensure_weight_tying", "eva_config", "exclude_modules", "kasa_config", "layer_replication",
    "loftq_config", "lora_bias", "lora_ga_config", "megatron_config", "megatron_core",
    "monteclora_config", "peft_version", "qalora_group_size", "rank_pattern", "revision",
    "target_parameters", "trainable_token_indices", "use_bdlora", "use_dora", "use_qalora",
    "use_rslora", "velora_config",
)  # fmt: skip
"""What PEFT 0.3 did not write yet."""


def other(kind: str, **options: Any) -> Wild:
    """Another method of PEFT's than LoRA."""

    def config() -> peft.PeftConfig:
        made: peft.PeftConfig = getattr(peft, f"{kind}Config")(task_type="CAUSAL_LM", **options)
        return made

    return Wild(config=config, refused=Refusal("config.peft_type", ("LORA", "LoraConfig")))


def refused(field: str, *words: str, **how: Any) -> Wild:
    """An adapter that is turned away."""
    return Wild(refused=Refusal(field, words), **how)


def option(name: str, value: Any, *words: str, field: str | None = None, **more: Any) -> Wild:
    """A LoRA option that is refused under its own name."""
    return refused(field or f"config.{name}", name, *words, options={name: value, **more})


WILD: dict[str, Wild] = {
    # Equal to PEFT.
    "query and value": Wild(),
    "rank 1": Wild(options={"r": 1, "lora_alpha": 1}),
    "rank 7, alpha a fraction": Wild(options={"r": 7, "lora_alpha": 2.5}),
    "rank 64": Wild(options={"r": 64, "lora_alpha": 16, "target_modules": ALL}),
    "rslora A01": Wild(options={"r": 16, "lora_alpha": 8, "use_rslora": True}),
    "rank pattern by name": Wild(options={"rank_pattern": {"v_proj": 3}}),
    "rank pattern by whole path": Wild(
        options={"rank_pattern": {"^model.layers.1.self_attn.q_proj": 20, "q_proj": 2}}
    ),
    "two patterns for one module": Wild(
        options={"rank_pattern": {"0.self_attn.q_proj": 5, "q_proj": 11, "self_attn.q_proj": 3}}
    ),
    "alpha pattern": Wild(options={"alpha_pattern": {"layers.1.self_attn.v_proj": 3}}),
    "both patterns, rslora": Wild(
        options={
            "target_modules": ALL,
            "use_rslora": True,
            "lora_alpha": 4,
            "rank_pattern": {"k_proj": 17, "layers.0.mlp.up_proj": 2},
            "alpha_pattern": {"k_proj": 9, "down_proj": 1},
        }
    ),
    "all-linear": Wild(options={"target_modules": "all-linear"}),
    "every module by name": Wild(options={"target_modules": ALL}),
    "one module": Wild(options={"target_modules": ["k_proj"]}),
    "down only": Wild(options={"target_modules": ["down_proj"]}),
    "gate and output, dropout": Wild(
        options={"target_modules": ["gate_proj", "o_proj"], "lora_dropout": 0.1}
    ),
    "whole paths": Wild(
        options={
            "target_modules": ["model.layers.0.self_attn.q_proj", "model.layers.1.mlp.up_proj"]
        }
    ),
    "whole path beside a layer": Wild(
        options={
            "target_modules": ["model.layers.0.self_attn.q_proj", "v_proj"],
            "layers_to_transform": [1],
        }
    ),
    "one layer": Wild(options={"target_modules": ALL, "layers_to_transform": 1}),
    "layers and their pattern": Wild(
        options={"layers_to_transform": [0], "layers_pattern": "layers"}
    ),
    "exclusion by path": Wild(
        options={"target_modules": ALL, "exclude_modules": ["layers.0.mlp.up_proj", "k_proj"]}
    ),
    "gaussian start": Wild(options={"init_lora_weights": "gaussian"}),
    "orthogonal start": Wild(options={"init_lora_weights": "orthogonal"}),
    "no start": Wild(options={"init_lora_weights": False}),
    "EVA": Wild(options={"init_lora_weights": "eva"}, train=start_with_eva),
    "PiSSA, converted A21": Wild(
        options={"init_lora_weights": "pissa"},
        train=leave_untrained,
        save=train_and_convert("pissa"),
    ),
    "OLoRA, converted A21": Wild(
        options={"init_lora_weights": "olora", "layers_to_transform": [1]},
        train=leave_untrained,
        save=train_and_convert("olora"),
    ),
    "float16 Z04": Wild(then=cast(torch.float16)),
    "bfloat16 Z04": Wild(options={"target_modules": ALL}, then=cast(torch.bfloat16)),
    "mixed types Z04": Wild(then=cast(torch.float32, torch.bfloat16, torch.float16)),
    "fan in, fan out": Wild(then=edit_config(fan_in_fan_out=True)),
    "called lora A08": Wild(name="lora"),
    "called lora_A A08": Wild(name="lora_A"),
    "called like a path A09": Wild(name="acme/home"),
    "name inside the keys": Wild(then=rename_keys(".weight", ".default.weight")),
    "bare decoder": Wild(
        options={"task_type": None, "target_modules": ALL},
        is_bare_decoder=True,
        then=edit_config(auto_mapping=None),
    ),
    "sum of two": Wild(save=save_sum_of_two),
    "saved again": Wild(options={"target_modules": ALL}, save=save_again),
    "old trainer": Wild(then=edit_config(**dict.fromkeys(OLD_FIELDS, ...))),
    "newer trainer A07": Wild(then=edit_config(new_option=None, other_option=False, third={})),
    "template and tokenizer beside X08 T38": Wild(
        then=add_files(
            tokenizer_config__json=f'{{"chat_template": {TEMPLATE!r}}}',
            chat_template__jinja=TEMPLATE,
            added_tokens__json='{"<evil>": 3}',
        )
    ),
    "pickle beside X09 T01": Wild(then=add_files(adapter_model__bin="cos\nsystem\n", evil__py="1")),
    "qwen2, all": Wild(family="qwen2", options={"target_modules": ALL}),
    "qwen3, rslora, patterns": Wild(
        family="qwen3",
        options={"target_modules": "all-linear", "use_rslora": True, "rank_pattern": {"q_proj": 2}},
    ),
    "mistral, one layer": Wild(
        family="mistral", options={"target_modules": ALL, "layers_to_transform": [0]}
    ),
    # Refused: what the engine does not compute.
    "DoRA": option("use_dora", True, "use_dora false"),
    "DoRA, flag removed": refused(
        "weights", "no LoRA factor", options={"use_dora": True}, then=edit_config(use_dora=False)
    ),
    "biases A13": option("bias", "lora_only", 'bias "none"'),
    "all biases A13": option("bias", "all", 'bias "none"'),
    "bias of the factors": option("lora_bias", True, "lora_bias false"),
    "full output head A05": option("modules_to_save", ["lm_head"], "without modules_to_save"),
    "full norms A05": option("modules_to_save", ["input_layernorm"], "without modules_to_save"),
    "token rows": option("trainable_token_indices", [1, 2], "without trainable_token_indices"),
    "dot that stands for any character": refused(
        "config.alpha_pattern", "q.proj", options={"alpha_pattern": {"q.proj": 64}}
    ),
    "embedding LoRA": option(
        "target_modules", ["embed_tokens", "q_proj"], "embed_tokens", "train on those alone"
    ),
    "output head LoRA A20": option(
        "target_modules", ["lm_head", "q_proj"], "lm_head", "train on those alone"
    ),
    "LoRA on parameters": option(
        "target_parameters", ["q_proj.weight"], "target_modules", target_modules=[]
    ),
    "grown embeddings saved": refused(
        "weights", "lm_head.weight", "save_embedding_layers=False", save=with_embeddings
    ),
    "repeated layers": option("layer_replication", [(0, 2), (1, 2)], "shared base model"),
    "activated LoRA": option("alora_invocation_tokens", [1], "retrain", field="config"),
    "QA-LoRA": option("use_qalora", True, "retrain", field="config"),
    "block-diagonal": option(
        "use_bdlora",
        {"target_modules_bd_a": ["q_proj"], "target_modules_bd_b": ["v_proj"], "nblocks": 2},
        "retrain",
        field="config",
    ),
    "KaSA": option("kasa_config", {}, "retrain", field="config"),
    "VeLoRA": option("velora_config", {}, "retrain", field="config"),
    "Monte Carlo": option("monteclora_config", {}, "retrain", field="config"),
    # Refused: the base would have to change.
    "PiSSA A21": option("init_lora_weights", "pissa", "convert", "shared base model"),
    "PiSSA, fast A21": option("init_lora_weights", "pissa_niter_4", "convert"),
    "OLoRA A21": option("init_lora_weights", "olora", "convert"),
    "LoRA-GA A21": option("init_lora_weights", "lora_ga", "convert"),
    "MiCA A21": option("init_lora_weights", "mica", "convert"),
    "LoftQ A21": refused(
        "config.loftq_config",
        "loftq_config",
        "shared base model",
        then=edit_config(init_lora_weights="loftq", loftq_config={"loftq_bits": 4}),
    ),
    "CorDA A21": refused(
        "config.corda_config",
        "corda_config",
        "shared base model",
        then=edit_config(init_lora_weights="corda", corda_config={"corda_method": "ipm"}),
    ),
    # Refused: patterns are not run.
    "regular expression": option("target_modules", r".*\.(q|v)_proj", "list plain module names"),
    "excluding expression": option(
        "exclude_modules", r".*layers\.0\..*", "list plain module names"
    ),
    "expression as a rank key": option(
        "rank_pattern", {r"layers\.[01]\.self_attn\.q_proj": 4}, "plain module names"
    ),
    "expression as an alpha key": option("alpha_pattern", {"(q|v)_proj": 4}, "plain module names"),
    # Refused: code is not imported.
    "no task": option("task_type", None, "CAUSAL_LM", field="config.auto_mapping"),
    "another task": option("task_type", "FEATURE_EXTRACTION", "CAUSAL_LM"),
    "megatron T09": refused(
        "config.megatron_config",
        "megatron_config",
        "remove",
        then=edit_config(megatron_config={"a": 1}, megatron_core="this"),
    ),
    "remote code T08": refused(
        "config.auto_map", "auto_map", "remove", then=edit_config(auto_map={"AutoModel": "evil.py"})
    ),
    "unknown option A07": refused(
        "config", "brand_new_option", "remove", then=edit_config(brand_new_option={"x": 1})
    ),
    # Refused: other methods.
    "IA3": other("IA3", target_modules=["v_proj", "down_proj"], feedforward_modules=["down_proj"]),
    "AdaLoRA": other("AdaLora", target_modules=["q_proj"], total_step=9, tinit=1, tfinal=1),
    "VeRA": other("Vera", target_modules=["q_proj", "o_proj"], r=4),
    "LoHa": other("LoHa", target_modules=["q_proj"], r=4),
    "LoKr": other("LoKr", target_modules=["q_proj"], r=4),
    "OFT": other("OFT", target_modules=["q_proj"], oft_block_size=8),
    "RandLoRA": other("RandLora", target_modules=["q_proj", "o_proj"], r=4),
    "VB-LoRA": other("VBLoRA", target_modules=["q_proj"], r=4, num_vectors=16, vector_length=8),
    "prompt tuning": other("PromptTuning", num_virtual_tokens=4),
    "prefix tuning": other("PrefixTuning", num_virtual_tokens=4),
    "norm tuning": other("LNTuning"),
    "token rows alone": other("TrainableTokens", token_indices=[1, 2]),
    # Refused: not for this base.
    "rank over the cap A03": refused("config.r", "r", "65", "64", options={"r": 65}),
    "rank of one module over the cap A03": refused(
        "config.rank_pattern", "v_proj", "96", "64", options={"rank_pattern": {"v_proj": 96}}
    ),
    # PEFT sorts the keys as it saves, so that another one is the first to match.
    "patterns that trade places": refused(
        "weights",
        "shape",
        "11x64",
        options={"rank_pattern": {"self_attn.q_proj": 3, "q_proj": 11}},
    ),
    "wider base": refused("weights", "shape", "8x64", changes={"hidden_size": 96}),
    "deeper base": refused("weights", "beyond the 2 layers", changes={"num_hidden_layers": 3}),
    "wider middle": refused(
        "weights", "shape", changes={"intermediate_size": 128}, options={"target_modules": ALL}
    ),
    # Refused: what happened to the files.
    "untrained": refused("weights", "all zeros", train=leave_untrained),
    "NaN A15": refused("weights", "NaN or infinite", "layers.0", then=spoil(float("nan"))),
    "infinite A15": refused("weights", "NaN or infinite", "layers.0", then=spoil(float("inf"))),
    "near overflow A15": refused("weights", "overflow", then=spoil(3e38)),
    "float64": refused("weights", "F64", "F32, F16, BF16", then=cast(torch.float64)),
    "8-bit floats": refused("weights", "F8", "F32, F16, BF16", then=cast(torch.float8_e4m3fn)),
    "compiled names": refused(
        "weights", "no LoRA factor", then=rename_keys("model.model.", "model._orig_mod.model.")
    ),
    "names without their start": refused(
        "weights", "no LoRA factor", then=rename_keys("base_model.model.", "")
    ),
    "word inside a name A10": refused(
        "weights", "no module", then=rename_keys("q_proj", "weighted_gate")
    ),
    "half of the pairs": refused(
        "weights",
        "lora_B is missing",
        then=edit_tensors(lambda t: {name: v for name, v in t.items() if "lora_A" in name}),
    ),
    "module left out": refused(
        "weights",
        "lacks",
        "layers.1.self_attn.v_proj",
        then=edit_tensors(lambda t: {k: v for k, v in t.items() if "1.self_attn.v_proj" not in k}),
    ),
    "config of another adapter": refused(
        "weights", "config does not adapt it", then=edit_config(target_modules=["q_proj"])
    ),
    "rank edited": refused("weights", "shape", "8x64", "16x64", then=edit_config(r=16)),
    "old pickle X09 T01": refused(WEIGHTS, WEIGHTS, "missing", save=pickled),
    "pickle renamed X09 T01": refused(
        "weights",
        "a PyTorch .bin",
        "safetensors",
        save=pickled,
        then=move("adapter_model.bin", WEIGHTS),
    ),
    "shards": refused(WEIGHTS, WEIGHTS, "missing", then=shard),
    "renamed weights A23": refused(WEIGHTS, "missing", then=move(WEIGHTS, "frame.safetensors")),
    "renamed config A23": refused(CONFIG, "missing", then=move(CONFIG, "lora.json")),
    "LFS pointer A16": refused(
        "weights",
        "git lfs pull",
        then=replace_weights(b"version https://git-lfs.github.com/spec/v1\noid sha256:00\n"),
    ),
    "error page A16": refused("weights", "web page", then=replace_weights(b"<!DOCTYPE html>404")),
}
