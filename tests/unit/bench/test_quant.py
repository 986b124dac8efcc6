"""What `bench quant` asks of the world, how it names what it keeps, what it makes of figures."""

import math
from pathlib import Path

import pytest

from bench.peers.roster import NATIVE
from bench.perplexity import VARIABLE
from bench.plots import draw_quantisation
from bench.quant_cache import code_digest, fingerprint
from bench.quant_files import Matrices
from bench.result import BenchError

pytest.importorskip("edgelora_native.matrices", reason="run `make native` first")
from bench.quant import Judged, find_texts, targets
from bench.quant_models import DEFAULT, HALF, LARGER, LLAMA, MIXED, ROTATED, Form
from bench.quant_perplexity import PIECE_WINDOWS, Likelihood, cut, total


def judged(model, weights, first, whole, num_bytes, change=None):
    form = Form(
        model=model,
        weights=weights,
        contender=LLAMA if weights == "Q4_0" else NATIVE,
        place=Path("place"),
        file=Path("file"),
        matrices=Matrices(num_weights=100, num_bytes=num_bytes, kinds={"4 bit": 75, "8 bit": 25}),
        largest_change=change,
    )
    return Judged(form, first, whole)


def test_texts_that_are_not_there_are_named(tmp_path):
    with pytest.raises(BenchError, match=f"{VARIABLE} is not set"):
        find_texts({})
    test = tmp_path / "test.txt"
    environ = {VARIABLE: str(test)}
    with pytest.raises(BenchError, match=f"{VARIABLE} names no readable file"):
        find_texts(environ)
    test.write_text("a")
    with pytest.raises(BenchError, match=r"no valid\.txt beside the file"):
        find_texts(environ)
    (tmp_path / "valid.txt").write_text("b")
    assert find_texts(environ) == (test, tmp_path / "valid.txt")


def test_the_first_piece_has_sixty_windows_and_the_rest_is_dropped():
    pieces = cut(range(1000), window_tokens=8, max_windows=1000)
    assert [len(piece) for piece in pieces] == [PIECE_WINDOWS, PIECE_WINDOWS, 5]
    assert list(pieces[1][0]) == list(range(480, 488))
    assert [len(piece) for piece in cut(range(1000), window_tokens=8, max_windows=2)] == [2]
    assert cut(range(7), window_tokens=8, max_windows=2) == []


def test_pieces_add_up_to_the_perplexity_of_all_tokens():
    both = total([Likelihood(math.log(4) * 30, 30), Likelihood(math.log(16) * 30, 30)])
    assert both.tokens == 60
    assert both.perplexity == pytest.approx(8)


def test_names_change_with_everything_they_stand_for(tmp_path):
    assert fingerprint("a", [1, None]) == fingerprint("a", [1, None])
    assert len({fingerprint("a", 1), fingerprint("a", 2), fingerprint("b", 1)}) == 3
    package = tmp_path / "package"
    package.mkdir()
    (package / "one.py").write_text("1")
    before = code_digest(package)
    (package / "note.txt").write_text("no code")
    assert code_digest(package) == before
    (package / "two.so").write_bytes(b"2")
    assert code_digest(package) != before


def test_ours_is_held_to_the_unquantised_weights_and_to_llama_cpp():
    rows = [
        judged(DEFAULT, HALF, 19.2, 25.0, 1600),
        judged(DEFAULT, MIXED, 19.2, 25.01, 540, change=0.0),
        judged(DEFAULT, "Q4_0", 22.0, 28.0, 530),
        judged(ROTATED, HALF, 19.2, 25.0, 1600),
        judged(ROTATED, MIXED, 19.4, 25.4, 520),
        # Without figures over all windows, those of the first count.
        judged(ROTATED, LARGER, 19.3, None, 550),
        judged(ROTATED, "Q4_0", 23.0, 29.0, 520),
    ]
    speeds = {
        model: {"decode, 1 stream": {HALF: 100.0, MIXED: mixed}, "prefill": {HALF: 1.0, MIXED: 1.0}}
        for model, mixed in ((DEFAULT, 250.0), (ROTATED, 200.0))
    }
    found = {one.name: one for one in targets(rows, speeds)}
    assert {name: one.value for name, one in found.items()} == {
        "default: largest change of a weight": 0.0,
        "default, mixed: perplexity over bfloat16": 0.01,
        "default, mixed: 16 bits / ours, bytes": 2.963,
        "default: llama.cpp Q4_0 above mixed": 2.99,
        "rotated, mixed: perplexity over bfloat16": 0.4,
        "rotated, mixed: 16 bits / ours, bytes": 3.077,
        "rotated, mixed-2.9x: perplexity over bfloat16": 0.1,
        "rotated, mixed-2.9x: 16 bits / ours, bytes": 2.909,
        "rotated: llama.cpp Q4_0 above mixed": 3.6,
        "rotated: mixed / llama.cpp Q4_0, bytes": 1.0,
        "decode, 1 stream: ours / bfloat16": 2.0,
    }
    missed = {name for name, one in found.items() if not one.ok}
    assert missed == {
        "rotated, mixed: perplexity over bfloat16",
        "decode, 1 stream: ours / bfloat16",
    }
    without = {one.name: one for one in targets([*rows[:2], *rows[3:5]], speeds)}
    assert without["rotated: llama.cpp Q4_0 above mixed"].value is None
    assert without["rotated: mixed / llama.cpp Q4_0, bytes"].value is None


def test_kinds_are_told_by_their_share():
    matrices = judged(DEFAULT, MIXED, 1.0, None, 65).form.matrices
    assert matrices.kinds_text == "4 bit 75%, 8 bit 25%"
    assert matrices.bits_per_weight == pytest.approx(5.2)


def test_the_picture_has_every_quantised_form(tmp_path):
    rows = [
        dict(model="rotated", weights="float32", engine="peft", megabytes=None, first=19.2),
        dict(model="rotated", weights="bfloat16", engine="native", megabytes=320, first=19.2),
        dict(model="rotated", weights="mixed", engine="native", megabytes=105, first=19.5),
        dict(model="rotated", weights="Q4_0", engine="llama.cpp", megabytes=106, first=22.0),
    ]
    picture = tmp_path / "picture.svg"
    draw_quantisation({"results": {"perplexity": rows}}, picture)
    drawn = picture.read_text()
    assert all(word in drawn for word in (">mixed<", ">Q4_0<", ">rotated<"))
    assert "bfloat16" not in drawn
