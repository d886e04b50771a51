"""A dry run on Kubernetes: the pods that Spark asks for, from an API server that only writes down what it is asked."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from streaming.base.settings import load_settings
from streaming.lab.servers import LOOPBACK
from streaming.pipeline.environment import pack
from tests.live.commands import Command
from tests.support.standalone import ON_LOOPBACK

pytestmark = [pytest.mark.spark, pytest.mark.prove]  # in short: `test_spark_properties`

SECONDS = 300
JAAS = "REBALANCE_WATCH_KAFKA_SECRET_SASL_JAAS_CONFIG"
SPARK = ON_LOOPBACK | {
    "spark.kubernetes.container.image": "registry.example.com/spark:4.2.0",
    "spark.executor.instances": 1,
    f"spark.kubernetes.executor.secretKeyRef.{JAAS}": "kafka:jaas",
    "spark.kubernetes.executor.volumes.persistentVolumeClaim.root.mount.path": "/mnt/shared",
    "spark.kubernetes.executor.volumes.persistentVolumeClaim.root.options.claimName": "rebalance-watch",
}


KINDS = {"pods": "PodList", "configmaps": "ConfigMapList", "persistentvolumeclaims": "PersistentVolumeClaimList"}
START_SPARK = """
from streaming.base.settings import load_settings
from streaming.pipeline.session import spark_session
spark_session(load_settings(), "dry run")
input()
"""


class ApiServer(ThreadingHTTPServer):
    """Accepts every object and has none."""

    def __init__(self):
        super().__init__((LOOPBACK, 0), _Handler)
        self.pods = []
        self.asked = threading.Event()

    @property
    def url(self):
        return f"http://{LOOPBACK}:{self.server_port}"

    def __enter__(self):
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        created = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if created["kind"] == "Pod":
            self.server.pods.append(created)
            self.server.asked.set()
        self._answer(201, created)

    def do_GET(self):
        kind = KINDS.get(self.path.partition("?")[0].rpartition("/")[2], "List")
        self._answer(200, {"apiVersion": "v1", "kind": kind, "metadata": {"resourceVersion": "1"}, "items": []})

    def do_DELETE(self):
        self.do_GET()

    def _answer(self, status, content):
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Stay silent."""


def test_a_pod_has_the_environment_and_the_storage_and_no_secret(tmp_path):
    (tmp_path / "program.py").write_text(START_SPARK)
    archive = pack(tmp_path / "environment.tar.gz")
    with ApiServer() as server:
        given = {"RUNTIME__ROOT": tmp_path, "RUNTIME__JARS": load_settings().runtime.jars}
        given |= {"JOB__MASTER": f"k8s://{server.url}", "SPARK": json.dumps(SPARK), "JOB__ENVIRONMENT": archive}
        given |= {"KAFKA__SECURITY_PROTOCOL": "SASL_SSL", "KAFKA__USERNAME": "job", "KAFKA__PASSWORD": "hunter2"}
        with Command(tmp_path, given, program=(tmp_path / "program.py",)) as job:
            job.start()
            assert server.asked.wait(SECONDS), job.said()
    pod = server.pods[0]
    [container] = pod["spec"]["containers"]
    variables = {one["name"]: one for one in container["env"]}
    assert container["image"] == SPARK["spark.kubernetes.container.image"]
    assert variables["PYTHONPATH"]["value"] == "environment"
    assert variables[JAAS]["valueFrom"]["secretKeyRef"] == {"name": "kafka", "key": "jaas"}
    assert "/mnt/shared" in {mount["mountPath"] for mount in container["volumeMounts"]}
    assert LOOPBACK in variables["SPARK_DRIVER_URL"]["value"]
    assert "hunter2" not in json.dumps(server.pods)
