"""How `make test` spreads tests over processes: by file, so that fixtures are shared."""

import signal
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

_NATIVE = "tests/integration/native/"


class _ByFile(LoadFileScheduling):
    def _split_scope(self, nodeid: str) -> str:
        # These build variants of the core into the same directories: one process has them all.
        return _NATIVE if nodeid.startswith(_NATIVE) else super()._split_scope(nodeid)


def pytest_configure() -> None:
    """Gives Ctrl-C its meaning back: a background job starts with it ignored, and hands that on."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl
def pytest_xdist_make_scheduler(config: Any, log: Any) -> _ByFile:
    """See the manual of pytest-xdist."""
    # Files in the order of their names, so that the many short ones of tests/unit fill the end.
    # Its own order, most tests first, leaves a file of few long tests to the end, on one core.
    config.option.loadscopereorder = False
    return _ByFile(config, log)
