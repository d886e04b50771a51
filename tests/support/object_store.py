"""A real server of the S3 protocol on loopback (s3proxy), whose objects are files.

Amazon's store decides at once which of two requests creates an object, and lists what there is at one instant. This
server first looks and then writes, and lists a folder while it changes. So a front before it lets in one request at a
time; of about 150 commits by four writers without it, five to nine were lost. It is a process of its own, because some
calls of delta-rs hold Python's lock while they wait for an answer.
"""

import re
import sys
import threading
from contextlib import suppress
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from streaming.base import jars
from streaming.base.java import java_executable
from streaming.base.settings import load_settings
from streaming.lab.processes import end, spawn, wait_until
from streaming.lab.servers import LOOPBACK, free_port, port_is_free

ACCESS_KEY = "the-access-key"
FORGETFUL = "forgetful"
"""A bucket of a store that does not know If-None-Match: it replaces what is there."""
OSS = "oss"
"""A bucket that answers as Alibaba Cloud OSS does: it refuses its name in the path, and If-None-Match."""
_HOST = "localhost"
SECRET_KEY = "the-secret-key-that-nobody-may-print"
_START_SECONDS_MAX = 200
_HOP = {"connection", "transfer-encoding", "content-length", "date", "server"}


class ObjectStore:
    """The server with one bucket; it ends with the block."""

    def __init__(self, folder: Path, *, serial: bool = True) -> None:
        """Start it.

        Args:
            folder: where the objects are files.
            serial: whether one request at a time is let in; needed if several write to one table.
        """
        self.bucket = "bucket"
        for name in (self.bucket, FORGETFUL, OSS):
            (folder / "objects" / name).mkdir(parents=True)
        port = free_port()
        properties = {
            "s3proxy.endpoint": f"http://{LOOPBACK}:{port}",
            "s3proxy.virtual-host": _HOST,
            "s3proxy.authorization": "aws-v2-or-v4",
            "s3proxy.identity": ACCESS_KEY,
            "s3proxy.credential": SECRET_KEY,
            "s3proxy.ignore-unknown-headers": "true",  # checksums of requests
            "jclouds.provider": "filesystem-nio2",
            "jclouds.filesystem.basedir": str(folder / "objects"),
        }
        file = folder / "s3proxy.conf"
        file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        found = jars.ensure("s3proxy", load_settings().runtime.jars)
        path = ":".join(map(str, found))
        command = [str(java_executable()), "-Xmx256m", "-cp", path, "org.gaul.s3proxy.Main"]
        log = folder / "s3proxy.log"
        self._process = spawn([*command, "--properties", str(file)], log)
        wait_until(lambda: not port_is_free(port) or None, self._process, log, _START_SECONDS_MAX)
        front, log = free_port(), folder / "front.log"
        self._front = spawn(
            [sys.executable, "-m", "tests.support.object_store", str(front), str(port), folder / "objects"], log
        )
        self.endpoint = f"http://{_HOST}:{front if serial else port}"
        wait_until(lambda: not port_is_free(front) or None, self._front, log, _START_SECONDS_MAX)

    def settings(self, **more: object) -> dict[str, object]:
        """Return the section [storage] for tables in the bucket."""
        return {
            "tables": f"s3://{self.bucket}/tables", "endpoint": self.endpoint, "access_key": ACCESS_KEY,
            "secret_key": SECRET_KEY,
        } | more  # fmt: skip

    def by_host(self, **more: object) -> dict[str, object]:
        """Return the same with the bucket in the host's name, which the server resolves itself, as a proxy."""
        return self.settings(path_style=False, options={"proxy_url": self.endpoint}, **more)

    def environment(self, **more: object) -> dict[str, object]:
        """Return the same for `Command`."""
        return {f"STORAGE__{name.upper()}": value for name, value in self.settings(**more).items()}

    def __enter__(self) -> "ObjectStore":
        return self

    def __exit__(self, *_: object) -> None:
        end(self._front)
        end(self._process)


class _Front(ThreadingHTTPServer):
    """Passes requests on, one at a time."""

    daemon_threads = True

    def __init__(self, port: int, onward: int, objects: Path) -> None:
        super().__init__((LOOPBACK, port), _Request)
        self.port = onward
        self.objects = objects
        self.one_at_a_time = threading.Lock()


class _Request(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Front

    disable_nagle_algorithm = True

    def _pass_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.path = re.sub(r"^https?://[^/]+", "", self.path)  # as a proxy is asked
        if (code := self._refused_by_oss()) is not None:
            self._refuse(*code)
            return
        with self.server.one_at_a_time:
            if self.command == "PUT" and self.path.startswith(f"/{FORGETFUL}/"):
                (self.server.objects / self.path[1:]).unlink(missing_ok=True)
            onward = HTTPConnection(LOOPBACK, self.server.port, timeout=60)
            onward.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() not in {"expect", "connection"}:
                    onward.putheader(name, value)
            onward.endheaders(body or None)
            answer = onward.getresponse()
            content = answer.read()
            onward.close()
        self.send_response_only(answer.status, answer.reason)
        for name, value in answer.getheaders():
            if name.lower() not in _HOP:
                self.send_header(name, value)
        length = answer.getheader("Content-Length") if self.command == "HEAD" else str(len(content))
        if length is not None and answer.status not in {204, 304}:
            self.send_header("Content-Length", length)
        with suppress(ConnectionError):  # the client was killed
            self.end_headers()
            self.wfile.write(content)

    def do_GET(self) -> None:
        self._pass_on()

    def _refused_by_oss(self) -> tuple[int, str] | None:
        if self.path.startswith((f"/{OSS}/", f"/{OSS}?")):
            return 403, "SecondLevelDomainForbidden"
        if self.headers["Host"].startswith(f"{OSS}.") and "If-None-Match" in self.headers:
            return 501, "NotImplemented"
        return None

    def _refuse(self, status: int, code: str) -> None:
        content = f"<Error><Code>{code}</Code></Error>".encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_HEAD = do_PUT = do_POST = do_DELETE = do_GET  # noqa: N815  http.server's names

    def log_message(self, *_: object) -> None:
        """Print nothing."""


if __name__ == "__main__":
    _Front(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])).serve_forever()
