"""Starts of the lab's servers."""

from streaming.lab import servers
from streaming.lab.processes import JVM_FRUGAL


def test_kafka_gets_the_options_that_its_own_scripts_would_read(tmp_path, monkeypatch):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "meta.properties").touch()  # its storage is formatted
    monkeypatch.setenv("KAFKA_OPTS", "-Da='b c' -Xmx512m")

    command = list(map(str, servers.kafka_command([tmp_path / "a.jar"], tmp_path, 1, 2)))

    at = command.index("-Da=b c")
    assert command[at + 1] == "-Xmx512m"
    assert command.index(JVM_FRUGAL[-1]) < at < command.index("-cp")  # the last of two that contradict holds
