"""Cutting an adapter directory into messages."""

from __future__ import annotations

import pytest

from edgelora.adapter_upload import CARD_NAME, CHUNK_BYTES, FILE_NAMES, PROBE_NAME, upload_messages
from edgelora.errors import AdapterRejectedError

CONFIG, WEIGHTS = FILE_NAMES


def messages(directory, progress=None):
    return upload_messages(
        directory,
        alias="mail",
        description="",
        replace_alias=False,
        expected_generation=0,
        on_progress=progress,
    )


def test_both_files_arrive_whole_in_order_and_nothing_else(tmp_path):
    weights = bytes(range(256)) * (CHUNK_BYTES // 256) * 2 + b"end"
    (tmp_path / CONFIG).write_bytes(b"{}")
    (tmp_path / WEIGHTS).write_bytes(weights)
    (tmp_path / "training_args.bin").write_bytes(b"pickle")
    sent = []
    header, *chunks = messages(tmp_path, lambda done, total: sent.append((done, total)))
    assert header.header.HasField("expected_generation")
    assert [(file.name, file.size_bytes) for file in header.header.files] == [
        (CONFIG, 2),
        (WEIGHTS, len(weights)),
    ]
    files = {CONFIG: b"", WEIGHTS: b""}
    for message in chunks:
        assert 0 < len(message.chunk.data) <= CHUNK_BYTES
        files[message.chunk.file_name] += message.chunk.data
    assert files == {CONFIG: b"{}", WEIGHTS: weights}
    total = len(weights) + 2
    assert [done for done, _ in sent] == [2, 2 + CHUNK_BYTES, 2 + 2 * CHUNK_BYTES, total]
    assert {of for _, of in sent} == {total}


@pytest.mark.parametrize("missing", FILE_NAMES)
def test_a_missing_or_empty_file_is_named_A23(tmp_path, missing):
    for name in FILE_NAMES:
        (tmp_path / name).write_bytes(b"{}")
    (tmp_path / missing).write_bytes(b"")
    with pytest.raises(AdapterRejectedError, match=missing):
        next(messages(tmp_path))
    (tmp_path / missing).unlink()
    with pytest.raises(AdapterRejectedError, match=missing):
        next(messages(tmp_path))


def test_probe_and_card_go_last_and_an_empty_one_is_named(tmp_path):
    names = [CONFIG, WEIGHTS, PROBE_NAME, CARD_NAME]
    for name in names:
        (tmp_path / name).write_bytes(b"{}\n")
    header, *chunks = messages(tmp_path)
    assert [file.name for file in header.header.files] == names
    assert [message.chunk.file_name for message in chunks] == names
    assert chunks[-1].chunk.data == b"{}\n"
    for name in (PROBE_NAME, CARD_NAME):
        (tmp_path / name).write_bytes(b"")
        with pytest.raises(AdapterRejectedError, match="remove it") as caught:
            next(messages(tmp_path))
        assert caught.value.field == name
        (tmp_path / name).unlink()
