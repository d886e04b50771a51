"""Measure the processor time of each test: a plugin of pytest, for ``--costs FILE``, with or without pytest-xdist.

A test costs what its own process and all that it has started compute, also a server that runs on after its parent has
ended. `costs.toml` has the budget of each folder and names the tests that may be dear. A run that costs more says so;
it fails with ``--hold-costs``, for an idle machine: elsewhere the same test was seen to cost ten times as much.
"""

import os
import resource
import time
import tomllib
from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import NamedTuple

import pytest

BUDGETS = Path(__file__).with_suffix(".toml")
DEAR_SECONDS = 10
"""A test that costs more is named in `costs.toml`, with what it proves."""
NOISE = 2.0
"""How much more the same test may cost beside other work: two processes share the caches of a core."""
_STARTED_BY = "REBALANCE_TESTS_STARTED_BY"
"""The environment of what this process starts says so: a daemon has another parent by then."""
_QUICK_SECONDS = 0.05
"""What ends sooner is not worth a look at all processes of the machine; the next look finds what it left."""
_TICKS = os.sysconf("SC_CLK_TCK")


class Cost(NamedTuple):
    """Processor seconds of this process, and of all that it has started; seconds by the clock."""

    own: float = 0.0
    started: float = 0.0
    wall: float = 0.0

    def plus(self, other: "Cost") -> "Cost":
        return Cost(*(mine + its for mine, its in zip(self, other, strict=True)))

    def since(self, former: "Cost") -> "Cost":
        return Cost(*(max(0.0, now - then) for now, then in zip(self, former, strict=True)))

    def or_more(self, other: "Cost") -> "Cost":
        """Return the larger of each: a look that just missed a process, as it ended, does not charge it twice."""
        return Cost(*map(max, self, other))

    @property
    def total(self) -> float:
        return self.own + self.started


class Meter:
    """Reads what this process and all that it has started have computed since it began."""

    def __init__(self) -> None:
        os.environ[_STARTED_BY] = str(os.getpid())
        self._daemons: dict[tuple[int, int], float] = {}
        """Processor seconds of each process that has lost its parent, also after its end; by id and start."""
        self._strangers: set[tuple[int, int]] = set()
        self._waited = 0.0
        """Processor seconds of the children that have ended, as of the last look."""

    def read(self) -> Cost:
        """Return the sum so far; what a killed process leaves unread since the last look is missing."""
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        waited = usage.ru_utime + usage.ru_stime
        is_alone = waited == self._waited and not self._daemons and not _has_children()
        living = 0.0 if is_alone else self._living()
        self._waited = waited
        return Cost(time.process_time(), waited + living, time.monotonic())

    def _living(self) -> float:
        processes = dict(_processes())
        children = defaultdict(list)
        for pid, process in processes.items():
            children[process.parent].append(pid)
        family, seconds = [os.getpid()], 0.0
        for pid in family:
            family += children[pid]
            seconds += processes[pid].seconds if pid in processes and pid != os.getpid() else 0.0
        for pid in processes.keys() - set(family):
            process = processes[pid]
            if self._is_daemon(pid, process.start):
                self._daemons[pid, process.start] = process.seconds
        return seconds + sum(self._daemons.values())

    def _is_daemon(self, pid: int, start: int) -> bool:
        if (pid, start) in self._daemons or (pid, start) in self._strangers:
            return (pid, start) in self._daemons
        with suppress(OSError):
            if f"{_STARTED_BY}={os.getpid()}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                return True
        self._strangers.add((pid, start))
        return False


def _has_children() -> bool:
    with suppress(ChildProcessError):
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        return True
    return False


class _Process(NamedTuple):
    parent: int
    start: int
    seconds: float
    """Of it and of its children that have ended."""


def _processes() -> Iterator[tuple[int, _Process]]:
    """Read all processes of the machine, without pathlib, which takes four times as long: this is done at each test."""
    for name in os.listdir("/proc"):  # noqa: PTH208  as above
        if name.isdigit():
            with suppress(OSError), open(f"/proc/{name}/stat", "rb", buffering=0) as file:  # noqa: PTH123  as above
                fields = file.read(4096).rpartition(b")")[2].split(maxsplit=20)
                yield int(name), _Process(int(fields[1]), int(fields[19]), sum(map(int, fields[11:15])) / _TICKS)


class Measuring:
    """In each process that runs tests: adds the cost of a test to the report of its end."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._meter = Meter()
        self._last = Cost(wall=time.monotonic())

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self) -> None:
        """Tell the controller what imports and collection cost."""
        cost = self._spent()
        getattr(self._config, "workeroutput", self._config.stash.setdefault(_OUTPUT, {}))["collected"] = tuple(cost)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self) -> None:
        """Look before daemons are ended: afterwards nothing says what they computed."""
        if time.monotonic() - self._last.wall > _QUICK_SECONDS:
            self._meter.read()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if call.when == "teardown":
            group = item.get_closest_marker("xdist_group")
            report.cost = (group.args[0] if group else "", *self._spent())
        return report

    def _spent(self) -> Cost:
        if time.monotonic() - self._last.wall > _QUICK_SECONDS:
            now = self._meter.read()
        else:
            now = Cost(time.process_time(), self._last.started, time.monotonic())
        spent, self._last = now.since(self._last), now.or_more(self._last)
        return spent


_OUTPUT = pytest.StashKey[dict[str, object]]()
_COLLECTION = "(imports and collection)"


class Costs:
    """In the process that reports: prints the dearest groups, writes all to a file, and compares with the budgets."""

    def __init__(self, config: pytest.Config, file: Path, budgets: Path = BUDGETS) -> None:
        self._config = config
        self._file = file
        self._budgets = tomllib.loads(budgets.read_text("utf-8"))
        self.tests: dict[str, tuple[str, Cost]] = {}
        """The group and the cost of each test."""
        self._collected = Cost()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if cost := getattr(report, "cost", None):
            group, *figures = cost
            self.tests[report.nodeid.removesuffix(f"@{group}")] = group, Cost(*figures)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object) -> None:
        """Add what a process of pytest-xdist took before its first test."""
        self._collected = self._collected.plus(Cost(*getattr(node, "workeroutput", {}).get("collected", ())))

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self._collected = self._collected.plus(Cost(*self._config.stash.get(_OUTPUT, {}).get("collected", ())))
        if self._config.getoption("--hold-costs") and self.over() and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        groups = self._sums(lambda test: self.tests[test][0] or _file(test))
        total = _sum([cost for _, cost in self.tests.values()] + [self._collected])
        self._write(total, groups)
        terminalreporter.section(f"{total.total:,.0f} processor seconds; the dearest of {len(groups)} groups")
        for name, cost in _dearest(groups)[:10]:
            terminalreporter.write_line(f"{cost.total:7.1f} {name}")
        terminalreporter.write_line(f"All of them are in {self._file}.")
        for excess in self.over():
            terminalreporter.write_line(excess, red=True)

    def over(self) -> list[str]:
        """Return a sentence for each folder and each test that costs too much.

        A slow machine takes longer for everything: the limits grow with what the folder in the middle takes more.
        """
        budgets, dear = self._budgets["folders"], self._budgets["dear"]
        folders = self._sums(lambda test: folder_of(test, budgets))
        ratios = [cost.total / budgets[name] for name, cost in folders.items() if name in budgets]
        slower = NOISE * max(1.0, median(ratios)) if ratios else NOISE
        return [
            f"tests/{name} costs {cost.total:.0f} processor seconds; {BUDGETS.name} allows {budgets.get(name, 0)}"
            for name, cost in _dearest(folders)
            if cost.total > slower * budgets.get(name, 0)
        ] + [
            f"{test} costs {cost.total:.0f} processor seconds, {cost.started:.0f} of them in what it started: "
            f"make it cheaper, or name it in {BUDGETS.name}"
            for test, (_, cost) in self.tests.items()
            if cost.total > slower * DEAR_SECONDS and test.partition("[")[0] not in dear
        ]

    def _sums(self, key) -> dict[str, Cost]:
        sums: dict[str, list[Cost]] = defaultdict(list)
        for test, (_, cost) in self.tests.items():
            sums[key(test)].append(cost)
        return {name: _sum(costs) for name, costs in sums.items()}

    def _write(self, total: Cost, groups: dict[str, Cost]) -> None:
        each = {test: cost for test, (_, cost) in self.tests.items()}
        parts = {
            "folder": self._sums(lambda test: folder_of(test, self._budgets["folders"])),
            "group": groups | {_COLLECTION: self._collected},
            "file": self._sums(_file),
            "test": each,
        }
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with self._file.open("w", encoding="utf-8") as file:
            print("kind", "own", "started", "wall", "name", sep="\t", file=file)
            for kind, costs in ({"all": {"": total}} | parts).items():
                for name, cost in _dearest(costs):
                    print(kind, *(f"{figure:.2f}" for figure in cost), name, sep="\t", file=file)


def folder_of(test: str, budgets: Iterable[str]) -> str:
    """Return the innermost folder with a budget of its own that has a test; else that of the test's file."""
    path = _file(test).removeprefix("tests/")
    folder = path.rpartition("/")[0] or "."
    return max((name for name in budgets if f"{folder}/".startswith(f"{name}/")), key=len, default=folder)


def _file(test: str) -> str:
    return test.partition("::")[0]


def _sum(costs: list[Cost]) -> Cost:
    return Cost(*map(sum, zip(*costs, strict=True))) if costs else Cost()


def _dearest(costs: dict[str, Cost]) -> list[tuple[str, Cost]]:
    return sorted(costs.items(), key=lambda one: one[1].total, reverse=True)


def add_option(parser: pytest.Parser) -> None:
    """Add the option that asks for it."""
    parser.addoption("--costs", metavar="FILE", help="write the processor time of each test to FILE")
    parser.addoption("--hold-costs", action="store_true", help="fail if a folder or a test costs more than its budget")


def register(config: pytest.Config) -> None:
    """Measure, if this run is to."""
    if file := config.getoption("--costs"):
        if not config.getoption("numprocesses", None):
            config.pluginmanager.register(Measuring(config))
        if not hasattr(config, "workerinput"):
            config.pluginmanager.register(Costs(config, Path(file)))
