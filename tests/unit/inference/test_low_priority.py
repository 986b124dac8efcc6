"""A thread that gives way."""

import os
import sys
import threading

import pytest

from services.inference.low_priority import lower_thread_priority


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has priorities of threads")
def test_only_the_calling_thread_gives_way():
    before = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    seen = []

    def lower():
        lower_thread_priority()
        seen.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))

    thread = threading.Thread(target=lower)
    thread.start()
    thread.join()
    assert seen[0] > before
    assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) == before
