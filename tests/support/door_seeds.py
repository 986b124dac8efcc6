"""Right requests for every path and every RPC of the tenants' doors; mutations start from them.

Every text a user could have written holds the canary, which must never be logged.
"""

from __future__ import annotations

from typing import Any

from edgelora.v1 import gateway_service_pb2 as pb
from edgelora.v1.adapter_pb2 import AdapterSelection
from edgelora.v1.degradation_pb2 import DegradationPreference
from edgelora.v1.generation_pb2 import (
    ChatMessage,
    Constraint,
    GenerationOptions,
    SamplingParams,
    StopConditions,
    Tool,
    ToolCall,
    ToolUse,
)

CANARY = "canary-5e1f"
_ASKED = [
    {"role": "system", "content": f"Be {CANARY}."},
    {"role": "user", "content": f"Say {CANARY}."},
]
_SCHEMA = {
    "type": "object",
    "properties": {CANARY: {"type": "string", "enum": [CANARY, "x"]}, "n": {"type": "integer"}},
    "required": [CANARY],
    "additionalProperties": False,
}
_TOOL = {
    "type": "function",
    "function": {"name": "switch", "description": CANARY, "parameters": _SCHEMA},
}
_EXTENSIONS = {
    "adapters": [{"id": "home", "weight": 0.5}],
    "priority": "batch",
    "session": CANARY,
    "user": CANARY,
    "fallback_adapter": "home",
}
_SAMPLING = {
    "temperature": 0.7, "top_p": 0.9, "top_k": 40, "min_p": 0.05, "seed": 3,
    "presence_penalty": 0.5, "frequency_penalty": -0.5, "stop": [CANARY],
}  # fmt: skip
_OPENAI_TURNS = [
    *_ASKED,
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": "call_1",
                "type": "function",
                "function": {"name": "switch", "arguments": f'{{"{CANARY}": "x"}}'},
            }
        ],
    },
    {"role": "tool", "tool_call_id": "call_1", "content": CANARY},
]
_OLLAMA_TURNS = [
    *_ASKED,
    {
        "role": "assistant",
        "tool_calls": [{"function": {"name": "switch", "arguments": {CANARY: "x"}}}],
    },
    {"role": "tool", "content": CANARY, "tool_name": "switch"},
]

BODIES: dict[str, list[Any]] = {
    "/v1/chat/completions": [
        {"model": "home", "messages": _ASKED, "stream": True, "max_tokens": 5, **_SAMPLING},
        {"model": "stand-in", "messages": _OPENAI_TURNS, "tools": [_TOOL], **_EXTENSIONS},
        {
            "model": "stand-in:home",
            "messages": [{"role": "user", "content": [{"type": "text", "text": CANARY}]}],
            "adapter_strength": 0.5,
            "logprobs": True,
            "top_logprobs": 2,
            "stream_options": {"include_usage": True},
            "stream": True,
        },
        {
            "model": "auto",
            "messages": _ASKED,
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "answer", "schema": _SCHEMA, "strict": True},
            },
        },
        {"model": "home", "messages": _ASKED, "tools": [_TOOL], "tool_choice": "required"},
    ],
    "/v1/completions": [
        {"model": "home", "prompt": f"Say {CANARY}", "max_tokens": 5, **_SAMPLING},
        {"model": "stand-in", "prompt": CANARY, "stream": True, "echo": False, **_EXTENSIONS},
    ],
    "/v1/responses": [
        {"model": "home", "input": f"Say {CANARY}", "instructions": CANARY, "stream": True},
        {
            "model": "stand-in",
            "input": _ASKED,
            "tools": [{"type": "function", "name": "switch", "parameters": _SCHEMA}],
            "max_output_tokens": 5,
            "text": {"format": {"type": "text"}},
            **_EXTENSIONS,
        },
    ],
    "/v1/embeddings": [
        {"model": "stand-in-encoder", "input": [CANARY, "x"], "encoding_format": "base64"},
        {"model": "intents", "input": CANARY, "adapter_strength": 0.5, "priority": "batch"},
    ],
    "/v1/classify": [{"model": "intents", "input": [CANARY, "x"], "top": 2, "user": CANARY}],
    "/v1/generations/{id}/strength": [{"strength": 0.5, "adapter": "home"}],
    "/api/chat": [
        {"model": "home", "messages": _ASKED, "options": {**_SAMPLING, "num_predict": 5}},
        {
            "model": "stand-in:latest",
            "messages": _OLLAMA_TURNS,
            "tools": [_TOOL],
            "stream": True,
            "keep_alive": "5m",
            "think": False,
            "options": {"num_ctx": 8192.0},
        },
        {"model": "home:latest", "messages": _ASKED, "format": _SCHEMA, "stream": False},
        {"model": "stand-in", "messages": _ASKED, "format": "json", **_EXTENSIONS},
    ],
    "/api/generate": [
        {"model": "home", "prompt": f"Say {CANARY}", "system": CANARY, "stream": False},
        {"model": "stand-in", "prompt": CANARY, "raw": True, "options": _SAMPLING},
        {"model": "home", "keep_alive": 0},
    ],
    "/api/show": [{"model": "home"}, {"name": "stand-in:latest", "verbose": True}],
    "/api/pull": [{"model": "home", "stream": True}, {"name": "stand-in", "insecure": False}],
    "/api/create": [{"model": CANARY, "from": "home", "system": CANARY}],
    "/api/copy": [{"source": "home", "destination": CANARY}],
    "/api/delete": [{"model": "home"}],
    "/api/push": [{"model": "home", "insecure": False}],
    "/api/blobs/{digest}": [{"file": CANARY}],
    "/api/embed": [{"model": "stand-in-encoder:latest", "input": [CANARY], "truncate": True}],
    "/api/embeddings": [{"model": "intents", "prompt": CANARY}],
}
"""Path of a route that reads a body -> bodies."""

_ADAPTERS = [AdapterSelection(adapter="home", strength=0.5)]
_OPTIONS = GenerationOptions(
    sampling=SamplingParams(temperature=0.7, top_k=40, top_p=0.9, min_p=0.05, seed=3),
    stop=StopConditions(max_tokens=5, stop_strings=[CANARY], stop_token_ids=[1]),
    logprobs=2,
)
_GENERAL: dict[str, Any] = {
    "adapters": _ADAPTERS,
    "options": _OPTIONS,
    "user": CANARY,
    "session": CANARY,
    "degradation": DegradationPreference(fallback_adapter="home"),
}
_MESSAGES = [
    ChatMessage(role="system", content=f"Be {CANARY}."),
    ChatMessage(role="user", content=f"Say {CANARY}."),
]
_DIGEST = "sha256:" + "1" * 64

MESSAGES: dict[str, list[Any]] = {
    "Generate": [
        pb.GenerateRequest(prompt=f"Say {CANARY}"),
        pb.GenerateRequest(prompt=CANARY, **_GENERAL),
    ],
    "Chat": [
        pb.ChatRequest(messages=_MESSAGES, **_GENERAL),
        pb.ChatRequest(
            messages=[
                *_MESSAGES,
                ChatMessage(
                    role="assistant", tool_calls=[ToolCall(name="switch", arguments_json="{}")]
                ),
                ChatMessage(role="tool", content=CANARY),
            ],
            tools=ToolUse(tools=[Tool(name="switch", description=CANARY)]),
        ),
        pb.ChatRequest(
            messages=_MESSAGES,
            options=GenerationOptions(constraint=Constraint(json_schema='{"type": "object"}')),
        ),
        pb.ChatRequest(
            messages=_MESSAGES, options=GenerationOptions(constraint=Constraint(regex=CANARY))
        ),
    ],
    "Classify": [
        pb.ClassifyRequest(
            texts=[CANARY, "x"],
            adapter=AdapterSelection(adapter="intents", strength=0.5),
            top_labels=2,
            user=CANARY,
        )
    ],
    "Embed": [
        pb.EmbedRequest(texts=[CANARY]),
        pb.EmbedRequest(texts=["x"], adapter=AdapterSelection(adapter="intents")),
    ],
    "SetStrength": [pb.SetStrengthRequest(request_id="0" * 32, adapter="home", strength=0.5)],
    "ForgetSession": [pb.ForgetSessionRequest(session=CANARY)],
    "ListAdapters": [pb.ListAdaptersRequest(page_size=10), pb.ListAdaptersRequest()],
    "GetStatus": [pb.GetStatusRequest()],
    "RegisterAdapter": [
        pb.RegisterAdapterRequest(
            header=pb.AdapterUploadHeader(
                alias="home",
                description=CANARY,
                replace_alias=True,
                files=[
                    pb.AdapterUploadFile(name="adapter_config.json", size_bytes=4),
                    pb.AdapterUploadFile(name="adapter_model.safetensors", size_bytes=6),
                ],
            )
        ),
        pb.RegisterAdapterRequest(
            chunk=pb.AdapterUploadChunk(file_name="adapter_config.json", data=b"{ } ")
        ),
        pb.RegisterAdapterRequest(
            chunk=pb.AdapterUploadChunk(file_name="adapter_model.safetensors", data=b"abcdef")
        ),
    ],
    "InstallAdapter": [
        pb.InstallAdapterRequest(package=f"garage/{CANARY}:1", alias="home", replace_alias=True)
    ],
    "GetAdapter": [pb.GetAdapterRequest(adapter="home")],
    "PinAdapter": [pb.PinAdapterRequest(adapter="home", is_pinned=True)],
    "SetWarmUp": [pb.SetWarmUpRequest(is_enabled=False, forget=True)],
    "SetAdapterAlias": [
        pb.SetAdapterAliasRequest(name="other", digest=_DIGEST, expected_generation=0)
    ],
    "DeleteAdapter": [pb.DeleteAdapterRequest(adapter="nobody")],
}
"""RPC of GatewayService -> messages."""
