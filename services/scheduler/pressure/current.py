"""What holds now: the newest state of the device, and what it takes away."""

from __future__ import annotations

from collections.abc import Callable

from services.chassis.logs import get_logger
from services.scheduler.pressure.device import DeviceState
from services.scheduler.pressure.policy import restrict
from services.scheduler.pressure.restrictions import Restrictions
from services.scheduler.pressure.settings import PressureSettings
from services.scheduler.pressure.wording import say_restriction


class CurrentPressure:
    """Starts unknown. `obey` is told every new set of restrictions. Lives on one event loop."""

    def __init__(
        self,
        settings: PressureSettings,
        clock: Callable[[], float],
        obey: Callable[[Restrictions], None],
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._obey = obey
        self._rules: list[str] = []
        self.restrictions = Restrictions()
        self.device = DeviceState.unknown(clock())
        self.show(self.device)

    def show(self, device: DeviceState) -> None:
        """Takes the next state."""
        self.device = device.after(self.device)
        self.restrictions = restrict(self.device, self._settings)
        self._obey(self.restrictions)
        rules = [restriction.cause.rule for restriction in self.restrictions.active]
        if rules != self._rules:
            self._rules = rules
            now_s = self._clock()
            get_logger().warning(
                "restrictions_changed",
                rules=rules,
                restrictions=[say_restriction(r, now_s) for r in self.restrictions.active],
            )
