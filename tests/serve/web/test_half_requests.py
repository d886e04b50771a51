"""A dashboard with the files that systemd gives, while 1,100 connections wait, for longer than any of their times."""

import re
import resource
import socket
import ssl
import time
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from streaming.base.process import raise_open_files
from streaming.lab.security import Authority
from tests.support.served import served
from tests.support.waiting import until
from tests.support.world import NOON, World, example

pytestmark = [pytest.mark.prove, pytest.mark.timeout(900)]

FILES, CONNECTIONS = 1_024, 1_100
SECONDS = 30
HELD_SECONDS = 40
TOKEN = "a token of some length"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
GET = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n"
SECRET = f"Authorization: Bearer {TOKEN}\r\n".encode()
MEMORY_KB_MAX = 200_000
"""More than it has for an answer to nobody else."""
SENT = {
    "silent": b"",
    "half header": GET + b"X-Half: ",
    "half body": b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 900\r\n\r\ntoken=",
    "half body refused": b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 900000\r\n\r\n{",
    "endless body": b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
    "idle": b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "header lines": GET + b"".join(b"X-%d: a\r\n" % number for number in range(5_000)),
    "no http": b"\x16\x03\x01\x02\x00\x01" * 20,
    "pages": b"GET /_nicegui_ws/socket.io/?EIO=4&transport=websocket HTTP/1.1\r\nHost: 127.0.0.1\r\n" + SECRET
    + b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
}  # fmt: skip


@pytest.mark.parametrize("sources", ["one address", "many addresses"])
@pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("sent", SENT.values(), ids=SENT)
def test_connections_that_wait_keep_nobody_out(tmp_path, record_property, sent, encrypted, sources):
    example().write(tmp_path / "tables")
    settings, context = {"WEB__TOKEN": TOKEN}, None
    if encrypted:
        certificate = Authority(tmp_path / "authority").issue("watch")
        settings |= {
            "WEB__CERTIFICATE_FILE": str(certificate.certificate_file),
            "WEB__KEY_FILE": str(certificate.key_file),
        }
        context = ssl._create_unverified_context()
    raise_open_files()
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > FILES + CONNECTIONS
    with served("dashboard", tmp_path, files=FILES, **settings) as address, ExitStack() as stack:
        process = pid_of(urlsplit(address).port)
        asked_all(address, tmp_path)
        before = memory_kb(process)
        for number in range(CONNECTIONS):
            source = f"127.0.{number % 100}.{1 + number // 100}" if sources == "many addresses" else "127.0.0.1"
            opened(stack, address, sent, source, context)
        slowest, most, ends_at = 0.0, 0, time.monotonic() + HELD_SECONDS
        while time.monotonic() < ends_at:
            slowest = max(slowest, asked_all(address, tmp_path))
            most = max(most, memory_kb(process) - before)
            assert sum(1 for _ in Path(f"/proc/{process}/fd").iterdir()) < FILES - 50
            time.sleep(2)
    record_property("slowest_seconds", round(slowest, 2))
    record_property("memory_kb", most)
    assert most < MEMORY_KB_MAX
    log = (tmp_path / "dashboard.log").read_text()
    assert "Traceback" not in log
    assert len(log.splitlines()) < 10, log


def asked_all(address: str, root: Path) -> float:
    """Ask for what people, programs and probes need, while the tables grow; return the slowest answer's seconds."""
    with httpx.Client(base_url=address, headers=BEARER, timeout=SECONDS, verify=False) as client:
        began = time.monotonic()
        assert client.get("/healthz").json() == {"alive": True}
        slowest = time.monotonic() - began
        assert client.get("/").status_code == 200
        version = client.get("/api/v1/health").json()["tables_version"]
        more = World()
        more.rejected("BAD_JSON", NOON)
        more.write(root / "tables")
        until(lambda: client.get("/api/v1/health").json()["tables_version"] > version, SECONDS)
        assert client.get("/readyz").status_code == 200
    return slowest


def opened(stack: ExitStack, address: str, sent: bytes, source: str, context: ssl.SSLContext | None) -> None:
    """Open a connection, and leave it; the server may close it meanwhile."""
    at = urlsplit(address)
    connection = socket.create_connection((at.hostname, at.port), timeout=SECONDS, source_address=(source, 0))
    stack.enter_context(connection)
    try:
        if context is not None and not sent.startswith(b"\x16"):
            connection = stack.enter_context(context.wrap_socket(connection))
        connection.sendall(sent)
    except OSError:
        return


def memory_kb(process: int) -> int:
    return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{process}/status").read_text())[1])


def pid_of(port: int) -> int:
    """Return the process that listens at a port."""
    [line] = [
        one.split() for one in Path("/proc/net/tcp").read_text().splitlines() if f":{port:04X} 00000000:0000 0A" in one
    ]
    sockets = f"socket:[{line[9]}]"
    for file in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            if str(file.readlink()) == sockets:
                return int(file.parts[2])
        except OSError:
            continue
    raise AssertionError(port)
