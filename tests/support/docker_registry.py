"""Debian's docker-registry on the loopback: open, behind htpasswd, or behind signed tokens."""

from __future__ import annotations

import json
import shutil
import subprocess
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pytest

from edgelora.adapter_package import MANIFEST_MEDIA_TYPE
from services.adapter_store.remotes.remotes_file import basic_authorization
from tests.support.free_port import free_port, wait_for_port

USER, PASSWORD = "car", "garage-secret"
_HTPASSWD = "car:$2y$04$deqC.PDOPP2qT9kgbQvJnulws/hpV8d3QHSGrvrVzeVT6/bE7./zy\n"


class DockerRegistry:
    """One server with its own storage."""

    def __init__(
        self, directory: Path, *, htpasswd: bool = False, token: dict[str, str] | None = None
    ) -> None:
        program = shutil.which("docker-registry")
        if program is None:
            pytest.skip("there is no docker-registry: `apt-get install docker-registry`")
        directory.mkdir()
        self.port = free_port()
        self._has_password = htpasswd
        auth: dict[str, Any] = {}
        if htpasswd:
            passwords = directory / "htpasswd"
            passwords.write_text(_HTPASSWD)
            auth = {"htpasswd": {"realm": "garage", "path": str(passwords)}}
        if token is not None:
            auth = {"token": token}
        config = directory / "config.yml"
        config.write_text(
            json.dumps(
                {
                    "version": "0.1",
                    "log": {"level": "warn"},
                    "storage": {"filesystem": {"rootdirectory": str(directory / "storage")}},
                    "http": {"addr": f"127.0.0.1:{self.port}", "secret": "of the test"},
                    **({"auth": auth} if auth else {}),
                }
            )
        )
        self._log = directory / "log"
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [program, "serve", str(config)], stdout=log, stderr=log
            )
        wait_for_port(self._process, self.port, self._log)

    def push(self, layout: Path, name: str, tag: str, authorization: str | None = None) -> None:
        """Pushes the one package of an image layout with the registry's HTTP API."""
        if self._has_password:
            authorization = basic_authorization(USER, PASSWORD)
        self._authorization = authorization
        blobs = layout / "blobs" / "sha256"
        digest = json.loads((layout / "index.json").read_bytes())["manifests"][0]["digest"]
        manifest = (blobs / digest.removeprefix("sha256:")).read_bytes()
        document = json.loads(manifest)
        for descriptor in [document["config"], *document["layers"]]:
            data = (blobs / descriptor["digest"].removeprefix("sha256:")).read_bytes()
            place = self._call("POST", f"/v2/{name}/blobs/uploads/", b"")
            joint = "&" if "?" in place else "?"
            self._call("PUT", f"{place}{joint}digest={descriptor['digest']}", data)
        self._call("PUT", f"/v2/{name}/manifests/{tag}", manifest, MANIFEST_MEDIA_TYPE)

    def stop(self) -> None:
        """Ends it at once."""
        self._process.kill()
        self._process.wait()

    def _call(
        self, method: str, path: str, data: bytes, kind: str = "application/octet-stream"
    ) -> str:
        request = urllib.request.Request(
            urljoin(f"http://127.0.0.1:{self.port}", path),
            data=data,
            method=method,
            headers={"content-type": kind},
        )
        if self._authorization is not None:
            request.add_header("authorization", self._authorization)
        with urllib.request.urlopen(request) as response:
            return str(response.headers.get("location", ""))
