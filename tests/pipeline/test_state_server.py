"""The sockets of Spark's JVM, which a job that runs for months must not collect."""

from zipfile import ZipFile

import pytest
from py4j.protocol import Py4JJavaError

from streaming.pipeline import jvm_jar
from tests.pipeline.test_job import run_operator, write_log
from tests.support.processes import left_open


@pytest.mark.spark
def test_no_connection_of_a_state_task_stays_open(spark, settings_in, tmp_path):
    jvm = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
    before = left_open(jvm)
    write_log(tmp_path / "log", groups=4, rounds=3)
    run_operator(spark, settings_in(tmp_path))
    assert left_open(jvm) <= before


def init(gateway, jar, entries):
    """Let the plugin in a jar of its own define the class, as at the start of a session."""
    with ZipFile(jar, "w") as file:
        for name, content in entries.items():
            file.writestr(name, content)
    java = gateway.jvm.java
    urls = gateway.new_array(java.net.URL, 1)
    urls[0] = java.net.URL(jar.as_uri())
    loader = java.net.URLClassLoader(urls, java.lang.ClassLoader.getSystemClassLoader())
    plugin = loader.loadClass(jvm_jar.PLUGIN)
    made = plugin.getDeclaredConstructor(gateway.new_array(java.lang.Class, 0))
    method = next(one for one in plugin.getMethods() if one.getName() == "init")  # py4j knows one class of a name
    method.invoke(made.newInstance(gateway.new_array(java.lang.Object, 0)), gateway.new_array(java.lang.Object, 2))


@pytest.mark.spark
@pytest.mark.skipif(not jvm_jar.NEEDED, reason="Spark closes its connections itself")
def test_a_wrong_class_ends_the_start_one_of_a_former_session_does_not(spark, tmp_path):
    gateway = spark.sparkContext._gateway
    entries = jvm_jar.entries(gateway)
    init(gateway, tmp_path / "again.jar", entries)
    with pytest.raises(Py4JJavaError, match=r"java\.lang\.ClassFormatError"):
        init(gateway, tmp_path / "wrong.jar", entries | {jvm_jar._CLOSING: b"no class"})
