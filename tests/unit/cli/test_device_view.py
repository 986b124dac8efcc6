"""How processes are shown, and the one that leaks."""

from edgelora.cli.device_view import leak_lines, reading_lines
from edgelora.v1.monitor_service_pb2 import DeviceSnapshot, ProcessSample

DEVICE = DeviceSnapshot(
    processes=[
        ProcessSample(service="gateway", pid=1, rss_bytes=81_400_000, cpu_cores=0.05),
        ProcessSample(
            service="scheduler",
            pid=2,
            rss_bytes=70_000_000,
            cpu_cores=0.01,
            growth_bytes_per_hour=-200_000,
        ),
        ProcessSample(
            service="inference",
            pid=3,
            rss_bytes=412_000_000,
            cpu_cores=1.9,
            growth_bytes_per_hour=12_300_000,
            is_growing=True,
        ),
    ]
)


def test_every_process_with_what_is_known_of_its_growth():
    lines = [line for line in reading_lines(DEVICE) if line.startswith("process ")]
    assert lines == [
        "process   gateway 81 MB, 0.05 cores",
        "process   scheduler 70 MB, 0.01 cores, -0.2 MB an hour",
        "process   inference 412 MB, 1.90 cores, +12.3 MB an hour, steadily: it looks like a leak",
    ]


def test_status_names_the_culprit_alone_A15():
    assert list(leak_lines(DEVICE)) == [
        "leak?     inference 412 MB, 1.90 cores, +12.3 MB an hour, steadily: it looks like a leak"
    ]
    assert list(leak_lines(DeviceSnapshot())) == []
