"""`doctor` compares this machine's clock with the brokers'."""

import pytest

from rebalance_model.observe.events import BrokerStatus, ClockStep, RpcError
from streaming.cli.checks import _clocks

NOW = 1_800_000_000_000
COMMON = {"time": NOW, "cluster": "c", "source": "poll", "source_id": "poll-1@1", "seq": 1}


def status(ahead_ms, broker="broker-a"):
    return BrokerStatus(boot_time=1, asked=NOW - 10, answered=NOW, now=NOW + ahead_ms, broker=broker, **COMMON)


@pytest.mark.parametrize(
    ("ahead_ms", "text"),
    [
        (3_600_000, "broker-a's is 3,600 s ahead of this machine's"),
        (-600_000, "broker-a's is 599 s behind this machine's"),
        (0, "within 5 s of the brokers'"),
    ],
)
def test_a_broker_whose_clock_differs_is_named(ahead_ms, text):
    [check] = _clocks([status(ahead_ms), status(0, "broker-b")])
    assert (check.state, check.found) == ("wrong" if ahead_ms else "ok", text)
    assert not check.needed


def test_a_clock_that_is_set_meanwhile_is_reported():
    [check] = _clocks([status(0), ClockStep(step=-3_600_000, **COMMON)])
    assert (check.state, check.found) == ("wrong", "this machine's clock was set by -3,600 s")
    assert "NTP" in check.mend


def test_brokers_that_report_no_time_are_not_compared():
    assert list(_clocks([BrokerStatus(broker="b", error=RpcError(code=-1), **COMMON)])) == []
