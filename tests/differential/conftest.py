"""The real RocketMQ classes in this process: one JVM for every comparison."""

from collections.abc import Iterator

import jpype
import pytest

from tests.differential.jvm import start


@pytest.fixture(scope="session")
def jvm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Start a JVM with RocketMQ's jars: then `jpype.JClass` finds their classes. Files go to a folder of the run."""
    start(tmp_path_factory.mktemp("jvm"))
    yield
    jpype.shutdownJVM()
