"""Settings report every mistake at once and never show a secret."""

from pathlib import Path

import pytest

from services.chassis.settings import ConfigError, Settings


def test_readers_convert_values_and_units(tmp_path):
    secret = tmp_path / "key"
    secret.write_text("s3cret\n")
    environ = {
        "X_NAME": "hub",
        "X_SEQS": "16",
        "X_SHARE": "0.5",
        "X_ON": "yes",
        "X_CACHE": "512MiB",
        "X_LEASE": "250ms",
        "X_KEY": str(secret),
        "OTHER": "ignored",
    }
    settings = Settings(environ, "X_")
    assert settings.text("NAME") == "hub"
    assert settings.integer("SEQS", 1, low=1, high=64) == 16
    assert settings.number("SHARE", 1, low=0, high=1) == 0.5
    assert settings.boolean("ON", False) is True
    assert settings.size_bytes("CACHE", 0) == 512 * 2**20
    assert settings.duration_s("LEASE", 1.0) == 0.25
    assert settings.secret_file("KEY") == b"s3cret"
    assert settings.path("DIR", Path("/tmp")) == Path("/tmp")
    settings.finish()


def test_finish_lists_every_mistake_and_every_unknown_name():
    environ = {"X_SEQS": "1.5", "X_ON": "maybe", "X_CACHE": "many", "X_TYPO": "1", "X_N": "nan"}
    settings = Settings(environ, "X_")
    settings.text("NAME")
    settings.integer("SEQS", 4, low=1, high=64)
    settings.boolean("ON", False)
    settings.size_bytes("CACHE", 7)
    settings.number("N", 1, low=0, high=9)
    settings.secret_file("KEY")
    with pytest.raises(ConfigError) as caught:
        settings.finish()
    message = str(caught.value)
    for name in ("X_NAME", "X_SEQS", "X_ON", "X_CACHE", "X_N ", "X_KEY", "X_TYPO"):
        assert name in message
    assert len(message.splitlines()) == 7


def test_a_secret_is_read_from_a_file_and_an_empty_one_is_refused(tmp_path):
    (tmp_path / "empty").write_text("\n")
    settings = Settings({"X_A": str(tmp_path / "empty"), "X_B": str(tmp_path / "none")}, "X_")
    settings.secret_file("A")
    settings.secret_file("B")
    assert settings.optional_secret_file("C") is None
    with pytest.raises(ConfigError, match=r"X_A: the file is empty\nX_B: cannot read the file"):
        settings.finish()


@pytest.mark.parametrize("secret", [b"\t" + b"k" * 31 + b"\xff", b"one\ntwo", b"\x00" * 32])
def test_a_secret_of_raw_bytes_is_refused_because_its_ends_may_be_white_space(tmp_path, secret):
    (tmp_path / "raw").write_bytes(secret)
    settings = Settings({"X_A": str(tmp_path / "raw")}, "X_")
    settings.secret_file("A")
    with pytest.raises(ConfigError, match="X_A: the file must hold one line of text"):
        settings.finish()


def test_an_unknown_name_is_answered_with_the_closest_known_one():
    settings = Settings({"X_KV_CACHE_SISE": "1GiB", "X_COLOUR": "blue"}, "X_")
    settings.size_bytes("KV_CACHE_SIZE", 0)
    with pytest.raises(ConfigError) as caught:
        settings.finish()
    assert str(caught.value).splitlines() == [
        "X_COLOUR is not a known setting: docs/configuration.md has all of them",
        "X_KV_CACHE_SISE is not a known setting: did you mean X_KV_CACHE_SIZE? "
        "docs/configuration.md has all of them",
    ]
