"""The program's answers agree with an evaluation of the raw telemetry that shares no code with the program."""

import ast
import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import msgspec
import pytest

from streaming.lab.demo import CAPTURE
from tests.audit import __main__ as command
from tests.audit.answers import Api, progress, serving
from tests.audit.compare import compare, compare_states
from tests.audit.costs import hand_overs
from tests.audit.differences import Difference
from tests.audit.job import run_loop
from tests.audit.mutants import served_here
from tests.audit.owners import owners
from tests.audit.reading import read_all
from tests.audit.telemetry import read
from tests.support import pop_recording
from tests.support.recordings import unpacked
from tests.support.simulated import simulate, small

OURS = ("rebalance_model", "streaming", "schemas", "checkpoints")
IMPORTS_THE_PROGRAM = ("test_audit.py", "test_mutants.py", "job.py", "mutants.py")

ROWS = {"queue shown", "row's cause exists", "row before its evidence", "row after its evidence"}
QUANTITIES = {"lag", "waiting time", "stale lag", "stale waiting time"}
OF_HOOK = {"lag of a former commit", *(f"hook row: {name}" for name in (
    "newest", "commit", "pull", "lag", "at_least", "commit_at", "pull_at", "lock_at"))}  # fmt: skip
COSTS = {"move", "queues moved", "pause", "read again"}
RIGHT = {
    "hook": {*ROWS, *COSTS, *OF_HOOK, "owner", "lock age", "lag by hook alone", "stale lag"},
    "poll": {*ROWS, *QUANTITIES, "owner by polls", "move by polls"},
    "hook,poll": {*ROWS, *QUANTITIES, *COSTS, *OF_HOOK, "lower bound in place of a lag", "owner", "lock age",
                  "hand-over in a rebalance", "converged", "pause, several hand-overs"},
}  # fmt: skip
"""The kinds of comparisons for each telemetry; `python -m tests.audit` prints all kinds."""
BOUNDS = {"lower bound in place of a lag", "lag of a former commit"}
POPPED = {"popped lag", "popped in flight", "popped in flight since", "popped row"}
"""Of queues that are popped, by hooks or by clients' answers."""
SHORT_PAIRS = 40
"""A request costs 0.3 s of processor time; `test_answers_at_thousands_of_pairs_are_right` is the long form."""
BROKER_PAIRS = {"hook,poll": 50, "hook": 100}
ONE_LOOP = pytest.mark.xdist_group("audit")
"""One process makes the tables of each telemetry for all tests."""
BROKER_FAULTS = Path(__file__).with_name("broker_faults.jsonl.gz")
"""A recording of the lab of 2026-11-22: its broker restarted, killed, and frozen for 90 s (`faults.run brokers`).

After the freeze the broker processes the calls of dozens of dead connections within 0.2 s.
"""


@pytest.fixture(scope="module")
def loop_root(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Make the tables of the demo's capture by the core in a plain loop, once for each telemetry."""

    @cache
    def root_of(sources: str) -> Path:
        root = tmp_path_factory.mktemp("audit")
        run_loop(CAPTURE, root, sources.split(","))
        return root

    return root_of


@pytest.fixture(scope="module")
def demo_api(demo_run) -> Iterator[Api]:
    """Serve the tables that the demo's job has made of the capture."""
    with serving(demo_run.root) as api:
        yield api


def differences(api: Api, sources: str, pairs: int, seed: int, recording: Path = CAPTURE) -> list[Difference]:
    result = compare(read_all(read(recording), sources.split(",")), api, pairs, seed)
    assert RIGHT[sources] <= result.compared.keys()
    return [one for one in result.differences if one.kind in RIGHT[sources]]


@pytest.mark.spark
@pytest.mark.timeout(900)
@pytest.mark.parametrize("pairs", [SHORT_PAIRS, pytest.param(4_000, marks=pytest.mark.prove)])
def test_answers_are_what_the_raw_telemetry_says(demo_api, pairs):
    assert differences(demo_api, "hook,poll", pairs, 1) == []


WAYS = ("REST", "CLI", "SQL")
OF_RULES = {
    *((code, part) for part in ("begin", "end") for code in (
        "LOCK_EXPIRED", "LOCK_ORPHANED", "PULL_EXPIRED", "ORDERED_QUEUE_STUCK", "CLIENT_UNRESPONSIVE",
        "BROKER_UNREACHABLE", "STALE_HEARTBEAT", "TELEMETRY_GAP")),
    ("OFFSET_REGRESSION", "begin"), ("BROKER_LOCKS_LOST", "begin"),
}  # fmt: skip
STATES = {
    *(f"{kind} by {way}" for kind in ("queue shown", "owner", "members", *QUANTITIES, *BOUNDS) for way in WAYS),
    *(f"lock age by {way}" for way in ("REST", "CLI")),
    *(f"incident's {part} by {way} and SQL" for part in ("begin", "end") for way in ("REST", "CLI")),
    *(f"{code}'s {part} by raw events" for code, part in OF_RULES),
}
"""The other kinds of incidents are compared between the three ways."""


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_each_way_to_ask_says_what_the_raw_telemetry_says(demo_api):
    result = compare_states(read_all(read(CAPTURE), ["hook", "poll"]), demo_api, 2, 4)  # instants with each kind
    assert (result.compared.keys(), result.differences) == (STATES, [])


@pytest.mark.prove
@pytest.mark.timeout(1_800)
@ONE_LOOP
def test_each_way_to_ask_is_right_at_a_hundred_instants(loop_root, record_property):
    with served_here(loop_root("hook,poll")) as api:
        result = compare_states(read_all(read(CAPTURE), ["hook", "poll"]), api, 100, 1)
    assert (result.compared.keys(), result.differences) == (STATES, [])
    compared = sum(result.compared.values())
    assert compared >= 2_000
    record_property("comparisons, differences", f"{compared:,}, 0")


@ONE_LOOP
@pytest.mark.parametrize("sources", ["hook", "poll"])
def test_answers_by_one_kind_of_source_are_right(loop_root, sources):
    with served_here(loop_root(sources)) as api:
        assert differences(api, sources, SHORT_PAIRS // 2, 1) == []


@pytest.mark.parametrize("sources", ["hook,poll", pytest.param("hook", marks=pytest.mark.prove)])
def test_answers_are_right_while_a_broker_restarts_dies_and_stands(sources, tmp_path):
    run_loop(BROKER_FAULTS, tmp_path, sources.split(","))
    with served_here(tmp_path) as api:
        assert differences(api, sources, BROKER_PAIRS[sources], 1, BROKER_FAULTS) == []


def test_the_lag_by_a_hook_that_reports_the_newest_offset_is_right(tmp_path):
    """Simulated, because the hook of the recordings was older; a year back, because no event is of the future."""
    kill, brokers = {"at": 100, "do": "kill", "who": "c-2", "lasts": 60}, [{"name": "b", "async_send_enable": False}]
    simulated = simulate(small(kill, minutes=11, brokers=brokers)).events
    calls = [msgspec.json.encode(event) for event in simulated if event.source_id.startswith("hook")]
    lines = b"\n".join(calls).replace(b'"source":"sim"', b'"source":"hook"')
    recording = tmp_path / "simulated.jsonl"
    recording.write_bytes(re.sub(rb"\b18\d{11}\b", lambda time: b"%d" % (int(time[0]) - 31_536_000_000), lines))
    run_loop(recording, tmp_path, ["hook"])
    with served_here(tmp_path) as api:
        result = compare(read_all(read(recording), ["hook"]), api, SHORT_PAIRS, 1)
    assert result.differences == []
    assert OF_HOOK | {"lag by hook alone"} <= result.compared.keys()
    assert any(not row.at_least and row.lag is not None for row in progress(tmp_path))


@pytest.fixture(scope="module")
def popping(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of consumers that pop, with faults (`tests.support.pop_recording`)."""
    folder = tmp_path_factory.mktemp("pop")
    recording = folder / "recording.jsonl"
    events = pop_recording.events_of(unpacked(pop_recording.FOLDER / "pop.tar.xz", folder))
    mine = (event for event in events if event.BROADCAST or event.group.startswith(("pop-", "grpc-")))
    recording.write_bytes(b"".join(msgspec.json.encode(event) + b"\n" for event in mine))
    return recording


@pytest.mark.xdist_group("pop recording")
@pytest.mark.parametrize("pairs", [24, pytest.param(3_000, marks=pytest.mark.prove)])
@pytest.mark.parametrize(
    "sources", ["hook,poll", *(pytest.param(one, marks=pytest.mark.prove) for one in ("poll", "hook"))]
)
def test_what_is_in_flight_of_popped_queues_is_what_the_raw_calls_say(popping, sources, pairs, tmp_path):
    run_loop(popping, tmp_path, sources.split(","))
    with served_here(tmp_path) as api:
        result = compare(read_all(read(popping), sources.split(",")), api, pairs, 1)
    least = pairs // 3 if "hook" in sources else 1  # polls alone show of one group that it pops
    assert all(result.compared[kind] >= least for kind in POPPED)
    assert result.compared["popped row"] > (2_000 if "hook" in sources else 200)
    kinds = POPPED | ROWS - {"queue shown"} | {"popped lag of the last answer"}  # a hook alone shows few of the queues
    assert [one for one in result.differences if one.kind in kinds] == []


@pytest.mark.prove
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("sources", RIGHT)
def test_answers_at_thousands_of_pairs_are_right(loop_root, sources, seed, record_property):
    with served_here(loop_root(sources)) as api:
        assert differences(api, sources, 4_000, seed) == []
    record_property("pairs, differences", "4,000, 0")


def test_a_thaw_costs_what_the_raw_calls_say():
    calls = [event for event in read(CAPTURE) if event.source == "hook"]
    [group] = [group for (_, name), group in owners(calls).items() if name == "orders-group"]
    thawed = [one for one in hand_overs(group) if (one.former[-8:], one.new_owner[-8:]) == ("orders-2", "orders-3")]
    frozen = [one for one in thawed if (one.pause_ms or 0) > 15_000 and one.queue[2] in (4, 5)][:2]
    assert [one.pause_ms for one in frozen] == [18_861, 18_862]
    assert [one.read_again(one.taken) for one in frozen] == [(131, 131), (116, 116)]


def test_the_audit_shares_no_code_with_the_program():
    files = [path for path in Path(__file__).parent.glob("*.py") if path.name not in IMPORTS_THE_PROGRAM]
    assert len(files) > 5
    assert not {(path.name, name) for path in files for name in imported(path) if name.partition(".")[0] in OURS}


def imported(path: Path) -> set[str]:
    """Return every module that a file imports."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return names | {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}


@ONE_LOOP
def test_the_command_names_differences_and_exits_1(loop_root, monkeypatch, capsys, tmp_path):
    """Tables that differ from the telemetry are detected."""
    root, altered = loop_root("hook"), tmp_path / "altered.jsonl"
    altered.write_text((root / "hook.jsonl").read_text().replace("@orders-1", "@orders-9"))
    argv = ["audit", str(altered), "--root", str(root), "--pairs", "20", "--sources", "hook"]
    monkeypatch.setattr(sys, "argv", argv)
    assert command.main() == 1
    assert "answered 127.0.0.1@orders-1, raw 127.0.0.1@orders-9" in capsys.readouterr().out
