"""What `edgelora up` refuses before it starts anything."""

import pytest

from edgelora.cli.main import run


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--no-decoder"], "give --encoder as well"),
        (["--encoder", "--no-decoder", "--demo"], "--demo needs the decoder"),
    ],
)
def test_options_that_leave_nothing_to_do(options, words, tmp_path, capsys):
    assert run(["up", *options, "--home", str(tmp_path / "home")]) == 1
    assert words in capsys.readouterr().err
    assert not (tmp_path / "home").exists()
