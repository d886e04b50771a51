"""Configuration of all tests."""

import gc
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, ExitStack
from functools import cache
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import httpx
import pytest
import structlog
import typer.testing
from hypothesis import settings

from streaming.base.settings import Settings, load_settings
from tests.instruments.proofs import ProofKeeper
from tests.support import costs, kafka_start, rocketmq_start, spark_start

# The short form is the same at every run, so a red one can be looked at again; the long form looks for what is new.
settings.register_profile("short", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("prove", max_examples=10_000, deadline=None, print_blob=True)


class DemoRun(NamedTuple):
    """A demo that has ended."""

    ran: subprocess.CompletedProcess[str]
    root: Path
    """The runtime root of its job."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of plugins of our own."""
    costs.add_option(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Choose the form, and forget the settings, the terminal's width and the time zone of whoever runs the tests."""
    short = config.option.markexpr != "prove"
    settings.load_profile("short" if short else "prove")
    for name in _settings_in_environment():
        del os.environ[name]
    os.environ.pop("COLUMNS", None)  # pytest-xdist gives it to its workers
    os.environ["TZ"] = "UTC"
    time.tzset()
    # Where this is set, each process that a test starts compiles all that it imports: half of its processor time.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    # In a worker of pytest-xdist the main module has no file; pyspark takes that for a doctest and ends the process.
    sys.modules["__main__"].__dict__.setdefault("__file__", pytest.__file__)
    # What a shell runs in the background ignores SIGINT, and so does what that starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # The runner makes the whole tree of commands for each one that it runs: 20 ms.
    typer.testing._get_command = cache(typer.testing._get_command)
    # Each client of HTTP reads all certificate authorities: 25 ms.
    httpx._transports.default.create_ssl_context = _context_of
    os.environ.setdefault("JDK_JAVA_OPTIONS", rocketmq_start.java_options())
    kafka_start.use_archive()
    if short:  # in the long form Spark compiles its queries, as in production
        os.environ.setdefault("PYSPARK_SUBMIT_ARGS", spark_start.with_archive())
    elif not hasattr(config, "workerinput"):
        config.pluginmanager.register(ProofKeeper())
    costs.register(config)


def _context_of(verify: object = True, cert: object = None, trust_env: bool = True) -> object:
    return _tls_context(verify, cert, trust_env, *map(os.environ.get, ("SSL_CERT_FILE", "SSL_CERT_DIR")))


@cache
def _tls_context(verify: object, cert: object, trust_env: bool, *_: str | None) -> object:
    """Make it once for each setting and each value of the variables that it reads."""
    return httpx.create_ssl_context(verify, cert, trust_env)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Keep tests that share something dear to start in one process, and the tests of a file, which share what they
    make and fold; later would be after pytest-xdist looked.
    """
    long = item.config.option.markexpr == "prove"
    if group := _group(item):
        item.add_marker(pytest.mark.xdist_group(group))
    elif item.get_closest_marker("xdist_group") is None:
        path = item.nodeid.partition("::")[0]
        # In the long form the cases of a test take hours, and what they share seconds.
        turn = f" {crc32(item.nodeid.encode()) % 4}" if long and hasattr(item, "callspec") else ""
        item.add_marker(pytest.mark.xdist_group(path + turn))
    if long:  # a timeout is that of the short form
        item.add_marker(pytest.mark.timeout(0), append=False)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes long; groups with servers, which mostly wait, and with jobs, which compute, take turns."""
    seconds_max: dict[str, float] = {}
    for item in items:
        given = item.get_closest_marker("timeout")
        seconds_max[_group(item)] = max(seconds_max.get(_group(item), 0), given.args[0] if given else 0)
    ranks, places = {"lab": 0, "session": 0, "browser": 0, "live": 1, "spark": 1, "jvm": 3, "asked": 3, "": 4}, {}
    for kind, rank in ranks.items():
        groups = [group for group in seconds_max if group.partition(" ")[0] == kind]
        groups.sort(key=seconds_max.__getitem__, reverse=True)  # a test that takes long has a timeout of its own
        places |= {group: (rank, turn, group) for turn, group in enumerate(groups)}
    items.sort(key=lambda item: places[_group(item)])


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Never look for garbage among the thousands of collected tests and what they import: nothing of it is freed."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


_GROUP = pytest.StashKey[str]()


def _group(item: pytest.Item) -> str:
    """Return the group of a test, found once: it is asked for five times."""
    if (found := item.stash.get(_GROUP, None)) is None:
        found = item.stash[_GROUP] = _group_of(item)
    return found


def _group_of(item: pytest.Item) -> str:
    """The lab that most live tests share; the object store; Spark's session, because another one starts for 20 s and is
    slow at first; a file's servers, jobs, compiler; the browser; the tables that are asked; the JVM with real classes.
    """
    fixtures = getattr(item, "fixturenames", ())
    if item.get_closest_marker("live"):
        shares_lab = "lab" in fixtures and not hasattr(getattr(item, "module", None), "lab")
        folder = item.path.parent.name  # one below `live` has a lab of its own
        return f"live {item.path.stem}" if not shares_lab else "lab" if folder == "live" else f"live {folder}"
    if "object_store" in fixtures:
        return "spark object store"
    if "spark" in fixtures:
        return "session"
    if item.get_closest_marker("spark") or item.get_closest_marker("compiled"):
        return "spark demo" if "demo_run" in fixtures else f"spark {item.path.stem}"
    if "browser" in fixtures:  # in two processes, each with the server of its pages
        return "browser pages" if item.path.parent.name in {"pages", "charts", "timeline"} else "browser"
    return "asked" if "asked" in fixtures else ("jvm" if "differential" in item.path.parts else "")


class UntilGroupEnds(ExitStack):
    """Fixtures that the tests of a group share, until the last of them has ended."""

    def __init__(self) -> None:
        super().__init__()
        self._made: dict[str, object] = {}

    def once(self, name: str, make: Callable[[], AbstractContextManager[object]]) -> object:
        """Return what the first test of the group that asks for the name has entered."""
        if name not in self._made:
            self.callback(self._made.pop, name, None)
            self._made[name] = self.enter_context(make())
        return self._made[name]


_UNTIL_GROUP_ENDS = pytest.StashKey[UntilGroupEnds]()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """End what the group of a test has shared, if that was its last test: no other test uses it."""
    if nextitem is None or _group(nextitem) != _group(item):
        item.config.stash.setdefault(_UNTIL_GROUP_ENDS, UntilGroupEnds()).close()


@pytest.fixture(scope="session")
def until_group_ends(pytestconfig: pytest.Config) -> UntilGroupEnds:
    """For fixtures of a group: what is entered here ends after the group's last test in this process.

    Until the end of all tests a lab, though nobody asks it, would take a quarter of a core.
    """
    return pytestconfig.stash.setdefault(_UNTIL_GROUP_ENDS, UntilGroupEnds())


@pytest.fixture(autouse=True)
def _no_settings_are_left() -> Iterator[None]:
    """Restore the settings in the environment: `--root` of a command that a test runs in this process is one."""
    before = _settings_in_environment()
    yield
    for name in _settings_in_environment():
        del os.environ[name]
    os.environ.update(before)


@pytest.fixture(autouse=True)
def _lines_are_as_before() -> Iterator[None]:
    """Print lines as at the start: a command that a test runs in this process configures them."""
    handlers = list(logging.getLogger().handlers)
    yield
    structlog.reset_defaults()
    logging.getLogger().handlers = handlers


def _settings_in_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith("REBALANCE_WATCH_")}


@pytest.fixture(scope="session")
def settings_in() -> Callable[..., Settings]:
    """Settings over a file log, whose runtime root is the given folder, with the jars that are there already."""
    return _settings_in


def _settings_in(root: Path, **source: object) -> Settings:
    root.mkdir(parents=True, exist_ok=True)
    jars = load_settings().runtime.jars
    jars.mkdir(parents=True, exist_ok=True)
    if not (root / "jars").exists():
        (root / "jars").symlink_to(jars)
    return load_settings(runtime={"root": root}, source={"kind": "files"} | source)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    """The Spark session of this process, which a job in a test, too, finds and takes."""
    from streaming.pipeline.session import spark_session  # noqa: PLC0415  Spark takes seconds to import

    session = spark_session(_settings_in(tmp_path_factory.mktemp("spark")), "tests")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def demo_run(tmp_path_factory: pytest.TempPathFactory) -> DemoRun:
    """`rebalance-watch demo` as a user runs it, Spark included, once for all tests of its output and its tables."""
    root = tmp_path_factory.mktemp("demo")
    command = [sys.executable, "-m", "streaming.cli", "--root", str(root), "demo"]
    environment = os.environ | {"REBALANCE_WATCH_RUNTIME__JARS": str(load_settings().runtime.jars), "COLUMNS": "200"}
    environment["PYSPARK_SUBMIT_ARGS"] = spark_start.with_archive(compiled=True)  # as a user's Spark does
    ran = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, umask=0o022)
    return DemoRun(ran, root / "demo")


@pytest.fixture(scope="session")
def object_store(tmp_path_factory: pytest.TempPathFactory, until_group_ends: ExitStack) -> object:
    """A real server of the S3 protocol, for all tests that need one; each writes below an address of its own."""
    from tests.support.object_store import ObjectStore  # noqa: PLC0415  the others need none of it

    return until_group_ends.enter_context(ObjectStore(tmp_path_factory.mktemp("object_store")))


@pytest.fixture(scope="session")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables to ask, never written to again; see `tests.support.asked`."""
    from tests.support.asked import everything, write  # noqa: PLC0415  folds a log

    tables = tmp_path_factory.mktemp("asked") / "tables"
    write(tables, everything())
    return tables


@pytest.fixture(scope="session")
def asked_model(asked: Path) -> Iterator[object]:
    """These tables, opened once for all tests that ask them in this process."""
    from tests.support.asked import Asked  # noqa: PLC0415  folds a log

    with Asked(asked) as opened:
        yield opened
