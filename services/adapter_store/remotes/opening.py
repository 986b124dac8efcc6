"""Turns what the operator wrote into something that can be read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from services.adapter_store.remotes.blocking_tree import BlockingTree
from services.adapter_store.remotes.directory_source import DirectorySource
from services.adapter_store.remotes.directory_tree import Directory
from services.adapter_store.remotes.fsspec_tree import FsspecFiles
from services.adapter_store.remotes.layout_source import LayoutSource
from services.adapter_store.remotes.name_lookup import Resolve
from services.adapter_store.remotes.package import PackageLimits
from services.adapter_store.remotes.remotes_file import (
    DirectoryPlace,
    FsspecPlace,
    Remote,
    WebPlace,
)
from services.adapter_store.remotes.source import PackageSource


@dataclass(frozen=True, slots=True)
class OpenedRemote:
    """A source, and how long it may take to answer."""

    source: PackageSource
    answer_timeout_s: float | None
    """For a manifest, and for a layer's first byte; None where every single call is timed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteOpening:
    """What all remotes have in common. Opening one reads certificates, and
    touches neither network nor the remote's storage; call it in a thread."""

    limits: PackageLimits
    clock_s: Callable[[], float]
    unix_clock_s: Callable[[], float]
    resolve: Resolve
    web_timeout_s: float = 4.0
    """A manifest and a layer that both take this long still end within 10 s."""
    fsspec_timeout_s: float = 8.0
    directory_timeout_s: float = 4.0

    def __call__(self, remote: Remote) -> OpenedRemote:
        """Opens a remote."""
        place = remote.place
        if isinstance(place, DirectoryPlace):
            tree = BlockingTree(Directory(place.path).open, call_timeout_s=self.directory_timeout_s)
            # A plain directory is hashed to resolve it, which may take as long as it makes way.
            return OpenedRemote(DirectorySource(tree, self.limits), None)
        if isinstance(place, FsspecPlace):
            files = FsspecFiles(place.url, place.options)
            tree = BlockingTree(files.open, call_timeout_s=self.fsspec_timeout_s)
            return OpenedRemote(LayoutSource(tree, self.limits), self.fsspec_timeout_s)
        return OpenedRemote(self._web(place), self.web_timeout_s)

    def _web(self, place: WebPlace) -> PackageSource:
        # A store without web remotes, and every store while it starts, does without the client.
        from services.adapter_store.remotes.http_tree import HttpTree
        from services.adapter_store.remotes.registry_source import RegistrySource
        from services.adapter_store.remotes.remote_http import RemoteHttp

        http = RemoteHttp(
            place.address,
            allowed=place.allowed_hosts,
            allow_plain_http=place.allow_plain_http,
            ca_file=place.ca_file,
            answer_timeout_s=self.web_timeout_s,
            resolve=self.resolve,
            unix_clock_s=self.unix_clock_s,
        )
        if place.kind == "http":
            return LayoutSource(HttpTree(http, place.authorization), self.limits)
        return RegistrySource(
            http, authorization=place.authorization, limits=self.limits, clock_s=self.clock_s
        )
