"""Names with and without a tag."""

import pytest

from edgelora.errors import AdapterNotFoundError, InvalidRequestError
from services.gateway.http.ollama.model_tags import selections_named, tagged

DIGEST = "sha256:" + "a" * 64


@pytest.mark.parametrize(
    ("name", "adapter"),
    [
        ("base", None),
        ("base:latest", None),
        ("home", "home"),
        ("home:latest", "home"),
        ("base:home", "home"),
        ("base:home:latest", "home"),
        ("latest", "latest"),
        ("latest:latest", "latest"),
        ("auto", "auto"),
        ("auto:latest", "auto"),
        (DIGEST, DIGEST),
        (DIGEST + ":latest", DIGEST),
        ("Base", "Base"),
    ],
)
def test_a_name_means_one_thing(name, adapter):
    found = [selection.adapter for selection in selections_named(name, "base")]
    assert found == ([] if adapter is None else [adapter])


@pytest.mark.parametrize(
    "name", ["llama3.2:1b", "base:", "base:a:b", "..", "a/b", "sha256:1", "home:LATEST"]
)
def test_what_no_model_can_be_called_is_not_found_rather_than_wrong(name):
    with pytest.raises(AdapterNotFoundError) as refused:
        selections_named(name, "base")
    assert name not in refused.value.message


@pytest.mark.parametrize("name", ["", " ", "\t", ":latest"])
def test_a_blank_name_is_wrong(name):
    with pytest.raises(InvalidRequestError):
        selections_named(name, "base")


def test_a_base_with_a_tag_of_its_own_is_found_by_it():
    assert selections_named("llama3.2:1b", "llama3.2:1b") == []
    assert tagged("llama3.2:1b") == "llama3.2:1b"
    assert tagged("home") == "home:latest"
