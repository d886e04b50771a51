"""The receivers of alerts in a test: a webhook, and a real Alertmanager, which sends its alerts to the same webhook."""

import json
import os
import shutil
import signal
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random
from types import SimpleNamespace

import httpx

from streaming.lab.servers import LOOPBACK, free_port

PROGRAM = "prometheus-alertmanager"
_START_SECONDS_MAX = 120
_CONFIG = """
route: {{receiver: test, group_by: [alertname, incident_id], group_wait: 0s, group_interval: 1s, repeat_interval: 1h}}
receivers: [{{name: test, webhook_configs: [{{url: "{url}/alertmanager", send_resolved: true}}]}}]
"""


class Webhook(ThreadingHTTPServer):
    """Keeps every POST that it accepts; with a rate of faults it may refuse one, or accept it without a response."""

    def __init__(self, faults=0.0, seed=0):
        super().__init__((LOOPBACK, 0), _Handler)
        self.url = f"http://{LOOPBACK}:{self.server_port}"
        self.taken = []
        self.faults = faults
        self.slow_seconds = 0.0
        """The maximum delay of its response, after it has read the message; seconds."""
        self.random = Random(seed)
        self._thread = threading.Thread(target=self.serve_forever, args=(0.02,))

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self._thread.join()
        self.server_close()

    def handle_error(self, request, client_address):
        """Ignore errors of connections: a sender that was killed does not read the response."""

    def alerts(self):
        """Return the alerts of our own webhook channel, each with the key of its message."""
        return [
            SimpleNamespace(message=key, **alert)
            for path, key, body in list(self.taken)
            if path == "/ours"
            for alert in body["alerts"]
        ]

    def messages(self):
        """Return incident and kind of these alerts."""
        return {(alert.incident_id, alert.kind) for alert in self.alerts()}

    def wait_for(self, count, seconds):
        """Wait until there are so many of them; if they do not come, a comparison says which."""
        deadline = time.monotonic() + seconds
        while len(self.messages()) < count and time.monotonic() < deadline:
            time.sleep(0.1)

    def from_alertmanager(self):
        """Return incident, severity and status of what the Alertmanager sent, in order, each once."""
        seen = []
        for path, _, body in list(self.taken):
            for alert in body["alerts"] if path == "/alertmanager" else ():
                labels = alert["labels"]
                one = (labels["incident_id"], labels["severity"], alert["status"])
                if one not in seen:
                    seen.append(one)
        return seen


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        chance = self.server.random.random() if self.path == "/ours" else 1.0
        if chance >= self.server.faults / 2:
            self.server.taken.append((self.path, self.headers["Idempotency-Key"], body))
        time.sleep(self.server.random.uniform(0, self.server.slow_seconds))
        self.send_response(200 if chance >= self.server.faults else 503)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


class Alertmanager:
    """Debian's Alertmanager, on a free port, without a cluster."""

    def __init__(self, folder, webhook):
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        (folder / "alertmanager.yml").write_text(_CONFIG.format(url=webhook.url))
        self._port = free_port()
        self.url = f"http://{LOOPBACK}:{self._port}"
        self._process = None

    def start(self):
        """Start it, or restart it, and wait until it responds."""
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [shutil.which(PROGRAM), f"--config.file={self._folder / 'alertmanager.yml'}",
                 f"--storage.path={self._folder / 'data'}", f"--web.listen-address={LOOPBACK}:{self._port}",
                 "--cluster.listen-address="],
                stdout=log, stderr=subprocess.STDOUT,
            )  # fmt: skip
        deadline = time.monotonic() + _START_SECONDS_MAX
        while not self._answers():
            assert self._process.poll() is None, (self._folder / "log").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        return self

    def _answers(self):
        try:
            return httpx.get(f"{self.url}/-/ready", timeout=_START_SECONDS_MAX).is_success
        except httpx.HTTPError:
            return False

    def active(self):
        """Return the firing alerts by incident."""
        answer = httpx.get(f"{self.url}/api/v2/alerts", timeout=_START_SECONDS_MAX).raise_for_status().json()
        return {alert["labels"]["incident_id"]: alert for alert in answer}

    def kill(self):
        """Kill it (SIGKILL): it loses what it had not written to disk."""
        if self._process is not None and self._process.poll() is None:
            os.kill(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.kill()
