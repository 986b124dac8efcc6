"""What goes wrong with a remote, sorted by what it means for the next try."""

from __future__ import annotations

from enum import Enum

from edgelora.errors import (
    AdapterRejectedError,
    DataCorruptError,
    EdgeLoraError,
    NotFoundError,
    PermissionDeniedError,
    ServiceUnavailableError,
)


class FailureKind(Enum):
    """How a try ended."""

    UNREACHABLE = "unreachable"
    """No answer: offline, name unknown, certificate wrong, medium gone."""
    BUSY = "busy"
    """The remote asks to come back later."""
    FAULTY = "faulty"
    """An answer that can not be right, or a transfer that was cut or too slow."""
    ABSENT = "absent"
    """The remote has no such package."""
    DENIED = "denied"
    """The remote refuses what the operator set up."""
    UNUSABLE = "unusable"
    """The package is there and is not one of ours."""
    CORRUPT = "corrupt"
    """Bytes that do not match their checksum or length."""


TRANSIENT = frozenset({FailureKind.UNREACHABLE, FailureKind.BUSY, FailureKind.FAULTY})
"""Worth another try by itself."""


class RemoteFailure(Exception):
    """One try that failed. The message is for a tenant: no addresses, nothing a remote said."""

    def __init__(
        self, kind: FailureKind, message: str, *, retry_after_s: float | None = None
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.retry_after_s = retry_after_s
        """What the remote asked for."""

    def to_error(self, retry_after_s: float | None) -> EdgeLoraError:
        """What the tenant gets, with the seconds after which a try can help."""
        if self.kind is FailureKind.ABSENT:
            return NotFoundError(self.message, field="package")
        if self.kind is FailureKind.DENIED:
            return PermissionDeniedError(self.message, field="package")
        if self.kind is FailureKind.UNUSABLE:
            return AdapterRejectedError(self.message, field="package")
        if self.kind is FailureKind.CORRUPT:
            return DataCorruptError(self.message, field="package", retry_after_s=retry_after_s)
        return ServiceUnavailableError(
            self.message, metadata={"remote": self.kind.value}, retry_after_s=retry_after_s
        )


def absent() -> RemoteFailure:
    """The one failure for a package, tag or blob that is not there."""
    return RemoteFailure(
        FailureKind.ABSENT, "the remote has no such package: check its name and its tag"
    )


def wrong_size() -> RemoteFailure:
    """The one failure for a file that is not as long as the manifest says."""
    return RemoteFailure(
        FailureKind.CORRUPT,
        "a file of the package is cut or too long for its checksum: put the package there again",
    )


def unreachable(why: str) -> RemoteFailure:
    """No answer; `why` is one of our own words."""
    return RemoteFailure(
        FailureKind.UNREACHABLE,
        f"the remote can not be reached ({why}): try again when it is back; "
        "adapters on this node are not affected",
    )


def faulty(why: str) -> RemoteFailure:
    """An answer that can not be used; `why` is one of our own words."""
    return RemoteFailure(
        FailureKind.FAULTY,
        f"the remote does not work as it should ({why}): adapters on this node are not affected",
    )
