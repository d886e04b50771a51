"""A JVM with the hook, for the tests of the hook alone."""

import pytest

from tests.support import hooked
from tests.support.hook_process import HookJvm


@pytest.fixture(scope="module")
def jar():
    return hooked.shared_hook_jar()


@pytest.fixture(scope="module")
def new_jvm(jar, tmp_path_factory):
    """Return a function that starts a JVM; all are ended after the test."""
    started = []

    def start(**environment):
        started.append(HookJvm(jar, tmp_path_factory.mktemp("jvm") / "stderr", **environment))
        return started[-1]

    yield start
    for one in started:
        one.end()


@pytest.fixture(scope="module")
def jvm(new_jvm):
    """A JVM that most tests share: the hook of one test does not affect the next."""
    return new_jvm()
