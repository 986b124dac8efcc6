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
    encoded = [placed(f"encoded-{number}") for number in range(num_remote)]
    node = TierNode(flash, remote, encoded)
    slots = deque(maxlen=SLOTS)
    for number in range(6):
        order = node.order(number)
        asked = [*flash, *(encoded if number % 2 else remote)]
        assert sorted(each.alias for each in order) == sorted(each.alias for each in asked)
        for each in order:
            assert each.alias not in slots
            slots.append(each.alias)


def test_a_package_has_left_flash_when_its_turn_comes_and_the_next_to_go_is_in_no_slot():
    node = TierNode(
        [placed(f"flash-{number}") for number in range(6)],
        [placed(f"remote-{number}") for number in range(3)],
        [placed(f"encoded-{number}") for number in range(3)],
    )
    packages = {each.alias for each in [*node.remote, *node.encoded]}
    slots, on_flash = deque(maxlen=SLOTS), deque(maxlen=2)
    for each in [each for number in range(6) for each in node.order(number)]:
        if each.alias in packages:
            assert each.alias not in on_flash
            if len(on_flash) == 2:
                assert on_flash[0] not in slots
            on_flash.append(each.alias)
        slots.append(each.alias)
