"""A lab with consumers that pop, on processes that only sleep: which fault a consumer can have, and what is refused."""

import shutil
import threading
import time

import msgspec
import pytest
from msgspec.structs import replace
from typer.testing import CliRunner

from streaming.base.errors import SettingsError, UserError
from streaming.base.settings import load_settings
from streaming.cli.main import app
from streaming.lab import behaviour, fault_actions, lab, processes
from streaming.lab.behaviour import ListenerBehaviour
from streaming.lab.cluster import LabCluster
from streaming.lab.control import ClientReport, ConsumerOrders, LabQueue, ProducerOrders, read_orders, write_orders
from streaming.lab.lab import Lab
from streaming.lab.pop_faults import POP_FAULTS, pop_faults
from streaming.lab.state import LabFolder, LabProcess, LabState, ProxyPorts

SLEEP = shutil.which("sleep")
GROUPS = {"orders": "orders-group", "pop": "pop-group", "fifo": "fifo-group", "simple": "simple-group"}
IDS = {"fifo": "host@12@0@ab", "simple": "host@13@0@ab"}
"""What gRPC clients call themselves."""


@pytest.fixture
def settings(tmp_path):
    return load_settings(runtime={"root": tmp_path})


@pytest.fixture
def popping(settings, tmp_path):
    """A lab of sleepers with groups that pop."""
    started = {}
    members = {}
    for key, group in GROUPS.items():
        for name in (f"{key}-1", f"{key}-2"):
            started[name] = processes.spawn([SLEEP, "300"], tmp_path / f"{name}.log")
            members[name] = LabProcess(name, "consumer", started[name], group, IDS.get(key, f"127.0.0.1@{name}"))
    home = LabFolder(settings.runtime.lab)
    home.folder.mkdir()
    home.save(LabState(1, {"broker-a": 2}, proxy=ProxyPorts(3, 4), topics={"Orders": 8}, members=members))
    yield Lab(settings)
    for process in started.values():
        processes.end(process)


def states(lab):
    return {one.name: one.state for one in lab.status()}


def test_a_fault_means_for_a_consumer_what_its_kind_of_client_does(popping):
    done = {name: popping.fault("freeze", client=name) for name in ("orders-1", "pop-1", "fifo-1")}
    assert "LOCK_EXPIRED" in done["orders-1"].expect
    assert "POP_STOPPED" in done["pop-1"].expect
    assert "PROXY_CLIENT_GONE" in done["fifo-1"].expect
    assert done["fifo-1"].client_id == IDS["fifo"]
    assert popping.cure("thaw", client="pop-1").expect == "pop-1 continues, and pops again"


def test_by_default_a_fault_takes_a_consumer_that_can_have_it(popping):
    assert popping.fault("kill").client == "orders-1"
    assert popping.fault("kill", client="simple-2").client == "simple-2"
    with pytest.raises(UserError, match="kill is active on orders-1, simple-2: select one"):
        popping.cure("kill")


def test_all_consumers_of_a_group_go_and_are_missing_on_purpose(popping):
    with pytest.raises(UserError, match="all-gone needs a whole group: choose one of pop, fifo, simple"):
        popping.fault("all-gone", client="pop-1")
    gone = popping.fault("all-gone", client="simple")
    assert (gone.client, gone.group) == ("", "simple-group")
    assert {name for name, state in states(popping).items() if state == "down"} == {"simple-1", "simple-2"}
    assert {one.name: one.fault for one in popping.status() if one.fault} == {
        "simple-1": "all-gone",
        "simple-2": "all-gone",
    }
    with pytest.raises(UserError, match="No consumer of simple runs"):
        popping.fault("all-gone", client="simple")
    assert popping._targets.away() >= {"simple-1", "simple-2"}


def test_a_message_is_refused_by_every_consumer_of_a_group_or_by_none(popping, settings, monkeypatch):
    """Whoever gets it next: it comes back to any member."""
    monkeypatch.setattr(fault_actions, "_MESSAGE_SECONDS_MAX", 0.1)
    home = LabFolder(settings.runtime.lab)
    write_orders(home.orders("producer"), ProducerOrders("producer", [], "", {}, {}, messages_per_second=4))
    for name in ("pop-1", "pop-2"):
        write_orders(home.orders(name), replace(ORDERS, name=name))
    with pytest.raises(UserError, match="pop received no message, so the fault has no effect"):
        popping.fault("poison", client="pop")
    assert [read_orders(home.orders(name), ConsumerOrders).poison for name in ("pop-1", "pop-2")] == [False, False]
    given = []
    monkeypatch.setattr(LabCluster, "send_orders", lambda _, orders: given.append(orders))
    monkeypatch.setattr(LabCluster, "await_any_report", lambda *_: ClientReport("poisoned", queues=[HERE]))
    poisoned = popping.fault("poison", client="pop")
    assert (poisoned.client, poisoned.group, poisoned.queue) == ("", "pop-group", HERE)
    assert [one.name for one in given] == ["pop-1", "pop-2"]
    [(begin, end)] = {(one.sent_from, one.sent_until) for one in given if one.poison}
    assert end - begin == 250
    popping.cure("poison")
    assert [(one.name, one.poison) for one in given[2:]] == [("pop-1", False), ("pop-2", False)]


@pytest.mark.parametrize(
    ("kind", "client", "sentence"),
    [
        ("no-ack", "pop-1", "no-ack is no fault of pop-group, whose client is remoting: choose a consumer of simple"),
        ("no-ack", "orders-1", "no-ack is a fault of consumers that pop, and orders-1 does not: choose a consumer of"),
        ("pull-among-pops", "fifo-9", "pull-among-pops is no fault of fifo-group"),
        (
            "partition",
            "pop-1",
            "partition is no fault of pop-group, whose client is remoting: see `rebalance-watch lab",
        ),
        ("no-ack", "simple-9", "There is no consumer simple-9"),
        ("nothing", None, "There is no fault nothing: choose one of join,.*no-ack.*all-gone"),
    ],
)
def test_a_fault_that_a_consumer_can_not_have_is_a_sentence(popping, kind, client, sentence):
    with pytest.raises(UserError, match=sentence):
        popping.fault(kind, client=client)
    assert popping.fault_log.exists() is False


def test_without_consumers_that_pop_a_fault_of_theirs_says_what_to_start(popping, settings):
    home = LabFolder(settings.runtime.lab)
    home.save(msgspec.structs.replace(home.load(), proxy=None))
    with pytest.raises(UserError, match=r"no-ack needs consumers that pop: start the lab with `.* lab up --pop`"):
        Lab(settings).fault("no-ack")
    assert Lab(settings).proxy is None
    assert "COLLECTOR__PROXIES" not in "".join(Lab(settings).environment())


def test_the_environment_names_the_proxy_and_the_status_what_is_not_known(popping, tmp_path, monkeypatch):
    assert popping.environment()["REBALANCE_WATCH_COLLECTOR__PROXIES"] == '["127.0.0.1:4"]'
    assert {one.name for one in popping.status() if one.owns is None} == {"fifo-1", "fifo-2", "simple-1", "simple-2"}
    monkeypatch.setenv("REBALANCE_WATCH_RUNTIME__ROOT", str(tmp_path))
    shown = CliRunner().invoke(app, ["lab", "status"], env={"COLUMNS": "200"}).output
    assert shown.count("not known") == 4
    assert "127.0.0.1:4" in shown
    listed = CliRunner().invoke(app, ["lab", "fault"]).output
    assert "lab up --pop" in listed
    assert all(f"{name}: " in listed for name in POP_FAULTS)


def test_what_a_lab_is_can_not_be_changed_and_a_secured_one_can_not_pop(popping, settings, monkeypatch):
    monkeypatch.setattr(lab.jars, "ensure", lambda *_: [])
    with pytest.raises(UserError, match="Whether the lab pops can't be changed while it is up"):
        Lab.up(settings, kafka=False, pop=False)
    popping.down()
    with pytest.raises(UserError, match=r"A secured lab has no proxy.*choose --pop or --secure"):
        Lab.up(settings, kafka=False, pop=True, secure=True)
    assert Lab.find(settings) is None


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"pop": {"ordered": True}}, "lab.pop_groups.pop.client: should be a client of gRPC"),
        ({"orders": {"client": "remoting", "group": "g", "topic": "T", "ordered": False, "queues": 1, "consumers": 1}},
         "should have other keys than lab.groups: orders"),
        ({"pop": {"client": "http"}}, "client: should be 'remoting', 'grpc-push' or 'grpc-simple'"),
    ],
)  # fmt: skip
def test_groups_that_can_not_be_are_refused(changes, sentence):
    with pytest.raises(SettingsError, match=sentence):
        load_settings(lab={"pop_groups": changes})


def test_every_text_of_a_fault_can_be_filled_in():
    for _, _, fault in pop_faults():
        for text in (fault.expect, fault.cure_expect):
            assert "{" not in text.format(client="c", group="g", where="w")


ORDERS = ConsumerOrders("pop-1", [], "", "g", "T", ordered=False, instance="pop-1", client="remoting")
HERE, RETRY = LabQueue("T", "b", 1), LabQueue("%RETRY%g_T", "b", 0)


MEANT = replace(ORDERS, sent_from=1_000, sent_until=1_500)


def test_a_popped_message_is_refused_wherever_it_comes_from_until_the_cure(capfd):
    popped = ListenerBehaviour(replace(MEANT, poison=True))
    assert popped.accepts(HERE, 4, 999)
    assert not popped.accepts(HERE, 5, 1_000)
    assert popped.accepts(HERE, 6, 1_500)
    assert not popped.accepts(RETRY, 0, 1_000)
    assert capfd.readouterr().out.count("poisoned") == 1
    popped.change(ORDERS)
    assert popped.accepts(RETRY, 1, 1_000)


def test_nothing_is_acknowledged_on_command():
    withholds = ListenerBehaviour(replace(ORDERS, no_ack=True))
    assert not withholds.accepts(HERE, 5)
    withholds.change(ORDERS)
    assert withholds.accepts(HERE, 6)


def test_one_message_is_slow_and_the_cure_ends_it_at_once(monkeypatch):
    monkeypatch.setattr(behaviour, "_SLOW_SECONDS", 300)
    slow, accepted = ListenerBehaviour(replace(MEANT, slow=True)), []
    waiting = threading.Thread(target=lambda: accepted.append(slow.accepts(HERE, 5, 1_200)))
    waiting.start()
    while slow._chosen is None:
        time.sleep(0.01)
    assert slow.accepts(HERE, 6, 1_700)
    assert accepted == []
    slow.change(ORDERS)
    waiting.join(60)
    assert accepted == [True]
