"""The probes: on a port of their own, or none without a port."""

import socket

import httpx
import pytest

from streaming.base.errors import UserError
from streaming.base.health import Health
from streaming.lab.servers import free_port
from streaming.serve.web.probes import probes


def test_the_probes_report_whether_the_tasks_make_progress():
    health, port = Health(), free_port()
    task = health.task("round", 60_000)
    with probes(health, "127.0.0.1", port), httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
        assert client.get("/healthz").json() == {"alive": True}
        answer = client.get("/readyz")
        assert answer.status_code == 503
        [report] = answer.json()["tasks"]
        assert (report["task"], report["ready"], report["time"]) == ("round", False, None)
        assert report["reason"] == "no round has finished since the start"
        task.done()
        answer = client.get("/readyz")
        assert (answer.status_code, answer.json()["ready"]) == (200, True)
        assert client.get("/").status_code == 404
        assert client.post("/healthz").status_code == 405
    with socket.create_server(("127.0.0.1", port)):
        pass  # it is free again


def test_without_a_port_there_are_no_probes():
    with probes(Health(), "203.0.113.1", 0):
        pass


def test_a_port_in_use_is_one_sentence():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match=rf"port {port} \(Address already in use\): set another port in"):
            probes(Health(), "127.0.0.1", port).__enter__()
