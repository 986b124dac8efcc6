"""The adapter store's benchmark: a real store and Redis, a few adapters instead of 10,000."""

import pytest

from bench import registry_scale
from bench.registry_scale import Plan
from bench.result import BenchError, BenchOptions
from tests.support.tiny_base import tiny_base

pytestmark = pytest.mark.integration
PLAN = Plan(sizes=(12, 24), num_registrations=(1, 2), num_calls=20, num_changes=4)


@pytest.fixture
def options(tmp_path):
    tiny_base().save(tmp_path)
    return BenchOptions(model_directory=tmp_path)


async def test_every_operation_is_measured_at_every_size(options, capsys):
    result = await registry_scale.measure(options, PLAN)
    rows = {row["operation"]: row for row in result.results["milliseconds"]}
    assert rows.keys() >= {
        "register",
        "list a page of 100",
        "resolve an alias",
        "resolve a digest",
        "get",
        "pin or unpin",
        "delete",
        "evict from flash",
    }
    for row in rows.values():
        assert row.keys() == {"operation", "12 p50", "12 p99", "24 p50", "24 p99"}
        assert all(row[size + rank] > 0 for size in ("12 ", "24 ") for rank in ("p50", "p99"))
    assert [row["adapters"] for row in result.results["store"]] == [12, 24]
    assert result.results["redis"]["bytes_per_resident_adapter"] > 0
    names = " ".join(target.name for target in result.targets)
    assert "resolve p99 at 24" in names
    assert "start to ready at 24" in names
    assert capsys.readouterr().out == ""  # what runs here logs nothing between the figures


async def test_figures_of_another_number_of_adapters_are_not_reported(options, monkeypatch):
    fill = registry_scale.store_filling.fill
    monkeypatch.setattr(
        registry_scale.store_filling, "fill", lambda directory, count: fill(directory, count - 1)
    )
    with pytest.raises(BenchError, match="lists 11 adapters, not 12"):
        await registry_scale.measure(options, PLAN)
