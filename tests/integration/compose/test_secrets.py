"""deploy/make_secrets.sh: random, closed to others, kept at the second run, never shown."""

import hashlib
import os
import stat
import subprocess

import pytest

from tests.support.compose_file import ROOT, load_compose

pytestmark = pytest.mark.integration


def make_secrets(directory):
    done = subprocess.run(
        ["sh", str(ROOT / "deploy/make_secrets.sh"), str(directory)],
        capture_output=True,
        text=True,
        check=True,
        stdin=subprocess.DEVNULL,
    )
    return done.stdout + done.stderr


def contents(directory):
    return {path.name: path.read_text() for path in directory.iterdir()}


def test_every_secret_of_the_compose_file_is_made_0600(tmp_path):
    output = make_secrets(tmp_path / "secrets")
    secrets = load_compose({"EDGELORA_SECRETS": str(tmp_path / "secrets")})["secrets"]
    made = {str(path) for path in (tmp_path / "secrets").iterdir()}
    assert made == {secret["file"] for secret in secrets.values()}
    for path in (tmp_path / "secrets").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert path.read_text() not in output
    assert stat.S_IMODE((tmp_path / "secrets").stat().st_mode) == 0o700


def test_the_containers_run_as_the_owner_of_the_secrets_and_never_as_root(tmp_path):
    make_secrets(tmp_path / "secrets")
    lines = (tmp_path / ".env").read_text().splitlines()
    variables = dict(line.split("=") for line in lines)
    owner = (tmp_path / "secrets" / "seal.key").stat()
    assert owner.st_uid == int(variables["EDGELORA_UID"]) != 0
    assert owner.st_gid == int(variables["EDGELORA_GID"]) != 0
    assert load_compose(variables)["services"]["gateway"]["user"] == (
        f"{owner.st_uid}:{owner.st_gid}"
    )


def test_the_keys_are_long_random_and_differ(tmp_path):
    make_secrets(tmp_path / "a")
    make_secrets(tmp_path / "b")
    keys = [
        contents(tmp_path / place)[name]
        for place in ("a", "b")
        for name in ("seal.key", "redis.password")
    ]
    assert len(set(keys)) == 4
    assert all(len(bytes.fromhex(key)) == 32 for key in keys)


def test_redis_gets_a_hash_of_the_password_and_not_the_password(tmp_path):
    make_secrets(tmp_path / "secrets")
    made = contents(tmp_path / "secrets")
    assert made["redis.password"] not in made["redis.acl"]
    assert f"#{hashlib.sha256(made['redis.password'].encode()).hexdigest()} " in made["redis.acl"]
    assert "PASSWORD_SHA256" not in made["redis.acl"]


def test_a_second_run_keeps_the_secrets(tmp_path):
    make_secrets(tmp_path / "secrets")
    before = contents(tmp_path / "secrets")
    make_secrets(tmp_path / "secrets")
    assert contents(tmp_path / "secrets") == before


def test_the_secrets_of_a_checkout_are_never_committed():
    ignored = subprocess.run(
        ["git", "-C", str(ROOT), "check-ignore", "deploy/secrets/seal.key", "deploy/.env"],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": os.environ["PATH"]},
    )
    assert ignored.stdout.split() == ["deploy/secrets/seal.key", "deploy/.env"]
