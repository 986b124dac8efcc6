"""Web addresses of remotes, and where they may lead. Pure."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from urllib.parse import urljoin, urlsplit

_HOST = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,252}[a-z0-9])?")
# Nothing that could end a request line, and that a parser may drop without a word.
_VISIBLE_ASCII = re.compile(r"[!-~]+")
_DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Place:
    """A host and a port."""

    host: str
    """Lower case, or an IP address without brackets."""
    port: int

    @property
    def is_literal(self) -> bool:
        """Whether the host is an IP address, not a name."""
        try:
            ipaddress.ip_address(self.host)
        except ValueError:
            return False
        return True


@dataclass(frozen=True, slots=True)
class WebAddress:
    """An http or https address, taken apart once so that nobody reads it differently."""

    scheme: str
    place: Place
    target: str
    """Path and query."""

    @property
    def host_header(self) -> str:
        """What the Host header says."""
        host = f"[{self.place.host}]" if ":" in self.place.host else self.place.host
        is_default = _DEFAULT_PORTS[self.scheme] == self.place.port
        return host if is_default else f"{host}:{self.place.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.host_header}{self.target}"

    def join(self, location: str) -> WebAddress:
        """Where a redirect leads. Raises ValueError."""
        return parse_web_address(urljoin(str(self), location))

    def below(self, path: str) -> WebAddress:
        """A path below this one."""
        return WebAddress(self.scheme, self.place, f"{self.target.rstrip('/')}/{path}")


def parse_web_address(text: str) -> WebAddress:
    """Raises ValueError unless a text is a plain http or https address without a user."""
    if not _VISIBLE_ASCII.fullmatch(text):
        raise ValueError("an address of unusual characters")
    parts = urlsplit(text)
    host, port = parts.hostname, parts.port
    if parts.scheme not in _DEFAULT_PORTS or host is None or "@" in parts.netloc:
        raise ValueError("not an http or https address")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if not target.startswith("/") or not (":" in host or _HOST.fullmatch(host)):
        raise ValueError("an address of unusual characters")
    place = Place(host, _DEFAULT_PORTS[parts.scheme] if port is None else port)
    # Brackets are for IPv6 addresses, and only those have colons.
    if ("[" in parts.netloc or ":" in host) and not (":" in host and place.is_literal):
        raise ValueError("an address of unusual characters")
    return WebAddress(parts.scheme, place, target)


def parse_place(text: str) -> Place:
    """Parses `host` or `host:port`; the port is that of https. Raises ValueError."""
    address = parse_web_address(f"https://{text}")
    if address.target != "/" or text.endswith("/"):
        raise ValueError("not a host")
    return address.place


def is_public(address: str) -> bool:
    """Whether an IP address is one of the Internet: not this device, its network or its links."""
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address):
        # Addresses that carry an IPv4 address inside mean that one.
        inner = found.ipv4_mapped or found.sixtofour or (found.teredo or (None, None))[1]
        if inner is not None:
            return is_public(str(inner))
        if found in _NAT64:
            return is_public(str(ipaddress.IPv4Address(int(found) & 0xFFFFFFFF)))
    return found.is_global and not found.is_multicast


_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
