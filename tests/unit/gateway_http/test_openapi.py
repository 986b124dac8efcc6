"""The OpenAPI document says what the routes are, and its schemas are sound."""

import json
import re

import jsonschema
import pytest

from edgelora.errors import InvalidRequestError
from services.gateway.http.json_fields import Fields
from services.gateway.http.ollama.routes import ollama_routes
from services.gateway.http.openai import chat, completions, responses
from services.gateway.http.openai.routes import openai_routes
from services.gateway.http.openai.shared_fields import read_shared
from services.gateway.http.openapi.document import api_document
from services.gateway.http.own_routes import own_routes

DOCUMENT = api_document()
SCHEMAS = DOCUMENT["components"]["schemas"]


def routes():
    """Made, never called: their handlers need nothing yet."""
    return [*openai_routes(None, None), *own_routes(None, None), *ollama_routes(None, None)]


def test_the_document_has_the_paths_and_methods_of_the_routes_and_no_other():
    served = {
        (re.sub(r":\w+}", "}", route.path), method.lower())
        for route in routes()
        for method in route.methods - {"HEAD"}
    }
    documented = {
        (path, method)
        for path, item in DOCUMENT["paths"].items()
        for method in item
        if method != "parameters"
    }
    assert documented == served


def test_parameters_of_a_path_are_those_in_it():
    for path, item in DOCUMENT["paths"].items():
        named = {parameter["name"] for parameter in item.get("parameters", ())}
        assert named == set(re.findall(r"{(\w+)}", path))


def test_every_reference_leads_somewhere_and_every_schema_is_used():
    used = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(DOCUMENT)))
    assert used == set(SCHEMAS)


@pytest.mark.parametrize("name", SCHEMAS)
def test_schemas_are_schemas(name):
    jsonschema.Draft202012Validator.check_schema(SCHEMAS[name])


def test_only_what_needs_no_key_is_open():
    is_open = {
        path
        for path, item in DOCUMENT["paths"].items()
        for operation in item.values()
        if isinstance(operation, dict) and operation.get("security") == []
    }
    assert is_open == {"/", "/healthz", "/openapi.json"}


def test_the_chat_schema_has_the_fields_that_the_path_knows():
    """The reader lists what it knows when it refuses something else."""
    for module, name, limit, least in (
        (chat, "ChatCompletionRequest", chat._MAX_TOKENS, {"messages": []}),
        (completions, "CompletionRequest", ("max_tokens",), {"prompt": "x"}),
        (responses, "ResponseRequest", ("max_output_tokens",), {"input": "x"}),
    ):
        fields = Fields({"model": "base", "canary": 1, **least})
        shared = read_shared(fields, "base", max_tokens=limit)
        with pytest.raises(InvalidRequestError) as caught:
            module._read_request(fields, shared)
        known = set(caught.value.message.partition("known are ")[2].split(", "))
        refused = set(module._NOT_SERVED)
        assert set(SCHEMAS[name]["properties"]) - refused == known, name
