"""Habits on flash, in a file of their own, so that nothing here can harm the registry.

Deleted content is overwritten. A file that is damaged is set aside, and learning starts anew.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from services.adapter_store.flash.blob_store import sync_directory
from services.adapter_store.forecast.habit_book import UserKey
from services.adapter_store.transactions import transaction
from services.chassis.logs import get_logger

HABITS_FILE = "habits.sqlite3"
SET_ASIDE_FILE = "habits.damaged"
OFF_FILE = "warm-up.off"
_SCHEMA_VERSION = 1
_TENANT_HASH = re.compile(r"[0-9a-f]{32}")
_SCHEMA = f"""
BEGIN IMMEDIATE;
CREATE TABLE habits (
    tenant TEXT NOT NULL,
    user TEXT NOT NULL,
    document TEXT NOT NULL,
    PRIMARY KEY (tenant, user)
) WITHOUT ROWID;
CREATE TABLE state (name TEXT PRIMARY KEY, value REAL NOT NULL) WITHOUT ROWID;
PRAGMA user_version = {_SCHEMA_VERSION};
COMMIT;
"""


class HabitStore:
    """One connection. Used by one caller at a time, from any thread."""

    def __init__(self, directory: Path) -> None:
        """Opens or creates the files. Raises OSError when the directory can not be used."""
        self._directory = directory
        try:
            self._connection = self._open()
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError) and not _is_damage(error):
                raise OSError(f"the habits can not be opened in {directory}: {error}") from error
            self._set_aside()
            self._connection = self._open()

    def close(self) -> None:
        """Closes the connection."""
        self._connection.close()

    def state(self) -> dict[str, float]:
        """Named numbers."""
        return dict(self._connection.execute("SELECT name, value FROM state"))

    def habits(self) -> Iterator[tuple[UserKey, str]]:
        """Every user's document."""
        for tenant, user, document in self._connection.execute(
            "SELECT tenant, user, document FROM habits"
        ):
            yield (tenant, user), document

    def write(
        self,
        changed: Mapping[UserKey, str],
        removed: Collection[UserKey],
        state: Mapping[str, float],
    ) -> None:
        """Writes all of it or nothing. Raises sqlite3.Error when storage fails."""
        with transaction(self._connection):
            self._connection.executemany(
                "INSERT INTO habits (tenant, user, document) VALUES (?, ?, ?) "
                "ON CONFLICT (tenant, user) DO UPDATE SET document = excluded.document",
                [(*key, document) for key, document in changed.items()],
            )
            self._connection.executemany(
                "DELETE FROM habits WHERE tenant = ? AND user = ?", list(removed)
            )
            self._connection.executemany(
                "INSERT INTO state (name, value) VALUES (?, ?) "
                "ON CONFLICT (name) DO UPDATE SET value = excluded.value",
                list(state.items()),
            )

    def forget(self, tenant_id: str) -> None:
        """Removes a tenant from the file's bytes, and any file set aside with it.

        Raises sqlite3.Error or OSError when storage fails; then it has to be repeated.
        """
        (self._directory / SET_ASIDE_FILE).unlink(missing_ok=True)
        with transaction(self._connection):
            self._connection.execute("DELETE FROM habits WHERE tenant = ?", (tenant_id,))
        # What is deleted was overwritten; this also drops what page splits left behind.
        self._connection.execute("VACUUM")

    def off(self) -> set[str]:
        """Hashes of the tenants that switched the warm-up off.

        They lie beside the database: learning that starts anew must not start for these.
        """
        path = self._directory / OFF_FILE
        lines = path.read_text(errors="replace").split() if path.exists() else []
        hashes = {line for line in lines if _TENANT_HASH.fullmatch(line)}
        if len(hashes) < len(lines):
            get_logger().error("warm_up_switches_damaged", file=OFF_FILE)
        return hashes

    def write_off(self, hashes: Collection[str]) -> None:
        """Replaces those. Raises OSError when storage fails."""
        fresh = self._directory / f"{OFF_FILE}.new"
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write("".join(f"{each}\n" for each in sorted(hashes)))
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self._directory / OFF_FILE)
        sync_directory(self._directory)

    def _open(self) -> sqlite3.Connection:
        path = self._directory / HABITS_FILE
        connection = sqlite3.connect(
            path, isolation_level=None, check_same_thread=False, timeout=5.0
        )
        try:
            # No write-ahead log: it would keep what was deleted from the file.
            connection.execute("PRAGMA journal_mode=DELETE")
            connection.execute("PRAGMA synchronous=FULL")
            connection.execute("PRAGMA secure_delete=ON")
            connection.execute("PRAGMA temp_store=MEMORY")
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            if version == 0:
                connection.executescript(_SCHEMA)
            elif version != _SCHEMA_VERSION:
                raise sqlite3.DatabaseError("another release wrote the habits")
            if connection.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
                raise sqlite3.DatabaseError("the habits failed their integrity check")
            path.chmod(0o600)
        except BaseException:
            connection.close()
            raise
        return connection

    def _set_aside(self) -> None:
        (self._directory / HABITS_FILE).replace(self._directory / SET_ASIDE_FILE)
        (self._directory / f"{HABITS_FILE}-journal").unlink(missing_ok=True)
        get_logger().error("damaged_habits_set_aside", file=SET_ASIDE_FILE)


def _is_damage(error: sqlite3.OperationalError) -> bool:
    # A table that exists or is missing means a file of another shape, not storage that fails.
    return error.sqlite_errorcode == sqlite3.SQLITE_ERROR
