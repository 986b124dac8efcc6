"""What the adapter store's Redis user may do. The compose deployment states the same."""

from __future__ import annotations

USER = "edgelora-store"
KEY_PREFIX = "edgelora:"
COMMANDS = (
    *("ping", "multi", "exec"),
    *("set", "del", "expire"),
    *("hset", "hlen", "hgetall"),
    *("sadd", "scard", "smembers"),
)
"""Those services/adapter_store/hot_index.py uses, and no other."""


def acl_line(password_sha256: str) -> str:
    """The `user` line of a Redis configuration or ACL file."""
    rights = " ".join(f"+{command}" for command in COMMANDS)
    return (
        f"user {USER} on #{password_sha256} resetkeys ~{KEY_PREFIX}* resetchannels -@all {rights}"
    )
