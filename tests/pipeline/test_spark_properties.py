"""Properties of Spark, for this machine or for executors elsewhere, and no secret in a command line."""

import re
import shlex
import subprocess
import sys
import tarfile
from pathlib import Path

import pyspark
import pytest

from conf import __file__ as conf_init
from streaming.base.errors import SettingsError, UserError
from streaming.base.settings import load_settings
from streaming.pipeline import environment
from streaming.pipeline.environment import pack
from streaming.pipeline.job import _STOP_SECONDS_MAX
from streaming.pipeline.session import check_master
from streaming.pipeline.spark_properties import (
    as_file,
    jar_of_ours,
    spark_properties,
    worker_environment,
    worker_python,
)
from streaming.supervise.supervisor import GRACE_SECONDS

pytestmark = pytest.mark.xdist_group("packed environment")  # one archive of 100 MB for all of them

CONF = Path(conf_init).parent
JAAS = "spark.executorEnv.REBALANCE_WATCH_KAFKA_SECRET_SASL_JAAS_CONFIG"
PASSWORD = {"security_protocol": "SASL_PLAINTEXT", "username": "job", "password": "hunter2"}
SPARK_LIBRARIES = Path(pyspark.__file__).parent / "python" / "lib"
WORKERS_IMPORT = """
import pyspark.worker
import streaming.pipeline.archive_rows, streaming.pipeline.operator, streaming.pipeline.sources
from google import protobuf
import pandas, pyarrow, streaming
print(*(module.__file__ for module in (streaming, pandas, pyarrow, protobuf)), sep="\\n")
"""


def settings_of(master="local", spark=None, packed="", **sections):
    job = {"master": master, "environment": packed}
    return load_settings(job=job, spark=spark or {}, **sections)


def visible(settings, tmp_path):
    return spark_properties(settings, tmp_path).visible


def test_spark_on_this_machine_listens_on_loopback_alone(tmp_path):
    found = visible(settings_of(), tmp_path)
    assert (found["spark.driver.host"], found["spark.driver.bindAddress"]) == ("127.0.0.1", "127.0.0.1")
    assert "spark.cores.max" not in found
    assert spark_properties(settings_of(kafka=PASSWORD), tmp_path).hidden == {}


def test_local_checkpoints_are_written_without_a_process_for_each_file(tmp_path):
    """Hadoop's FileContext starts `readlink` eight times for each; a store elsewhere keeps Spark's own choice."""
    manager = "spark.sql.streaming.checkpointFileManagerClass"
    assert visible(settings_of(), tmp_path)[manager].endswith(".FileSystemBasedCheckpointFileManager")
    assert manager not in visible(settings_of(storage={"checkpoints": "hdfs://127.0.0.1:9000/checkpoints"}), tmp_path)


def test_a_folder_with_a_space_is_one_word_of_javas_options(tmp_path):
    options = visible(settings_of(), tmp_path / 'it\'s "a" log')["spark.driver.extraJavaOptions"]
    assert f'-Drebalance.watch.log={tmp_path}/it\'s "a" log/spark.log' in shlex.split(options)


@pytest.mark.parametrize("by", ["extraJavaOptions", "defaultJavaOptions", "environment", "nothing"])
def test_java_gets_one_garbage_collector_that_of_the_user_first(by, tmp_path, monkeypatch):
    """With two it does not start."""
    chosen, ours = "-Xss1m -XX:+UseParallelGC", "-XX:+UseSerialGC"
    monkeypatch.setenv("JDK_JAVA_OPTIONS", chosen if by == "environment" else "-Xss1m")
    given = {f"spark.driver.{by}": chosen} if by.endswith("Options") else {}
    properties = spark_properties(settings_of(spark=given), tmp_path)
    options = [(properties.visible | properties.hidden)[name] for name in {"spark.driver.extraJavaOptions", *given}]
    assert (ours in " ".join(options)) == (by == "nothing")
    assert (chosen in " ".join(options)) == by.endswith("Options")


def test_with_executors_elsewhere_or_many_cores_java_chooses_its_collector(tmp_path):
    many = settings_of().model_copy(update={"job": settings_of().job.model_copy(update={"cores": 16})})
    for settings in (settings_of("spark://127.0.0.1:7077"), many):
        assert "GC" not in visible(settings, tmp_path)["spark.driver.extraJavaOptions"]


def test_a_job_whose_queries_both_hang_ends_before_it_is_killed(tmp_path):
    """By `up`, by systemd, by Kubernetes, by a container's engine."""
    timeout = re.fullmatch(r"(\d+)s", visible(settings_of(), tmp_path)["spark.sql.streaming.stopTimeout"])
    seconds = _STOP_SECONDS_MAX + int(timeout[1])
    files = "systemd/rebalance-watch-.service.d/common.conf", "kubernetes/watch.yaml", "container/compose.yaml"
    units, pod, container = ((CONF / name).read_text() for name in files)
    given = (
        GRACE_SECONDS,
        int(re.search(r"^TimeoutStopSec=(\d+)s$", units, re.MULTILINE)[1]),
        int(re.search(r"terminationGracePeriodSeconds: (\d+)$", pod, re.MULTILINE)[1]),
        60 * int(re.search(r"stop_grace_period: (\d+)m\b", container)[1]),
    )
    assert seconds == 7, "streaming/pipeline/README.md says so"
    assert seconds < min(given)


def test_executors_elsewhere_reach_the_driver_and_share_the_cores(tmp_path):
    found = visible(settings_of("spark://a:7077"), tmp_path)
    assert "spark.driver.host" not in found
    assert found["spark.cores.max"] == "2"


@pytest.mark.parametrize("master", ["spark://a:7077,b:7077", "yarn"])
def test_executors_get_the_secrets_of_kafka_in_redacted_variables(tmp_path, master):
    settings = settings_of(master, kafka=PASSWORD | {"token_url": "https://tokens/"})
    assert "hunter2" not in str(visible(settings, tmp_path))
    hidden = spark_properties(settings, tmp_path).hidden
    assert list(hidden) == [JAAS]
    assert "hunter2" in hidden[JAAS]
    assert "secret" in JAAS.lower()  # spark.redaction.regex
    assert visible(settings, tmp_path)["spark.executor.extraJavaOptions"].endswith("allowed.urls=https://tokens/")


def test_a_pods_spec_has_no_secret(tmp_path):
    assert spark_properties(settings_of("k8s://https://k:6443", kafka=PASSWORD), tmp_path).hidden == {}


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """All that executors need: 100 MB."""
    return pack(tmp_path_factory.mktemp("packed") / "environment.tar.gz")


@pytest.fixture
def small_archive(tmp_path, monkeypatch):
    """An archive of this release that has but one file."""
    monkeypatch.setattr(environment, "_files", lambda: [(Path(conf_init), "conf/__init__.py")])
    return pack(tmp_path / "small.tar.gz")


def test_an_archive_has_what_workers_import_and_nothing_of_the_driver():
    """By the names of its files; the long form unpacks it."""
    packed = {name for _, name in environment._files()}
    modules = {re.sub(r"(/__init__)?\.(py|[^/]*so)$", "", name).replace("/", ".") for name in packed}
    names = "(name for name, module in sys.modules.items() if getattr(module, '__file__', None))"
    asked = f"import sys, streaming.pipeline.worker_daemon; print(*{names})"
    ended = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    needed = {
        "checkpoints",
        "google",
        "msgspec",
        "numpy",
        "pandas",
        "pyarrow",
        "rebalance_model",
        "schemas",
        "streaming",
    }
    imported = {name for name in ended.stdout.split() if name.partition(".")[0] in needed}
    assert len(imported) > 500
    assert imported - modules == set()
    assert not [name for name in packed if name.startswith(("duckdb/", "great_expectations/", "nicegui/", "pyspark/"))]


def test_a_yarn_without_configuration_is_one_sentence(monkeypatch):
    monkeypatch.delenv("YARN_CONF_DIR", raising=False)
    monkeypatch.setenv("HADOOP_CONF_DIR", "/etc/hadoop")
    check_master("yarn")
    monkeypatch.delenv("HADOOP_CONF_DIR")
    with pytest.raises(UserError, match=r"let HADOOP_CONF_DIR name its configuration's folder\.$"):
        check_master("yarn")


def test_what_the_user_sets_comes_over_what_the_job_needs(small_archive, tmp_path):
    spark = {
        "spark.ui.enabled": True,
        "spark.driver.extraJavaOptions": "-Xlog:gc",
        "spark.ssl.keyPassword": "hunter2",
        "spark.archives": "data.zip#data",
        "spark.plugins": "my.Plugin",
    }
    settings = settings_of("spark://a:1", spark, str(small_archive))
    before, hidden = spark_properties(settings, tmp_path)
    assert not before.keys() & hidden.keys()
    assert hidden["spark.ui.enabled"] == "true"
    assert hidden["spark.archives"] == f"{small_archive}#environment,data.zip#data"
    assert hidden["spark.plugins"] == "rebalancewatch.StateServerPlugin,my.Plugin"
    assert hidden["spark.driver.extraJavaOptions"].startswith("-Dlog4j2.configurationFile=")
    assert hidden["spark.driver.extraJavaOptions"].endswith(" -Xlog:gc")


def test_workers_take_the_python_of_their_environment():
    minor = f"python3.{sys.version_info.minor}"
    assert worker_python(settings_of("spark://a:1")) == sys.executable
    assert worker_python(settings_of("spark://a:1", packed="e.tar.gz")) == minor
    assert worker_python(settings_of("yarn", {"spark.pyspark.python": "/opt/python"}, "e.tar.gz")) == "/opt/python"


def test_a_file_of_properties_keeps_every_character():
    text = as_file({"spark.a b": ' x="y\\z"\nend=#!:', "spark.c": "d"})
    assert text == 'spark.a\\ b=\\ x="y\\\\z"\\nend=#!:\nspark.c=d\n'


def test_an_archive_of_another_release_or_none_is_one_sentence(small_archive, tmp_path, monkeypatch):
    def refusal(file):
        with pytest.raises(SettingsError) as refused:
            visible(settings_of("yarn", packed=str(file)), tmp_path)
        return str(refused.value)

    assert "does not exist: make it with `rebalance-watch job pack`." in refusal(tmp_path / "none.tar.gz")
    (tmp_path / "text").write_text("text")
    assert "can't be read" in refusal(tmp_path / "text")
    monkeypatch.setattr("streaming.pipeline.environment.metadata.version", lambda _: "9.9")
    assert "was packed by rebalance-watch 0" in refusal(small_archive)


@pytest.mark.prove
def test_a_bare_python_finds_in_the_archive_all_that_workers_import(archive, tmp_path):
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path / "unpacked", filter="data")
    path = [tmp_path / "unpacked", SPARK_LIBRARIES / "pyspark.zip", *SPARK_LIBRARIES.glob("py4j-*.zip")]
    ended = subprocess.run(
        [sys._base_executable, "-S", "-c", WORKERS_IMPORT],
        env={"PYTHONPATH": ":".join(map(str, path))},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert {Path(file).parents[1] for file in ended.stdout.split()[:3]} == {tmp_path / "unpacked"}


def test_local_workers_take_pyspark_from_its_compiled_modules(tmp_path):
    script = worker_python(settings_of(runtime={"root": tmp_path}))
    path = ":".join(map(str, [SPARK_LIBRARIES / "pyspark.zip", *SPARK_LIBRARIES.glob("py4j-*.zip"), "/of the user"]))
    asked = [script, "-c", "import pyspark, sys; print(pyspark.__file__, sys.executable, *sys.path, sep='\\n')"]
    ended = subprocess.run(asked, env={"PYTHONPATH": path}, capture_output=True, text=True, check=True)
    file, executable, *found = ended.stdout.splitlines()
    assert (file, executable) == (pyspark.__file__, sys.executable)
    assert "/of the user" in found


def imported(statement):
    """Return the modules that a Python has after a statement."""
    asked = f"{statement}\nimport sys\nprint(*sys.modules)"
    ended = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    return set(ended.stdout.splitlines()[-1].split())


def test_workers_are_forked_from_a_process_with_their_imports():
    has = imported("import streaming.pipeline.worker_daemon")
    assert {"pandas", "pyarrow", "pyspark.worker", "streaming.pipeline.operator"} <= has


def test_workers_import_nothing_that_the_archive_leaves_out():
    """As the long form in a bare Python: executors have what `job pack` packed."""
    left_out = {
        "duckdb",
        "deltalake",
        "nicegui",
        "typer",
        "great_expectations",
        "prometheus_client",
        "apprise",
        "delta",
    }
    assert imported(WORKERS_IMPORT) & left_out == set()


@pytest.mark.parametrize("python", ["", sys._base_executable], ids=["by its name", "by a path"])
def test_the_executors_python_finds_our_packages_beside_the_driver(small_archive, monkeypatch, python):
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    spark = {"spark.pyspark.python": python} if python else {}
    variables = worker_environment(settings_of("spark://a:1", spark, str(small_archive)))
    libraries = [variables["PYTHONPATH"], SPARK_LIBRARIES / "pyspark.zip", *SPARK_LIBRARIES.glob("py4j-*.zip")]
    ended = subprocess.run(
        [variables["PYSPARK_PYTHON"], "-c", WORKERS_IMPORT],
        env=variables | {"PYTHONPATH": ":".join(map(str, libraries))},
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr


def test_keys_of_an_object_store_are_redacted_and_in_the_private_file(tmp_path, monkeypatch):
    monkeypatch.setattr("streaming.base.jars.ensure", lambda conf, _: [Path(f"/jars/{conf}.jar")])
    storage = {"checkpoints": "s3a://bucket/checkpoints", "endpoint": "https://store:9000", "access_key": "user"}
    settings = settings_of(storage=storage | {"secret_key": "hunter2", "session_token": "hunter3"})
    public, hidden = spark_properties(settings, tmp_path)
    assert public["spark.jars"] == f"file:///jars/spark.jar,file:///jars/s3a.jar,{jar_of_ours(settings).as_uri()}"
    assert public["spark.hadoop.fs.s3a.endpoint"] == "https://store:9000"
    assert "hunter" not in str(public)
    secrets = {name for name, value in hidden.items() if "hunter" in value}
    assert secrets == {"spark.hadoop.fs.s3a.secret.key", "spark.hadoop.fs.s3a.session.token"}
    with pytest.raises(SettingsError, match=r"Set both storage\.access_key and storage\.secret_key"):
        spark_properties(settings_of(storage=storage), tmp_path)


def test_checkpoints_on_hdfs_need_no_client_of_s3(tmp_path, monkeypatch):
    monkeypatch.setattr("streaming.base.jars.ensure", lambda conf, _: [Path(f"/jars/{conf}.jar")])
    settings = settings_of(storage={"checkpoints": "hdfs://node:8020/here"})
    found, hidden = spark_properties(settings, tmp_path)
    assert found["spark.jars"] == f"file:///jars/spark.jar,{jar_of_ours(settings).as_uri()}"
    assert not [name for name in (*found, *hidden) if "s3a" in name]
