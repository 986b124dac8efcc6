"""Texts go to the node as many at a time as it takes."""

import io

import pytest

from edgelora.cli.encoding_input import batches
from edgelora.cli.errors import CliError


def test_all_texts_come_in_order_and_no_batch_is_larger_than_asked():
    texts = [str(number) for number in range(130)]
    assert [len(batch) for batch in batches(texts)] == [64, 64, 2]
    few = list(batches([*texts, ""], 5))
    assert {len(batch) for batch in few} == {5}
    assert [text for batch in few for text in batch] == texts


@pytest.mark.parametrize("arguments", [(), ("",)])
def test_no_text_at_all_is_an_error(monkeypatch, arguments):
    monkeypatch.setattr("sys.stdin", io.StringIO("\n \n"))
    with pytest.raises(CliError, match="there is no text"):
        list(batches(arguments))


@pytest.mark.parametrize("errors", ["strict", "surrogateescape"])
def test_lines_in_another_encoding_are_refused_in_every_locale(monkeypatch, errors):
    data = io.BytesIO("gr\u00fcn\n".encode("latin-1"))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(data, encoding="utf-8", errors=errors))
    with pytest.raises(CliError, match="not UTF-8 text") as caught:
        list(batches(()))
    assert "gr" not in str(caught.value)
