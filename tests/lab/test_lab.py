"""The lab's own rules, on processes that only sleep: whom it ends, on whom it puts a fault, what it refuses."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from streaming.base.errors import UserError
from streaming.base.java import java_executable
from streaming.base.settings import load_settings
from streaming.cli.main import app
from streaming.lab import fault_actions, processes, servers
from streaming.lab.behaviour import ListenerBehaviour
from streaming.lab.control import ClientReport, ConsumerOrders, LabQueue, OrdersFile, read_orders, reports, write_orders
from streaming.lab.faults import CURES, FAULTS
from streaming.lab.lab import Lab
from streaming.lab.processes import ProcessId
from streaming.lab.state import FaultRecord, LabFolder, LabProcess, LabState
from tests.support.waiting import until

SLEEP = shutil.which("sleep")
BROKERS = {"broker-a": 2, "broker-b": 3}


@pytest.fixture
def sleeper(tmp_path):
    """Starts processes that only sleep; none outlives the test."""
    started = []

    def start(name="sleeper"):
        started.append(processes.spawn([SLEEP, "300"], tmp_path / f"{name}.log"))
        return started[-1]

    yield start
    for process in started:
        processes.end(process)


@pytest.fixture
def settings(tmp_path):
    return load_settings(runtime={"root": tmp_path})


@pytest.fixture
def lab(settings, sleeper):
    """A lab whose processes are sleepers: everything but RocketMQ is as it would be."""
    names = {
        "namesrv": "",
        **dict.fromkeys(BROKERS, ""),
        "orders-1": "orders-group",
        "orders-2": "orders-group",
        "audit-1": "audit-group",
    }
    members = {
        name: LabProcess(name, "consumer", sleeper(name), group, f"127.0.0.1@{name}")
        if group
        else LabProcess(name, "broker" if name in BROKERS else "name server", sleeper(name))
        for name, group in names.items()
    }
    home = LabFolder(settings.runtime.lab)
    home.folder.mkdir()
    home.save(LabState(name_server_port=1, brokers=BROKERS, topics={"Orders": 8}, members=members))
    return Lab(settings)


def _states(lab):
    return {member.name: member.state for member in lab.status()}


ENDS_SLOWLY = """
class EndsSlowly {
    public static void main(String[] arguments) throws Exception {
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            try { Thread.sleep(1_500); } catch (InterruptedException e) { throw new RuntimeException(e); }
        }));
        System.out.println("started");
        Thread.sleep(60_000);
    }
}
"""
"""A server that takes its time to end, as a proxy does with its connections."""


def test_up_waits_for_a_server_that_is_ending(lab, tmp_path):
    """Its process still exists: `lab up` took it for one that runs, and said "9 of 9 processes are running"."""
    source, log = tmp_path / "EndsSlowly.java", tmp_path / "proxy.log"
    source.write_text(ENDS_SLOWLY)
    process = processes.spawn([java_executable(), "-Xint", "-XX:+UseSerialGC", source], log)
    try:
        processes.wait_until(lambda: "started" in log.read_text() or None, process, log, 60)
        lab._cluster.state.members["proxy"] = LabProcess("proxy", "proxy", process)
        assert not processes.is_ending(process)
        assert lab._cluster.await_ends() == []
        processes.send(process, signal.SIGTERM)
        _until(lambda: processes.is_ending(process))
        assert lab._cluster.runs("proxy")
        assert lab._cluster.await_ends() == ["proxy"]
        assert not lab._cluster.runs("proxy")  # so that it is started again
        assert not processes.is_ending(process)
    finally:
        processes.end(process)


def test_a_process_is_running_frozen_and_down(sleeper):
    process = sleeper()
    assert processes.state(process) == "running"
    processes.send(process, signal.SIGSTOP)
    _until(lambda: processes.state(process) == "frozen")
    processes.end(process, grace_seconds=0.2)  # SIGTERM does not reach it, SIGKILL does
    assert processes.state(process) == "down"
    assert not Path(f"/proc/{process.pid}").exists()


def test_the_timers_of_what_is_started_may_be_late_and_ours_may_not(sleeper):
    def slack_ns(pid):
        return int(Path(f"/proc/{pid}/timerslack_ns").read_text())

    before = slack_ns(os.getpid())
    assert slack_ns(sleeper().pid) == 20_000_000
    assert slack_ns(os.getpid()) == before != 20_000_000


def test_a_stranger_with_a_remembered_pid_is_left_alone(sleeper):
    stranger = sleeper()
    remembered = ProcessId(stranger.pid, "another boot:1")
    assert processes.state(remembered) == "down"
    assert not processes.send(remembered, signal.SIGKILL)
    processes.end(remembered)
    assert processes.state(stranger) == "running"


def test_a_thread_with_a_remembered_pid_is_left_alone():
    numbers, waits = [], threading.Event()
    thread = threading.Thread(target=lambda: (numbers.append(threading.get_native_id()), waits.wait()))
    thread.start()
    until(lambda: numbers, 10)
    remembered = ProcessId(numbers[0], "an earlier start")
    try:
        assert not processes.send(remembered, signal.SIGTERM)
        processes.end(remembered)
        assert thread.is_alive()
    finally:
        waits.set()
        thread.join()


def test_no_port_is_given_twice_by_this_process_or_another(monkeypatch):
    few = range(20_000, 20_400)
    monkeypatch.setattr(servers, "_PORTS", few)
    draw = (
        f"from streaming.lab import servers; servers._PORTS = {few}; print(*(servers.free_port() for _ in range(60)))"
    )
    ours = [servers.free_port() for _ in range(60)]
    theirs = subprocess.run([sys.executable, "-c", draw], capture_output=True, text=True, check=True).stdout.split()
    assert len({*ours, *map(int, theirs)}) == 120


def test_what_ends_at_its_start_is_said_at_once_with_its_log(tmp_path):
    log = tmp_path / "broker.log"
    process = processes.spawn([shutil.which("false")], log)
    with pytest.raises(UserError, match=r"broker ended during its start: .*broker\.log contains the reason"):
        processes.wait_until(lambda: None, process, log, seconds=90)


def test_a_program_that_is_not_there_is_a_sentence(tmp_path):
    with pytest.raises(UserError, match="can't be started"):
        processes.spawn([tmp_path / "nothing"], tmp_path / "log")


def test_down_ends_all_even_frozen_ones_but_no_stranger_and_is_idempotent(lab, settings, sleeper):
    lab.fault("freeze", client="orders-2")
    home, stranger = LabFolder(settings.runtime.lab), sleeper("stranger")
    state = home.load()
    state.members["broker-c"] = LabProcess("broker-c", "broker", ProcessId(stranger.pid, "another boot:1"))
    home.save(state)
    ours = [member.process for name, member in state.members.items() if name != "broker-c"]
    lab.down()
    lab.down()
    assert {processes.state(process) for process in ours} == {"down"}
    assert processes.state(stranger) == "running"
    assert Lab.find(settings) is None
    with pytest.raises(UserError, match="No lab is up"):
        lab.status()


def test_a_fault_takes_the_first_healthy_consumer_of_the_ordered_group(lab):
    assert [lab.fault("freeze").client, lab.fault("freeze").client] == ["orders-1", "orders-2"]
    with pytest.raises(UserError, match="No consumer of orders-group is healthy"):
        lab.fault("freeze")
    with pytest.raises(UserError, match="orders-1 already has a fault"):
        lab.fault("kill", client="orders-1")
    _until(lambda: {name for name, state in _states(lab).items() if state == "frozen"} == {"orders-1", "orders-2"})


def test_a_fault_of_a_broker_takes_the_last_that_runs_or_the_one_named(lab):
    killed = lab.fault("broker-kill")
    assert (killed.broker, killed.client, killed.group) == ("broker-b", "", "")
    assert killed.expect.startswith("broker-b is unreachable")
    with pytest.raises(UserError, match="broker-b is already down or frozen"):
        lab.fault("broker-restart", client="broker-b")
    assert lab.fault("broker-restart").broker == "broker-a"
    with pytest.raises(UserError, match="Every broker is already down or frozen"):
        lab.fault("broker-kill")
    assert {name for name, state in _states(lab).items() if state == "down"} == BROKERS.keys()
    assert {one.name: one.fault for one in lab.status() if one.fault} == {
        "broker-a": "broker-restart",
        "broker-b": "broker-kill",
    }


def test_a_frozen_broker_is_left_alone_until_it_goes_on(lab):
    assert lab.fault("broker-freeze").broker == "broker-b"
    _until(lambda: _states(lab)["broker-b"] == "frozen")
    with pytest.raises(UserError, match="broker-b is already down or frozen"):
        lab.fault("broker-kill", client="broker-b")
    assert lab.fault("broker-freeze").broker == "broker-a"
    lab.cure("broker-freeze", client="broker-b")
    _until(lambda: _states(lab)["broker-b"] == "running")


def test_a_cure_must_say_whom_if_there_are_several(lab):
    lab.fault("freeze")
    lab.fault("freeze")
    with pytest.raises(UserError, match="freeze is active on orders-1, orders-2: select one"):
        lab.cure("freeze")
    lab.cure("thaw", client="orders-2")
    lab.cure("freeze")
    _until(lambda: set(_states(lab).values()) == {"running"})
    with pytest.raises(UserError, match="There is no freeze to cure"):
        lab.cure("freeze")


def test_what_a_fault_can_not_be_put_on_is_a_sentence(lab):
    for kind, client, sentence in [
        ("earthquake", None, "There is no fault earthquake: choose one of join"),
        ("freeze", "orders-9", "There is no consumer orders-9"),
        ("freeze", "namesrv", "namesrv belongs to no group"),
        ("poison", "audit-1", "poison needs an ordered consumer"),
        ("join", "orders-1", "orders-1 already exists"),
        ("broker-kill", "orders-1", "There is no broker orders-1: choose one of broker-a, broker-b"),
        ("add-queues", None, "Topics need a broker and the producer"),
        ("topic-set", None, "topic-set needs a second topic"),
    ]:
        with pytest.raises(UserError, match=sentence):
            lab.fault(kind, client=client)
    assert lab.fault_log.exists() is False


def test_a_consumer_that_does_not_obey_keeps_no_order_to_cut_its_network(lab, settings, monkeypatch):
    monkeypatch.setattr(fault_actions, "_OBEY_SECONDS_MAX", 0.1)
    write_orders(path := LabFolder(settings.runtime.lab).orders("orders-1"), ORDERS)
    with pytest.raises(UserError, match="orders-1 was not ready"):
        lab.fault("partition")
    assert read_orders(path, ConsumerOrders) == ORDERS
    assert {one.fault for one in lab.status()} == {""}


def test_every_fault_and_cure_is_a_line_that_says_what_to_expect(lab):
    before = time.time_ns() // 1_000_000
    done = [lab.fault("freeze"), lab.cure("freeze"), lab.fault("kill", client="audit-1")]
    assert [msgspec.json.decode(line, type=FaultRecord) for line in lab.fault_log.read_bytes().splitlines()] == done
    assert [(one.kind, one.cure, one.client_id, one.group) for one in done] == [
        ("freeze", False, "127.0.0.1@orders-1", "orders-group"),
        ("freeze", True, "127.0.0.1@orders-1", "orders-group"),
        ("kill", False, "127.0.0.1@audit-1", "audit-group"),
    ]
    assert all(before <= one.time <= one.done for one in done)
    assert done[0].expect.startswith("orders-1 stays a member")


def test_the_command_lists_faults_and_exits_nonzero_for_an_unhealthy_lab(lab, tmp_path, monkeypatch):
    monkeypatch.setenv("REBALANCE_WATCH_RUNTIME__ROOT", str(tmp_path))
    runner = CliRunner()
    listed = runner.invoke(app, ["lab", "fault"])
    assert all(f"{name}: " in listed.output for name in FAULTS)
    assert runner.invoke(app, ["lab", "status"]).exit_code == 0
    with pytest.raises(UserError, match="There is no broker broker-z"):
        runner.invoke(app, ["lab", "fault", "hang", "--queue", "broker-z:1"], catch_exceptions=False)
    assert runner.invoke(app, ["lab", "fault", "hang", "--queue", "broker-a"]).exit_code == 2
    assert "orders-1 is gone" in runner.invoke(app, ["lab", "fault", "kill"]).output
    shown = runner.invoke(app, ["lab", "status", "--format", "json"])
    assert str(shown.exception).startswith("Down: orders-1;")
    assert {one["fault"] for one in msgspec.json.decode(shown.stdout)["members"]} == {"", "kill"}
    assert runner.invoke(app, ["lab", "down"]).output == "The lab is stopped.\n"
    assert runner.invoke(app, ["lab", "down"]).output == "The lab is not running.\n"


def test_every_text_of_a_fault_can_be_filled_in():
    for fault in FAULTS.values():
        for text in (fault.expect, fault.cure_expect):
            assert "{" not in text.format(client="c", group="g", where="w")
    assert set(CURES.values()) <= FAULTS.keys()


ORDERS = ConsumerOrders(
    name="orders-1", jars=[], name_server="", group="g", topic="T", ordered=True, instance="orders-1"
)
QUEUES = [LabQueue("T", "b", number) for number in range(2)]


def test_a_hung_listener_resumes_at_once_and_other_queues_never_stop():
    behaviour = ListenerBehaviour(ORDERS)
    behaviour.change(msgspec.structs.replace(ORDERS, hang=True, queue_id=1))
    accepted = []
    hung = threading.Thread(target=lambda: accepted.append(behaviour.accepts(QUEUES[1], 5)))
    hung.start()
    assert behaviour.accepts(QUEUES[0], 5)
    hung.join(0.1)
    assert hung.is_alive()
    behaviour.change(ORDERS)
    hung.join(90)
    assert accepted == [True]


def test_a_listener_hangs_on_the_queue_of_one_broker_only():
    behaviour = ListenerBehaviour(msgspec.structs.replace(ORDERS, hang=True, queue_id=1, broker="a"))
    assert behaviour.accepts(QUEUES[1], 5)


def test_a_poison_sticks_to_one_message_until_the_cure():
    behaviour = ListenerBehaviour(msgspec.structs.replace(ORDERS, poison=True))
    assert not behaviour.accepts(QUEUES[1], 5)
    assert behaviour.accepts(QUEUES[0], 5)
    assert not behaviour.accepts(QUEUES[1], 5)
    assert behaviour.accepts(LabQueue("T", "another", 1), 5)
    behaviour.change(ORDERS)
    assert behaviour.accepts(QUEUES[1], 5)


def test_a_client_sees_new_orders_once(tmp_path):
    write_orders(path := tmp_path / "orders-1.json", ORDERS)
    orders_file = OrdersFile(path, ConsumerOrders)
    assert (orders_file.orders, orders_file.changed()) == (ORDERS, None)
    write_orders(path, new := msgspec.structs.replace(ORDERS, hang=True))
    os.utime(path, ns=(0, 1))  # two writes within one tick of the file system's clock
    assert (orders_file.changed(), orders_file.changed()) == (new, None)


def test_reports_are_found_among_lines_of_the_jvm_and_torn_ones_wait(tmp_path):
    log = tmp_path / "log"
    assert list(reports(log)) == []
    log.write_bytes(b'SLF4J: nothing\n{"event":"started"}\n[1]\n{"event":"owns"}\n{"event":"en')
    assert list(reports(log)) == [ClientReport("started"), ClientReport("owns")]
    assert list(reports(log, offset=len(b'SLF4J: nothing\n{"event":"started"}\n'))) == [ClientReport("owns")]


def _until(holds, seconds=90):
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)
