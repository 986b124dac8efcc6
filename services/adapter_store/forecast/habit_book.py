"""The habits of all users of all tenants, within a bound of memory. Pure: the time is given."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from services.adapter_store.forecast.calendar import Calendar, Moment
from services.adapter_store.forecast.chances import Chance, combine
from services.adapter_store.forecast.habits import Outlook, UserHabits

UserKey = tuple[str, str]
"""Tenant, and the keyed hash of the user."""

MAX_SIZE = 262_144
"""Cells of all users together, about 26 MB."""
MAX_TENANT_SIZE = MAX_SIZE // 4
_REFRESHED = 256
"""How much is looked at again in one go, so that a look stays short: users' adapters, and some for
each user."""
_COST_OF_A_LOOK = 4
_LOOK_DAYS = 5 / 1440
_NEGLIGIBLE = 0.002
_NEGLIGIBLE_TODAY = 0.01
START_CHANCE = 0.5
"""A device that was just started is used soon, half of the times at least; whose turn it is, is
shared by its tenants."""


@dataclass(frozen=True, slots=True)
class Now:
    """The time, in the forms habits need it."""

    days: float
    """Never goes back: days the model has lived."""
    moment: Moment | None


@dataclass(frozen=True, slots=True)
class _View:
    """One tenant's chances that are worth a look."""

    usual: Sequence[Chance]
    started: Sequence[Chance]
    """Just after a start."""
    today: Sequence[Chance]


class HabitBook:
    """Who does what when. A tenant over its bound forgets its own longest silent users first."""

    def __init__(self, calendar: Calendar, horizon_minutes: float) -> None:
        self._calendar = calendar
        self._horizon_minutes = horizon_minutes
        self._users: dict[str, dict[str, UserHabits]] = {}
        """By tenant and hash; the longest silent user first."""
        self._sizes: dict[str, int] = {}
        self._outlooks: dict[UserKey, Outlook] = {}
        self._views: dict[str, _View] = {}
        """By tenant; missing where an outlook changed."""
        self._stale: dict[UserKey, None] = {}
        self._looked_days = -math.inf
        self._changed: set[UserKey] = set()
        self._removed: set[UserKey] = set()

    @property
    def tenants(self) -> Collection[str]:
        """Tenants with any habits."""
        return self._users.keys()

    @property
    def size(self) -> int:
        """Memory it takes, in cells."""
        return sum(self._sizes.values())

    def num_uses(self, tenant_id: str) -> int:
        """Uses the kept habits of a tenant were learnt from."""
        return sum(habits.num_uses for habits in self._users.get(tenant_id, {}).values())

    def note(self, key: UserKey, digest: str, now: Now) -> None:
        """Learns from a use."""
        tenant_id, user = key
        users = self._users.setdefault(tenant_id, {})
        # Taken out and put back, so that it is the last.
        habits = users.pop(user, None)
        before = 0 if habits is None else habits.size
        habits = habits or UserHabits(now.days)
        habits.note(digest, now.moment, now.days, self._calendar)
        self._put(key, habits, habits.size - before)
        self._touch(key)
        while self._sizes.get(tenant_id, 0) > MAX_TENANT_SIZE:
            self._remove((tenant_id, next(iter(self._users[tenant_id]))))
        while self.size > MAX_SIZE:
            largest = max(self._sizes, key=lambda each: (self._sizes[each], each))
            self._remove((largest, next(iter(self._users[largest]))))

    def soon(self, now: Now, off: Collection[str], *, is_after_start: bool) -> list[Chance]:
        """What tenants, but those in `off`, may want within the horizon.

        Looks again at the users whose outlook is old, as many as one call may.
        """
        views = self._looked_at(now, off)
        return [
            chance for view in views for chance in (view.started if is_after_start else view.usual)
        ]

    def within_a_day(self, now: Now, off: Collection[str]) -> list[Chance]:
        """What tenants, but those in `off`, may want within 24 hours. Looks as `soon` does."""
        return [chance for view in self._looked_at(now, off) for chance in view.today]

    def tenant_chances(self, tenant_id: str, now: Now, *, is_after_start: bool) -> list[Chance]:
        """The chances of one tenant's adapters, looked at anew, likeliest next one first."""
        users = self._users.get(tenant_id, {})
        outlooks = [self._look(habits, now) for habits in users.values()]
        self._outlooks.update(zip(((tenant_id, user) for user in users), outlooks, strict=True))
        self._views.pop(tenant_id, None)
        least = self._start_share if is_after_start else 0.0
        return sorted(
            _tenant_chances(tenant_id, outlooks, least), key=lambda each: (-each.soon, each.digest)
        )

    def reasons(self, tenant_id: str, digest: str, now: Now) -> list[str]:
        """Why an adapter is expected, in the words of the user who will most likely want it.

        Looks at nobody anew: every user of a tenant for each of its adapters would take long.
        """
        users = [
            (outlook.activity * outlook.next_use[digest], user, habits)
            for user, habits in self._users.get(tenant_id, {}).items()
            if (outlook := self._outlooks.get((tenant_id, user))) and digest in outlook.next_use
        ]
        if not users:
            return []
        _, _, habits = max(users, key=lambda each: each[:2])
        return habits.reasons(digest, now.moment, now.days)

    def forget_tenant(self, tenant_id: str) -> None:
        """Removes a tenant's habits."""
        for user in list(self._users.get(tenant_id, {})):
            self._remove((tenant_id, user))

    def forget_adapter(self, tenant_id: str, digest: str) -> None:
        """Removes an adapter from a tenant's habits."""
        for user, habits in list(self._users.get(tenant_id, {}).items()):
            if digest in habits.adapters:
                before = habits.size
                habits.forget(digest)
                self._sizes[tenant_id] += habits.size - before
                self._touch((tenant_id, user))
                if not habits.adapters:
                    self._remove((tenant_id, user))

    def load(self, key: UserKey, document: Mapping[str, Any], now_days: float) -> None:
        """Takes a user's habits as stored. Raises ValueError, TypeError or KeyError."""
        habits = UserHabits.from_document(document, now_days)
        self._put(key, habits, habits.size)
        self._stale[key] = None

    def order(self) -> None:
        """After loading: the longest silent users first again."""
        for tenant_id, users in self._users.items():
            ordered = sorted(users.items(), key=lambda each: each[1].last_use_days)
            self._users[tenant_id] = dict(ordered)

    def take_changed(self, most: int) -> tuple[dict[UserKey, dict[str, Any]], set[UserKey]]:
        """What has to be written and what deleted, at most `most` users; they count as done."""
        changed = [self._changed.pop() for _ in range(min(most, len(self._changed)))]
        removed = {self._removed.pop() for _ in range(min(most, len(self._removed)))}
        return {key: self._users[key[0]][key[1]].document() for key in changed}, removed

    def put_back(self, keys: Iterable[UserKey]) -> None:
        """What was taken could not be written."""
        for tenant_id, user in keys:
            is_known = user in self._users.get(tenant_id, {})
            (self._changed if is_known else self._removed).add((tenant_id, user))

    def _put(self, key: UserKey, habits: UserHabits, growth: int) -> None:
        tenant_id, user = key
        self._users.setdefault(tenant_id, {})[user] = habits
        self._sizes[tenant_id] = self._sizes.get(tenant_id, 0) + growth

    def _touch(self, key: UserKey) -> None:
        self._changed.add(key)
        self._removed.discard(key)
        self._stale[key] = None

    def _remove(self, key: UserKey) -> None:
        tenant_id, user = key
        self._sizes[tenant_id] -= self._users[tenant_id].pop(user).size
        if not self._users[tenant_id]:
            del self._users[tenant_id], self._sizes[tenant_id]
        self._outlooks.pop(key, None)
        self._views.pop(tenant_id, None)
        self._stale.pop(key, None)
        self._changed.discard(key)
        self._removed.add(key)

    @property
    def _start_share(self) -> float:
        return START_CHANCE / max(1, len(self._users))

    def _looked_at(self, now: Now, off: Collection[str]) -> list[_View]:
        self._refresh(now)
        return [self._view(tenant_id) for tenant_id in self._users if tenant_id not in off]

    def _view(self, tenant_id: str) -> _View:
        view = self._views.get(tenant_id)
        if view is None:
            keys = [(tenant_id, user) for user in self._users[tenant_id]]
            outlooks = [self._outlooks[key] for key in keys if key in self._outlooks]
            usual = _tenant_chances(tenant_id, outlooks, 0.0)
            started = _tenant_chances(tenant_id, outlooks, self._start_share)
            view = self._views[tenant_id] = _View(
                usual=[chance for chance in usual if chance.soon >= _NEGLIGIBLE],
                started=[chance for chance in started if chance.soon >= _NEGLIGIBLE],
                today=[
                    chance
                    for chance in usual
                    if max(chance.soon, chance.within_a_day) >= _NEGLIGIBLE_TODAY
                ],
            )
        return view

    def _refresh(self, now: Now) -> None:
        if now.days - self._looked_days >= _LOOK_DAYS:
            self._looked_days = now.days
            for tenant_id, users in self._users.items():
                self._stale.update(dict.fromkeys((tenant_id, user) for user in users))
        cost = 0
        while self._stale and cost < _REFRESHED:
            key = next(iter(self._stale))
            del self._stale[key]
            habits = self._users[key[0]][key[1]]
            self._outlooks[key] = self._look(habits, now)
            self._views.pop(key[0], None)
            cost += _COST_OF_A_LOOK + len(habits.adapters)

    def _look(self, habits: UserHabits, now: Now) -> Outlook:
        return habits.outlook(now.moment, now.days, self._horizon_minutes, self._calendar)


def _tenant_chances(
    tenant_id: str, outlooks: Sequence[Outlook], least_activity: float
) -> list[Chance]:
    """Of all users together, who are taken to come with `least_activity` at least."""
    activities = [outlook.activity for outlook in outlooks]
    total = math.fsum(activities)
    if 0.0 < total < least_activity:
        activities = [min(1.0, each * least_activity / total) for each in activities]
    soon = combine(
        (digest, activity * chance)
        for activity, outlook in zip(activities, outlooks, strict=True)
        for digest, chance in outlook.next_use.items()
    )
    within_a_day = combine(pair for outlook in outlooks for pair in outlook.within_a_day.items())
    return [
        Chance(
            tenant_id=tenant_id,
            digest=digest,
            soon=chance,
            within_a_day=within_a_day.get(digest, 0.0),
        )
        for digest, chance in soon.items()
    ]
