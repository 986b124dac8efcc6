"""A client's deadline only ever shortens the gateway's."""

from __future__ import annotations

import pytest

from services.gateway.deadline import Deadlines

LIMITS = Deadlines(default_s=60.0, max_s=600.0, install_s=3600.0)


@pytest.mark.parametrize(
    ("remaining_s", "answer_s", "transfer_s", "install_s"),
    [
        (None, 60.0, 600.0, 3600.0),
        (5.0, 5.0, 5.0, 5.0),
        (120.0, 120.0, 120.0, 120.0),
        (86400.0, 600.0, 600.0, 3600.0),
    ],
)
def test_limits_F25(remaining_s, answer_s, transfer_s, install_s):
    assert LIMITS.of_answer(remaining_s) == answer_s
    assert LIMITS.of_transfer(remaining_s) == transfer_s
    assert LIMITS.of_installation(remaining_s) == install_s
