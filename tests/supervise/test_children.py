"""Questions of `up` to its processes, over their sockets."""

import ssl

from streaming.base.health import PROBE_SOCKET, Health
from streaming.serve.web.probes import probes
from streaming.supervise.child import ChildrenHealth


def test_a_question_reads_no_certificate_authorities(tmp_path, monkeypatch):
    """Reading them took 20 ms of processor time for each process and question."""
    monkeypatch.setenv(PROBE_SOCKET, str(tmp_path / "maintain"))
    monkeypatch.setattr(ssl.SSLContext, "load_verify_locations", lambda *_, **__: 1 / 0)
    monkeypatch.setattr(ssl.SSLContext, "load_default_certs", lambda *_: 1 / 0)
    health = Health()
    with probes(health, "127.0.0.1", 0):
        health.task("round", 60_000).done()
        answered = ChildrenHealth({"maintain": tmp_path / "maintain"}).now()
    assert answered.ready
    assert [task.task for task in answered.tasks] == ["maintain: round"]
