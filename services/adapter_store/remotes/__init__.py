"""Packages from places outside this device: registries, static servers, media, other stores.

`RemoteFetcher` is the door. A tenant names a package of a remote the operator set up; bytes come
into a quarantine, bounded and hashed on their way, and leave it whole or not at all.
"""
