"""The doctor: what it finds, how it says to mend it, and its exit code."""

import json
import shutil
import socket
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest
from deltalake import DeltaTable
from typer.testing import CliRunner

from schemas.arrow import arrow_schema
from streaming.base import jars, java
from streaming.base.errors import UserError
from streaming.base.settings import load_settings
from streaming.cli import checks as doctor
from streaming.cli.main import app
from streaming.cli.peer_checks import Check, otlp_checks
from tests.support.otlp_receiver import otlp_receiver
from tests.support.world import example


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A runtime root with every jar set, on a machine with a Java."""
    monkeypatch.setenv("REBALANCE_WATCH_RUNTIME__ROOT", str(tmp_path))
    monkeypatch.setattr(jars, "state", lambda _conf, _root: "present")
    monkeypatch.setattr(java, "find_java_home", lambda: Path("/opt/java/17"))
    monkeypatch.setattr(java, "java_version", lambda _home: 17)
    monkeypatch.setattr(doctor, "open_files", lambda: 65_536)
    return tmp_path


@pytest.fixture
def unused_port():
    with socket.socket() as bound:  # bound and not listening: nobody else gets it, and who connects is refused
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


def examine(*, servers: bool = False) -> dict[str, Check]:
    return {check.part: check for check in doctor.examine(load_settings(), servers=servers)}


def test_all_is_well(root):
    result = CliRunner().invoke(app, ["doctor", "--format", "json"])
    assert result.exit_code == 0, result.output
    checks = {check["part"]: check for check in json.loads(result.output)}
    assert {check["state"] for check in checks.values()} == {"ok"}
    assert {
        "python",
        "java",
        "pyspark",
        "delta-spark",
        "pandas",
        "protobuf",
        "kafka-python",
        "great-expectations",
    } < set(checks)
    assert {f"{conf} jars" for conf in jars.JAR_SETS} | {"disk", "memory", "checkpoints"} < set(checks)


@pytest.mark.parametrize(("state", "word"), [("missing", "--fetch"), ("wrong", "delete")])
def test_spark_jars_that_are_not_there_are_unhealthy(root, monkeypatch, state, word):
    monkeypatch.setattr(jars, "state", lambda conf, _root: state if conf == "spark" else "present")
    result = CliRunner().invoke(app, ["doctor"], env={"COLUMNS": "200"})
    assert result.exit_code == 3
    line = next(line for line in result.output.splitlines() if "spark jars" in line)
    assert state in line
    assert word in line


def test_the_lab_is_not_needed_to_run(root, monkeypatch):
    monkeypatch.setattr(jars, "state", lambda conf, _root: "present" if conf == "spark" else "missing")
    assert CliRunner().invoke(app, ["doctor"]).exit_code == 0


def test_a_package_may_be_of_a_wrong_version_or_missing(root, monkeypatch):
    installed = metadata.version

    def version(name: str) -> str:
        if name == "duckdb":
            raise metadata.PackageNotFoundError(name)
        return "4.3.0" if name == "pyspark" else installed(name)

    monkeypatch.setattr(metadata, "version", version)
    checks = examine()
    assert (checks["pyspark"].state, checks["pyspark"].found) == ("wrong", "4.3.0, not ==4.2.0")
    assert checks["duckdb"].state == "missing"
    assert not doctor.healthy(list(checks.values()))


def test_the_root_that_is_given_is_judged(tmp_path, monkeypatch):
    monkeypatch.setattr(jars, "state", lambda _conf, root: "present" if root == tmp_path / "jars" else "missing")

    def checks(root):
        command = ["--root", str(root), "doctor", "--format", "json"]
        shown = CliRunner().invoke(app, command)
        return shown.exit_code, {check["part"]: check for check in json.loads(shown.output)}

    new = tmp_path / "x" / "new"
    code, by_part = checks(new)
    assert (code, by_part["root"]["state"]) == (3, "ok")
    assert by_part["root"]["found"] == f"{new}: does not exist yet, the first command creates it"
    assert by_part["tables"]["found"] == "none yet: `run` creates them"
    assert f"`rebalance-watch --root {new} doctor --fetch`" in by_part["spark jars"]["mend"]

    demo = tmp_path / "demo"
    example().write(demo / "tables")
    _, by_part = checks(demo)
    assert by_part["spark jars"]["mend"] == f"set runtime.jars to {tmp_path / 'jars'}, which has them"
    assert "state" not in by_part
    assert by_part["tables"]["found"].startswith("3 groups, last telemetry 2026-11-21T12:00:30.000Z (")

    file = tmp_path / "file"
    file.touch()
    code, by_part = checks(file)
    assert (code, by_part["root"]["found"]) == (3, f"{file} is no folder")
    assert "disk" not in by_part


def test_groups_whose_state_was_lost_are_named_until_a_rebuild(root):
    world = example()
    world.incident("quiet", "STATE_LOST", subject="", sub_cause="GROUP")
    world.write(root / "tables")
    check = examine()["state"]
    assert (check.state, check.needed) == ("wrong", False)
    assert check.found == "lost of quiet of c: STATE_LOST"
    assert "`rebalance-watch rebuild`" in check.mend


def test_tables_that_can_not_be_read_are_wrong(root):
    example().write(root / "tables")
    (root / "tables/anomalies/_delta_log/00000000000000000000.json").write_text("{")

    check = examine()["tables"]
    assert (check.state, check.needed) == ("wrong", True)
    assert "anomalies" in check.mend


def test_no_java_is_missing(root, monkeypatch):
    monkeypatch.setattr(java, "find_java_home", lambda: None)
    assert examine()["java"].state == "missing"


def test_a_full_disk_and_a_small_memory_are_wrong(root, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: SimpleNamespace(free=1 << 30))
    monkeypatch.setenv("REBALANCE_WATCH_JOB__DRIVER_MEMORY", "900t")
    checks = examine()
    assert (checks["disk"].state, checks["memory"].state) == ("wrong", "wrong")


def test_few_open_files_are_said_with_what_allows_more(root, monkeypatch):
    monkeypatch.setattr(doctor, "open_files", lambda: 1_024)
    check = examine()["open files"]
    assert (check.state, check.found, check.needed) == ("wrong", "at most 1,024 a process", False)
    assert "LimitNOFILE" in check.mend


def test_a_root_that_every_user_may_read_is_said(root):
    root.chmod(0o755)
    check = examine()["rights"]
    assert (check.state, check.needed, check.mend) == ("wrong", False, f"`chmod -R o= {root}`")
    root.chmod(0o750)
    assert "rights" not in examine()


def test_a_memory_size_that_is_none_is_refused(root, monkeypatch):
    monkeypatch.setenv("REBALANCE_WATCH_JOB__DRIVER_MEMORY", "much")
    with pytest.raises(UserError, match=r"job\.driver_memory"):
        examine()


def test_tables_without_their_checkpoints_are_wrong(root):
    settings = load_settings()
    DeltaTable.create(settings.runtime.tables / "anomalies", schema=arrow_schema("anomalies"))
    check = examine()["checkpoints"]
    assert check.state == "wrong"
    assert "anomalies" in check.mend


def test_servers_are_asked_only_on_request_and_named_when_unreachable(root, monkeypatch, unused_port):
    def refuse(*_: object) -> int:
        raise UserError("Kafka can't be reached.")

    monkeypatch.setattr(doctor, "partition_count", refuse)
    monkeypatch.setenv("REBALANCE_WATCH_COLLECTOR__NAME_SERVERS", f'["127.0.0.1:{unused_port}"]')
    assert "kafka" not in examine()
    checks = examine(servers=True)
    assert checks["kafka"].state == "missing"
    assert checks[f"name server 127.0.0.1:{unused_port}"].state == "missing"
    assert not doctor.healthy(list(checks.values()))
    monkeypatch.setenv("REBALANCE_WATCH_SOURCE__KIND", "files")
    checks = examine(servers=True)
    assert "kafka" not in checks  # the log is files: no broker of it is missing
    assert doctor.healthy(list(checks.values()))


@pytest.mark.parametrize(("partitions", "state"), [(8, "ok"), (4, "wrong"), (None, "missing")])
def test_the_topic_must_have_the_partitions_of_the_settings(root, monkeypatch, partitions, state):
    monkeypatch.setenv("REBALANCE_WATCH_SOURCE__KIND", "kafka")
    monkeypatch.setattr(doctor, "partition_count", lambda *_: partitions)
    check = doctor._kafka(load_settings())
    assert check.state == state
    assert check.needed


def test_a_spark_master_is_asked_if_there_is_one(root, monkeypatch, unused_port):
    monkeypatch.setattr(doctor, "partition_count", lambda *_: 8)
    assert "spark master" not in examine(servers=True)
    with socket.create_server(("127.0.0.1", 0)) as master:
        for port, state in ((unused_port, "missing"), (master.getsockname()[1], "ok")):
            monkeypatch.setenv("REBALANCE_WATCH_JOB__MASTER", f"spark://127.0.0.1:{port}")
            check = examine(servers=True)["spark master"]
            assert (check.state, check.needed) == (state, True)


def test_an_opentelemetry_collector_is_asked_if_there_is_one(monkeypatch, unused_port):
    assert list(otlp_checks(load_settings().otlp)) == []
    with otlp_receiver() as receiver:
        otlp = {"endpoint": receiver.endpoint, "headers": "Authorization=secret"}
        assert {one.part: one.state for one in otlp_checks(load_settings(otlp=otlp).otlp)} == {
            "otlp metrics": "ok", "otlp traces": "ok",
        }  # fmt: skip
        receiver.status, receiver.body = 401, b"bad secret"
        refused, _ = otlp_checks(load_settings(otlp=otlp).otlp)
        assert (refused.state, refused.needed) == ("missing", False)
        assert refused.found == f"{receiver.endpoint}/v1/metrics: HTTP 401 (bad …)"
    away = load_settings(otlp={"endpoint": f"http://127.0.0.1:{unused_port}", "signals": ["traces"]}).otlp
    [check] = otlp_checks(away)
    assert (check.part, check.state) == ("otlp traces", "missing")
