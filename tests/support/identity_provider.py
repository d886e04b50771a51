"""A small identity provider in a process of its own on loopback (`identity_server`), and who is known to it."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx

from streaming.lab.security import CertificateFiles

CLIENT_ID, CLIENT_SECRET = "rebalance-watch", "Zt4q7&w9 Kp2x/Lm5"
PEOPLE = {
    "u-1": {"preferred_username": "ann", "groups": ["sre", "dev"]},
    "u-2": {"preferred_username": "bob", "groups": ["dev"]},
    "u-3": {"preferred_username": "eve", "groups": ["sales"]},
}
"""By subject: an operator, a viewer, and one without a role."""
FAULTS = (
    "audience", "azp", "issuer", "nonce", "no nonce", "expired", "other key", "former key", "unsigned", "no id token",
    "other issuer", "down", "userinfo", "echo", "script", "keys in clear text", "file", "userinfo in clear text",
)  # fmt: skip
"""What is wrong with the next answers."""


class IdentityProvider(NamedTuple):
    """A provider that runs."""

    issuer: str

    def set(self, fault: str = "") -> None:
        """Let it do something wrong from now on; nothing: it is right again."""
        assert fault in {"", *FAULTS}
        httpx.post(f"{self.issuer}/test/fault", data={"fault": fault}, timeout=60, verify=False).raise_for_status()

    def rotate_keys(self) -> None:
        """Let it sign with a new key, and forget the former one."""
        httpx.post(f"{self.issuer}/test/rotate", timeout=60, verify=False).raise_for_status()


@contextmanager
def identity_provider(certificate: CertificateFiles | None = None) -> Iterator[IdentityProvider]:
    """Run a provider until the end of the block; with a certificate by https."""
    environment = {**os.environ, "AUTHLIB_INSECURE_TRANSPORT": "1"}
    argv = [sys.executable, "-m", "tests.support.identity_server"]
    if certificate is not None:
        argv += [str(certificate.certificate_file), str(certificate.key_file)]
    process = subprocess.Popen(
        argv, stdout=subprocess.PIPE, text=True, env=environment, cwd=Path(__file__).parents[2]
    )  # fmt: skip
    try:
        line = process.stdout.readline()
        assert line.startswith("http"), "it has not started"
        yield IdentityProvider(line.strip())
    finally:
        process.terminate()
        process.wait(60)
        process.stdout.close()
