"""A real static HTTP server with Range: nginx on the loopback."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.free_port import free_port, wait_for_port
from tests.support.tls_certificate import Certificate


class NginxServer:
    """Serves one directory; starts, dies and starts again at the same port."""

    def __init__(
        self,
        directory: Path,
        root: Path,
        *,
        certificate: Certificate | None = None,
        password: tuple[str, str] | None = None,
        directives: str = "",
    ) -> None:
        found = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
        if found is None:
            pytest.skip("there is no nginx: `apt-get install nginx-light`")
        directory.mkdir()
        self.port = free_port()
        listen, more = f"127.0.0.1:{self.port}", directives
        if certificate is not None:
            listen += " ssl"
            more += (
                f"ssl_certificate {certificate.certificate};ssl_certificate_key {certificate.key};"
            )
        if password is not None:
            (directory / "passwords").write_text(f"{password[0]}:{{PLAIN}}{password[1]}\n")
            more += f"auth_basic garage; auth_basic_user_file {directory}/passwords;"
        user = "user root;" if os.geteuid() == 0 else ""
        places = "".join(
            f"{kind}_temp_path {directory}/{kind};"
            for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        config = directory / "nginx.conf"
        config.write_text(
            f"{user} daemon off; master_process off; pid {directory}/pid;"
            f"error_log {directory}/error.log; events {{ worker_connections 64; }}"
            f"http {{ access_log {directory}/access.log; {places}"
            f"server {{ listen {listen}; root {root}; {more} }} }}\n"
        )
        self._command = [found, "-c", str(config), "-e", f"{directory}/start.log"]
        self._log = directory / "error.log"
        self.start()

    def start(self) -> None:
        """Starts it and waits until it listens."""
        self._process = subprocess.Popen(self._command, stderr=subprocess.DEVNULL)
        wait_for_port(self._process, self.port, self._log)

    def stop(self) -> None:
        """Ends it at once, connections included."""
        self._process.kill()
        self._process.wait()
