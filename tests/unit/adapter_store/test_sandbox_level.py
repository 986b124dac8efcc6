"""What was given up, as a level."""

import pytest

from services.adapter_store.verification.sandbox import LEVELS, level_of, reaches


@pytest.mark.parametrize(
    ("has_rlimits", "abi", "has_seccomp", "is_root", "level"),
    [
        (True, 7, True, False, "landlock+seccomp"),
        (True, 1, True, True, "landlock+seccomp"),
        (True, 1, False, False, "landlock"),
        (True, 7, False, True, "none"),
        (True, 0, True, False, "rlimits"),
        (True, 0, True, True, "rlimits"),
        (True, 0, False, False, "rlimits"),
        (True, 0, False, True, "none"),
        (False, 7, True, False, "none"),
    ],
)
def test_level_names_the_weakest_part(has_rlimits, abi, has_seccomp, is_root, level):
    assert level_of(has_rlimits, abi, has_seccomp, is_root=is_root) == level


def test_levels_are_in_order():
    for position, level in enumerate(LEVELS):
        assert [reaches(level, minimum) for minimum in LEVELS] == [
            other <= position for other in range(len(LEVELS))
        ]
