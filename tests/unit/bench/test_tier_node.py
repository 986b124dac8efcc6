"""The order of requests that makes every one find its adapter in the tier it is meant for."""

from collections import deque

import pytest

from bench.deployment import PlacedAdapter
from bench.tier_node import SLOTS, TierNode


def placed(name):
    return PlacedAdapter(None, name)


@pytest.mark.parametrize(("num_flash", "num_remote"), [(6, 3), (20, 0)])
def test_no_adapter_is_in_a_slot_when_its_turn_comes(num_flash, num_remote):
    flash = [placed(f"flash-{number}") for number in range(num_flash)]
    remote = [placed(f"remote-{number}") for number in range(num_remote)]
    order = TierNode(flash, remote).order()
    assert sorted(each.alias for each in order) == sorted(each.alias for each in [*flash, *remote])
    slots = deque(maxlen=SLOTS)
    for each in order * 3:
        assert each.alias not in slots
        slots.append(each.alias)


def test_a_package_has_left_flash_when_its_turn_comes_and_the_next_to_go_is_in_no_slot():
    node = TierNode(
        [placed(f"flash-{number}") for number in range(6)],
        [placed(f"remote-{number}") for number in range(3)],
    )
    remotes = {each.alias for each in node.remote}
    slots, on_flash = deque(maxlen=SLOTS), deque(maxlen=2)
    for each in node.order() * 3:
        if each.alias in remotes:
            assert each.alias not in on_flash
            if len(on_flash) == 2:
                assert on_flash[0] not in slots
            on_flash.append(each.alias)
        slots.append(each.alias)
