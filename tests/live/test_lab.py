"""The lab's faults are real: each is seen in the cluster's own answers, and so is its cure.

The long form, with two brokers and every fault, is `test_lab_faults`. Joins, leaves and freezes are also in
`test_simulation_against_lab`, a frozen consumer and one that rejects in `test_collector`, a poisoned queue in
`test_whole_path`; of the other faults `test_faults` and `lab/demo` judge recordings.
"""

import json

import pytest
from typer.testing import CliRunner

from rebalance_model.observe.events import UpdateConsumerOffset
from streaming.base.errors import UnhealthyError
from streaming.cli.main import app
from streaming.collect.client import RpcFailedError
from streaming.lab.lab import Lab
from tests.support import hooked

pytestmark = pytest.mark.live
LOCK_SECONDS_MAX = 150
"""A client that leaves during a rebalance may be granted a lock after releasing all; no other gets it for 60 s, and
then at its next rebalance."""


@pytest.fixture
def status(lab_settings, monkeypatch):
    """Return a function that runs `lab status` and returns what is printed, and the error; None: all is well."""
    monkeypatch.setenv("REBALANCE_WATCH_RUNTIME__ROOT", str(lab_settings.runtime.root))

    def status():
        shown = CliRunner().invoke(app, ["lab", "status", "--format", "json"])
        return json.loads(shown.stdout), shown.exception

    return status


def test_a_second_up_starts_nothing_not_even_what_a_fault_has_stopped(lab, lab_settings, status, watch, eventually):
    orders = lab_settings.lab.groups["orders"]
    eventually(lambda: watch.is_shared_out(orders, brokers=1), LOCK_SECONDS_MAX)
    before = {member.name: member.pid for member in lab.status()}
    printed, error = status()
    assert error is None
    assert {one["state"] for one in printed["members"]} == {"running"}
    owns = {one["name"]: len(one["owns"]) for one in printed["members"] if one["group"] == orders.group}
    assert owns.keys() == {f"orders-{number}" for number in range(1, orders.consumers + 1)}
    assert sum(owns.values()) == orders.queues
    gone = lab.fault("leave", client="orders-3")
    try:
        eventually(lambda: gone.client_id not in watch.members(orders.group))
        again = Lab.up(lab_settings)
        assert {member.name: member.pid for member in again.status()} == before
        printed, error = status()
        assert isinstance(error, UnhealthyError)
        assert "orders-3" in str(error)
        assert {one["name"]: one["fault"] for one in printed["members"] if one["state"] == "down"} == {
            "orders-3": "leave"
        }
    finally:
        lab.cure("leave")
    eventually(lambda: gone.client_id in watch.members(orders.group))
    eventually(lambda: watch.is_shared_out(orders, brokers=1), LOCK_SECONDS_MAX)


def test_a_consumer_that_is_cut_off_stays_a_member_without_traffic(lab, lab_settings, watch, eventually):
    orders = lab_settings.lab.groups["orders"]
    group, topic = orders.group, orders.topic
    # A queue on its way to the client would stand, too.
    eventually(lambda: watch.is_shared_out(orders, brokers=1), LOCK_SECONDS_MAX)
    connections = eventually(lambda: watch.connections(group))
    mine = {queue for queue, owner in watch.owners(group, topic).items() if owner == "127.0.0.1@orders-2"}
    cut = lab.fault("partition", client="orders-2")
    try:
        before = watch.offsets(group, topic)
        eventually(lambda: cut.client_id in watch.members(group))
        with pytest.raises(RpcFailedError):
            watch.running(group, cut.client_id, seconds=1)

        def others_moved():
            now = watch.offsets(group, topic)
            assert all(now[queue][1] == before[queue][1] for queue in mine)
            return all(now[queue][1] > before[queue][1] for queue in now.keys() - mine)

        eventually(others_moved)
        assert {one.state for one in lab.status()} == {"running"}
    finally:
        lab.cure("partition")
    eventually(lambda: watch.connections(group) == connections)
    eventually(lambda: all(watch.offsets(group, topic)[queue][1] > before[queue][1] for queue in mine))
    eventually(lambda: {watch.owners(group, topic).get(queue) for queue in mine} == {cut.client_id})


def test_the_hook_of_a_broker_knows_no_newest_offset_by_default(lab, eventually):
    """Of one without asyncSendEnable it does: `test_broker_hook`."""

    def committed():
        return [event for event in hooked.spooled(lab.spool) if isinstance(event, UpdateConsumerOffset)]

    assert {event.broker_offset for event in eventually(committed)} == {-1}
