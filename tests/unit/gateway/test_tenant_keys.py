"""Several keys of one tenant: rotation with overlap, ends under clocks that jump, revocation."""

from __future__ import annotations

import pytest

from edgelora.errors import InvalidRequestError, NotFoundError
from services.gateway.api_keys import MAX_KEYS
from services.gateway.tenant_registry import TenantRegistry
from tests.support.fake_clock import FakeClock

DAY_S = 86_400.0


class Node:
    """A registry whose clocks the test moves."""

    def __init__(self, path) -> None:
        self.path = path
        self.wall = FakeClock(1_000_000.0)
        self.boot = FakeClock(500.0)
        self.registry = self.open("first")

    def open(self, boot_id: str) -> TenantRegistry:
        return TenantRegistry(self.path, self.wall, self.boot, boot_id)

    def reboot(self) -> None:
        self.registry.close()
        self.boot = FakeClock(1.0)
        self.registry = self.open("second")

    def pass_time(self, seconds: float) -> None:
        self.wall.advance(seconds)
        self.boot.advance(seconds)

    def opens(self, key: str) -> bool:
        return self.registry.find_by_key(key) is not None


@pytest.fixture
def node(tmp_path):
    node = Node(tmp_path / "tenants.sqlite")
    yield node
    node.registry.close()


def test_a_rotated_key_holds_for_the_overlap_and_no_longer(node):
    _, old = node.registry.create("acme")
    key, new = node.registry.create_key("acme", overlap_s=DAY_S)
    assert key.key_id == "2"
    assert node.opens(old)
    assert node.opens(new)
    assert node.registry.holds_key("acme", "1")
    node.pass_time(DAY_S - 1)
    assert node.opens(old)
    node.pass_time(1)
    assert not node.opens(old)
    assert not node.registry.holds_key("acme", "1")
    assert node.opens(new)
    listed = [(key.key_id, key.expires_at_s) for key in node.registry.keys("acme")]
    assert listed == [("2", None), ("1", 1_000_000.0 + DAY_S)]


def test_without_an_overlap_the_others_stay_and_with_none_they_end_at_once(node):
    _, first = node.registry.create("acme")
    _, second = node.registry.create_key("acme")
    assert node.opens(first)
    _, third = node.registry.create_key("acme", overlap_s=0)
    assert [node.opens(key) for key in (first, second, third)] == [False, False, True]


def test_a_later_rotation_never_makes_a_key_last_longer(node):
    _, first = node.registry.create("acme")
    node.registry.create_key("acme", overlap_s=60)
    node.registry.create_key("acme", overlap_s=DAY_S)
    node.pass_time(60)
    assert not node.opens(first)


def test_a_clock_set_back_does_not_make_a_key_last_longer_T40(node):
    _, old = node.registry.create("acme")
    node.registry.create_key("acme", overlap_s=DAY_S)
    node.pass_time(DAY_S / 2)
    node.wall.advance(-DAY_S / 2)
    assert node.opens(old)
    node.pass_time(DAY_S / 2)  # a day has passed, whatever the wall clock says
    assert not node.opens(old)


def test_a_clock_set_forward_ends_a_key_early_and_a_key_without_an_end_never(node):
    _, old = node.registry.create("acme")
    _, new = node.registry.create_key("acme", overlap_s=DAY_S)
    node.wall.advance(100 * DAY_S)
    assert not node.opens(old)
    assert node.opens(new)


def test_after_a_boot_without_the_time_keys_with_an_end_wait_for_it(node):
    _, old = node.registry.create("acme")
    _, new = node.registry.create_key("acme", overlap_s=DAY_S)
    before_s = node.wall()
    node.wall.advance(-before_s)  # 1970: no battery behind the clock
    node.reboot()
    assert not node.opens(old)
    assert node.opens(new)
    node.wall.advance(before_s + 10)  # now it was told the time
    assert node.opens(old)
    node.wall.advance(DAY_S)
    assert not node.opens(old)


def test_a_revoked_key_is_void_for_every_handle_and_the_others_are_not(node):
    _, first = node.registry.create("acme")
    _, second = node.registry.create_key("acme")
    other = node.open("first")
    node.registry.revoke_key("acme", "1")
    assert other.find_by_key(first) is None
    assert other.find_by_key(second) is not None
    assert not other.holds_key("acme", "1")
    other.close()
    again = node.registry.revoke_key("acme", "1")
    assert again.revoked_at_s == 1_000_000.0


def test_ids_are_never_given_twice(node):
    node.registry.create("acme")
    node.registry.revoke_key("acme", "1")
    assert node.registry.create_key("acme")[0].key_id == "2"


def test_the_number_of_keys_that_hold_is_bounded(node):
    node.registry.create("acme")
    for _ in range(MAX_KEYS - 1):
        node.registry.create_key("acme")
    with pytest.raises(InvalidRequestError, match="revoke one"):
        node.registry.create_key("acme")
    node.registry.revoke_key("acme", "3")
    node.registry.create_key("acme")


@pytest.mark.parametrize("overlap_s", [-1.0, 1e12, float("nan"), float("inf")])
def test_overlaps_out_of_range_are_refused_by_name(node, overlap_s):
    node.registry.create("acme")
    with pytest.raises(InvalidRequestError) as caught:
        node.registry.create_key("acme", overlap_s=overlap_s)
    assert caught.value.field == "overlap"


def test_what_is_not_there_is_not_found(node):
    _, key = node.registry.create("acme")
    with pytest.raises(NotFoundError) as caught:
        node.registry.revoke_key("acme", "7")
    assert caught.value.field == "key_id"
    for call in (node.registry.keys, node.registry.create_key):
        with pytest.raises(NotFoundError):
            call("nobody")
    node.registry.revoke("acme")
    with pytest.raises(NotFoundError):
        node.registry.create_key("acme")
    assert not node.opens(key)
