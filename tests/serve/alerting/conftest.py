"""Empty tables, a manual clock, a recording channel, and a server that receives what channels send."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.support.alerting import Clock, Listener
from tests.support.tables import make_tables


class Server(ThreadingHTTPServer):
    """Records requests and gives the answers that are set."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests = []
        self.status = 200
        self.broken = set()  # paths
        self.answer = lambda _: f"no such thing at {self.url}/secret"
        self.url = f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.requests.append((self.path, dict(self.headers), json.loads(body)))
        answer = self.server.answer(self).encode()
        self.send_response(500 if self.path in self.server.broken else self.server.status)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def tables(tmp_path):
    return make_tables(tmp_path / "tables")


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def ops():
    return Listener()
