"""CLOCK_SKEW: the clock of a client or a broker differs from the collector's, or that of a source was set.

A broker's clock is measured from broadcasts (`clocks`), and the incident is about the cluster. Where no
broadcast measures it, and for a client, timestamps in answers to one group show it (`polls.offsets`). A collector or
a hook reports itself that the clock of its host was set (CLOCK_STEP): the times before that were wrong.

Effects: if a client's clock is slow, the broker keeps its older subscription. If a broker's clock is off, messages are
retained too long or too short, and delayed messages are delivered at the wrong time. Timestamps of that client or
broker can't be compared with those of others.
"""

from collections.abc import Mapping

from rebalance_model.observe.rules import concerns
from rebalance_model.observe.rules.rule import (
    CLEAR,
    Advice,
    BrokerRule,
    ClientRule,
    ClusterRule,
    Evidence,
    Holds,
    Unit,
    Verdict,
)
from rebalance_model.observe.state import ClockSet
from rebalance_model.observe.state.clocks import Bounds
from rebalance_model.observe.step import ClusterStep, GroupStep, Step

CODE = "CLOCK_SKEW"
_UNITS: Mapping[str, Unit] = {"ahead_ms_min": "ms", "ahead_ms_max": "ms", "limit_ms": "ms"}
_UNITS_OF_SET: Mapping[str, Unit] = {"set_by_ms": "ms", "set_at": "epoch_ms"}


def judge(step: GroupStep, client_id: str) -> Verdict:
    """Check the bounds that the client's answers have set."""
    client = step.state.clients.get(client_id)
    return _judge(step, client.skew, client_id=client_id) if client is not None else CLEAR


def judge_broker(step: GroupStep, broker: str) -> Verdict:
    """Check the bounds that the broker's answers to the group have set, unless its clock is measured."""
    view, measured = step.state.views.get(broker), step.cluster.brokers.get(broker)
    if view is None or (measured is not None and measured.skew is not None):
        return CLEAR
    return _judge(step, view.skew, whose="BROKER_")


def judge_source_clock(step: ClusterStep, subject: str) -> Verdict:
    """Check whether the clock of a broker's hook or of a collector was just set; else a broker's measured bounds."""
    clock_set, shown_for = _clock_set(step, subject), step.policy.clock_skew_after
    if clock_set is not None and step.now - clock_set.at < shown_for:
        step.schedule_check(clock_set.at + shown_for)
        source = step.state.sources.get(subject, "")
        whose = "COLLECTOR" if source in step.state.collectors else "HOOK"
        sub_cause = f"{whose}_SET_BACK" if clock_set.step < 0 else f"{whose}_SET_AHEAD"
        return Holds("info", sub_cause, duration_ms=shown_for, stamp=clock_set.at)
    view = step.state.brokers.get(subject)
    if view is None or (clock_set is not None and view.skew is None):
        return CLEAR
    return _judge(step, view.skew, whose="BROKER_", stamp=view.skew_since)


def _clock_set(step: ClusterStep, subject: str) -> ClockSet | None:
    return step.state.clocks_set.get(step.state.sources.get(subject, ""))


def _judge(
    step: Step, skew: Bounds | None, *, client_id: str | None = None, whose: str = "", stamp: int | None = None
) -> Verdict:
    if skew is None:
        return None
    (low, high), limit = skew, step.policy.clock_skew
    if low > limit:
        return Holds("info", f"{whose}AHEAD", client_id, stamp=stamp)
    if high < -limit:
        return Holds("info", f"{whose}BEHIND", client_id, stamp=stamp)
    return CLEAR if -limit <= low and high <= limit else None


def evidence(step: GroupStep, client_id: str) -> Evidence:
    """The bounds."""
    client = step.state.clients.get(client_id)
    return _evidence(step, client.skew if client is not None else None)


def broker_evidence(step: GroupStep, broker: str) -> Evidence:
    """The bounds."""
    view = step.state.views.get(broker)
    return _evidence(step, view.skew if view is not None else None)


def clock_evidence(step: ClusterStep, subject: str) -> Evidence:
    """Return by how much a client's clock was set, and when; and the bounds of a broker's clock."""
    view, clock_set = step.state.brokers.get(subject), _clock_set(step, subject)
    found = _evidence(step, view.skew if view is not None else None)
    return found | ({"set_by_ms": clock_set.step, "set_at": clock_set.at} if clock_set is not None else {})


def _evidence(step: Step, skew: Bounds | None) -> Evidence:
    low, high = skew if skew is not None else (None, None)
    return {"ahead_ms_min": low, "ahead_ms_max": high, "limit_ms": step.policy.clock_skew}


_BROKER_ADVICE = {
    "BROKER_AHEAD": Advice(
        short="it is ahead",
        what="The broker's clock is ahead of the collector's: messages expire early, delayed ones arrive early.",
        first_step="Check NTP on the broker's host.",
    ),
    "BROKER_BEHIND": Advice(
        short="it is behind",
        what="The broker's clock is behind the collector's: delayed messages arrive late, and its stamps mislead.",
        first_step="Check NTP on the broker's host.",
    ),
}
RULE = ClientRule(
    CODE,
    judge,
    evidence,
    title="The clock of {subject} is wrong",
    units=_UNITS,
    sub_causes=("AHEAD", "BEHIND"),
    concerns=concerns.SKEWED,
    needs=("POLLS",),
    open_after=lambda policy: policy.clock_skew_after,
    advice={
        "AHEAD": Advice(
            short="it is ahead",
            what="The client's clock is ahead of the collector's: its stamps can't be compared with others'.",
            first_step="Check NTP on the client's host.",
        ),
        "BEHIND": Advice(
            short="it is behind",
            what="The client's clock is behind the collector's: the broker takes its new subscription for an old one.",
            first_step="Check NTP on the client's host, then restart the client.",
        ),
    },
)
OF_BROKER = BrokerRule(
    CODE,
    judge_broker,
    broker_evidence,
    title="The clock of {subject} is wrong",
    units=_UNITS,
    sub_causes=("BROKER_AHEAD", "BROKER_BEHIND"),
    needs=("POLLS",),
    open_after=lambda policy: policy.clock_skew_after,
    advice=_BROKER_ADVICE,
)
OF_SOURCE_CLOCK = ClusterRule(
    CODE,
    judge_source_clock,
    clock_evidence,
    title="The clock of {subject} is wrong",
    units={**_UNITS, **_UNITS_OF_SET},
    sub_causes=(
        "BROKER_AHEAD",
        "BROKER_BEHIND",
        "COLLECTOR_SET_BACK",
        "COLLECTOR_SET_AHEAD",
        "HOOK_SET_BACK",
        "HOOK_SET_AHEAD",
    ),
    needs=("POLLS",),
    open_after=lambda policy: policy.clock_skew_after,
    advice={
        **_BROKER_ADVICE,
        "COLLECTOR_SET_BACK": Advice(
            short="it was set back",
            what="The clock of the collector's host was ahead and has been set back; earlier times of its are wrong.",
            first_step="Check NTP on the collector's host: the time must be right before `rebalance-watch` starts.",
        ),
        "COLLECTOR_SET_AHEAD": Advice(
            short="it was set ahead",
            what="The clock of the collector's host was behind, or it was suspended; its clock has been set ahead.",
            first_step="Check NTP on the collector's host: the time must be right before `rebalance-watch` starts.",
        ),
        "HOOK_SET_BACK": Advice(
            short="it was set back",
            what="The clock of the broker's host was ahead and has been set back: its locks expire that much later.",
            first_step="Check NTP on the broker's host: the time must be right before the broker starts.",
        ),
        "HOOK_SET_AHEAD": Advice(
            short="it was set ahead",
            what="The clock of the broker's host was behind, or it was suspended: its locks expired at once.",
            first_step="Check NTP on the broker's host: the time must be right before the broker starts.",
        ),
    },
)
