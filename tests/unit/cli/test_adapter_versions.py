"""Lower-rank versions of a directory, before they are sent."""

from edgelora.adapter_format import parse_adapter_config
from edgelora.adapter_format.architecture import ENCODER
from edgelora.cli.adapter_versions import cut_versions
from tests.support.tiny_encoder import classifier_files


def test_versions_of_a_classifier_bring_its_head_and_no_card(tmp_path):
    directory = tmp_path / "sort"
    directory.mkdir()
    files = classifier_files(["pay", "move"], card=b"{}")
    for name, data in (
        ("adapter_config.json", files.config),
        ("adapter_model.safetensors", files.weights),
        ("head.json", files.head),
        ("card.json", files.card),
    ):
        (directory / name).write_bytes(data)
    (version,) = cut_versions(directory, [2], tmp_path)
    assert 0 < version.relative_error < 1
    assert (version.directory / "head.json").read_bytes() == files.head
    assert not (version.directory / "card.json").exists()
    config = (version.directory / "adapter_config.json").read_bytes()
    parsed = parse_adapter_config(config, max_rank=64, architecture=ENCODER)
    assert (parsed.rank, parsed.saves_classifier) == (2, True)
