"""Landlock: takes from this process every way to the file system, and more where the kernel can.

The three system calls have the same numbers on every architecture but Alpha. Interface:
https://docs.kernel.org/userspace-api/landlock.html.
"""

from __future__ import annotations

import ctypes
import os

_CREATE_RULESET = 444
_RESTRICT_SELF = 446
_CREATE_RULESET_VERSION = 1

_NUM_FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15}
"""Kinds of access to files an ABI knows: the first bits of a mask. Renaming into another folder
came with ABI 2, truncation with 3, device control with 5."""
_NEWEST_FILE_RIGHTS = 16
_BIND_AND_CONNECT_TCP = 0b11
_ABSTRACT_SOCKETS_AND_SIGNALS = 0b11
_TCP_ABI = 4
_SCOPES_ABI = 6

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def supported_abi() -> int:
    """The version of Landlock in the running kernel, 0 when it has none or keeps it off."""
    found: int = _libc.syscall(
        ctypes.c_long(_CREATE_RULESET),
        None,
        ctypes.c_size_t(0),
        ctypes.c_uint(_CREATE_RULESET_VERSION),
    )
    return max(found, 0)


def restrict(abi: int) -> None:
    """Forbids this thread and its children all that an ABI can forbid; open files stay usable.

    No file can be opened, made, removed or run. From ABI 4 on no TCP port can be bound or reached;
    from 6 on no abstract socket and no process outside can be, by a signal. Needs
    `no_new_privs`. Raises OSError.
    """
    masks = (
        (1 << _NUM_FILE_RIGHTS.get(abi, _NEWEST_FILE_RIGHTS)) - 1,
        _BIND_AND_CONNECT_TCP if abi >= _TCP_ABI else 0,
        _ABSTRACT_SOCKETS_AND_SIGNALS if abi >= _SCOPES_ABI else 0,
    )
    # An older kernel refuses a longer structure only when what it does not know is not zero.
    attributes = (ctypes.c_uint64 * len(masks))(*masks)
    ruleset = _libc.syscall(
        ctypes.c_long(_CREATE_RULESET),
        ctypes.byref(attributes),
        ctypes.c_size_t(ctypes.sizeof(attributes)),
        ctypes.c_uint(0),
    )
    if ruleset < 0:
        raise OSError(ctypes.get_errno(), "landlock_create_ruleset failed")
    try:
        # A ruleset without a rule allows nothing.
        if _libc.syscall(ctypes.c_long(_RESTRICT_SELF), ctypes.c_int(ruleset), ctypes.c_uint(0)):
            raise OSError(ctypes.get_errno(), "landlock_restrict_self failed")
    finally:
        os.close(ruleset)
