"""Settings of the monitor, read from EDGELORA_MONITOR_* variables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from services.chassis.settings import ConfigError, Settings
from services.monitor.device_pressure import PressureThresholds
from services.monitor.pressure import Thresholds

PREFIX = "EDGELORA_MONITOR_"
PROCESSOR_ZONES = (
    "coretemp*,k8temp*,k10temp*,zenpower*,x86_pkg_temp*,cpu*,soc*,package*,"
    "bigcore*,littlecore*,big,little,mtktscpu*,tsens_tz_sensor*"
)
FALLBACK_ZONES = "acpitz*,thermal_zone*"
TERMUX_COMMAND = "termux-battery-status"
_REPORTED_ZONES = "cabin*,vehicle*,processor*"


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorConfig:
    """What the monitor needs to know to start."""

    address: str
    """ADDRESS: where it listens, `unix:/path` or `host:port`."""
    metrics_address: str | None
    """METRICS_ADDRESS: `host:port` where a Prometheus may read; absent: nowhere."""
    seal_key: bytes = field(repr=False)
    """SEAL_KEY_FILE: file with the node's seal key, one line of at least 32 characters."""
    root: Path
    """ROOT: where sysfs and procfs are found, default /."""
    run_directory: Path | None
    """RUN_DIRECTORY: where the launcher keeps `<service>.pid` files; without it no process is
    followed."""
    termux_command: str
    """TERMUX_COMMAND: program that prints the battery of an Android device, as Termux:API's
    `termux-battery-status` does, which is used where it is on the PATH."""
    interval_s: float
    """INTERVAL: time between samples, default 1s."""
    hold_s: float
    """HOLD: how long a missing value keeps its last reading, default 3s."""
    history_s: float
    """HISTORY: how far back samples are kept, default 10m."""
    growth_window_s: float
    """GROWTH_WINDOW: how long a process's memory must grow to look like a leak, default 30m."""
    processor_zones: Sequence[str]
    """PROCESSOR_ZONES: name patterns of the sensors that measure the processor."""
    fallback_zones: Sequence[str]
    """FALLBACK_ZONES: name patterns of those that stand in where none of the former is read."""
    reported_zones: Sequence[str]
    """REPORTED_ZONES: name patterns of the temperatures from outside sources that count."""
    thresholds: PressureThresholds
    """TEMPERATURE_ELEVATED (45), _CRITICAL (60), _BAND (5): degrees Celsius. MEMORY_ELEVATED
    (0.80), _CRITICAL (0.85), _BAND (0.03): share in use. MEMORY_STALL_ELEVATED (0.10), _CRITICAL
    (0.40), _BAND (0.05): share of time. BATTERY_ELEVATED (0.20), _CRITICAL (0.10), _BAND (0.03):
    charge while discharging. DWELL (10s), and TEMPERATURE_, MEMORY_, MEMORY_STALL_, BATTERY_DWELL
    where one is to differ: how long it must be calm before a level falls."""

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> MonitorConfig:
        """Reads the settings. Raises ConfigError with a line for each mistake."""
        settings = Settings(environ, PREFIX)
        run_directory = settings.text("RUN_DIRECTORY", "")
        config = cls(
            address=settings.text("ADDRESS"),
            metrics_address=settings.listen_address("METRICS_ADDRESS"),
            seal_key=settings.secret_file("SEAL_KEY_FILE"),
            root=settings.path("ROOT", Path("/")),
            run_directory=Path(run_directory) if run_directory else None,
            termux_command=settings.text("TERMUX_COMMAND", TERMUX_COMMAND),
            interval_s=settings.duration_s("INTERVAL", 1.0),
            hold_s=settings.duration_s("HOLD", 3.0),
            history_s=settings.duration_s("HISTORY", 600.0),
            growth_window_s=settings.duration_s("GROWTH_WINDOW", 1800.0, low=1.0),
            processor_zones=split_names(settings.text("PROCESSOR_ZONES", PROCESSOR_ZONES)),
            fallback_zones=split_names(settings.text("FALLBACK_ZONES", FALLBACK_ZONES)),
            reported_zones=split_names(settings.text("REPORTED_ZONES", _REPORTED_ZONES)),
            thresholds=PressureThresholds(
                temperature=_thresholds(settings, "TEMPERATURE", 45.0, 60.0, 5.0, high=150.0),
                memory=_thresholds(settings, "MEMORY", 0.80, 0.85, 0.03),
                memory_stall=_thresholds(settings, "MEMORY_STALL", 0.10, 0.40, 0.05),
                battery=_thresholds(settings, "BATTERY", 0.20, 0.10, 0.03, is_low_bad=True),
            ),
        )
        settings.finish()
        config.check()
        return config

    def check(self) -> None:
        """Raises ConfigError when settings contradict each other."""
        errors = [
            f"{PREFIX}{name}_ELEVATED must be reached before {PREFIX}{name}_CRITICAL"
            for name, thresholds in (
                ("TEMPERATURE", self.thresholds.temperature),
                ("MEMORY", self.thresholds.memory),
                ("MEMORY_STALL", self.thresholds.memory_stall),
                ("BATTERY", self.thresholds.battery),
            )
            if thresholds.elevated == thresholds.critical
            or thresholds.is_reached(thresholds.elevated, thresholds.critical)
        ]
        if self.interval_s <= 0:
            errors.append(f"{PREFIX}INTERVAL must be above 0")
        if self.hold_s < self.interval_s:
            errors.append(f"{PREFIX}HOLD must be at least {PREFIX}INTERVAL")
        if errors:
            raise ConfigError("\n".join(errors))


def _thresholds(
    settings: Settings,
    name: str,
    elevated: float,
    critical: float,
    band: float,
    *,
    high: float = 1.0,
    is_low_bad: bool = False,
) -> Thresholds:
    return Thresholds(
        elevated=settings.number(f"{name}_ELEVATED", elevated, low=0.0, high=high),
        critical=settings.number(f"{name}_CRITICAL", critical, low=0.0, high=high),
        band=settings.number(f"{name}_BAND", band, low=0.0, high=high),
        dwell_s=settings.duration_s(f"{name}_DWELL", settings.duration_s("DWELL", 10.0)),
        is_low_bad=is_low_bad,
    )


def split_names(text: str) -> Sequence[str]:
    """Returns the patterns of a comma-separated list."""
    return [name.strip() for name in text.split(",") if name.strip()]
