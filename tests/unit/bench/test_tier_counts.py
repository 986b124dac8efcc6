"""What the tiers did between two moments, for a table."""

from bench.tier_counts import TierCounts


def test_differences_add_up_and_stages_are_means_of_a_load():
    first = TierCounts(num_memory_hits=5, num_flash_hits=1, num_loads=1, decode_s=1.0)
    later = TierCounts(
        num_memory_hits=8, num_flash_hits=2, num_loads=3, decode_s=1.5, flash_bytes_read=300
    )
    twice = (later - first) + (later - first)
    document = twice.document()
    assert (document["memory_hits"], document["loads"]) == (0.75, 4)
    assert (document["decode_ms"], document["bytes_per_load"]) == (250.0, 150)


def test_a_node_nobody_asked_has_no_hit_rate():
    assert TierCounts().document()["memory_hits"] is None
