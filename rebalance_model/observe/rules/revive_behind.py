"""REVIVE_BEHIND: a broker falls behind with giving back popped messages that were not acknowledged.

For each POP a broker stores a record, which comes to its revive topic when the messages' invisible time is over, and is
checked there (PopReviveService): those without an acknowledgement come back in the retry topic. If that stops, or is
too slow, nothing is delivered again: what a client has lost stays lost, and no other sign shows it. The collector asks
each broker how far the revive group (CID_RMQ_SYS_REVIVE_GROUP) is behind; 1 to 7 records are usual. Holds while the
backlog is above `revive_backlog`, has grown for `revive_behind_after` and did not fall, and the next record is overdue
for as long; clear as soon as it falls. Many records that are checked in time, as while consumers refuse messages, are
no delay. A broker that keeps these records in RocksDB, or whose clients do not pop, has no such topic.
"""

from rebalance_model.observe.rules.rule import CLEAR, OF_BROKER, Advice, ClusterRule, Evidence, Holds, Verdict
from rebalance_model.observe.state import ReviveBacklog
from rebalance_model.observe.step import ClusterStep

CODE = "REVIVE_BEHIND"
COVERED_INTERVALS = 3
"""Two answers further apart than this many poll intervals do not show that the backlog did not fall between them."""


def noted(
    former: ReviveBacklog | None, records: int, late_ms: int | None, now: int, poll_interval: int
) -> ReviveBacklog:
    """Return what is known of a broker's backlog with another answer.

    Args:
        former: what was known before.
        records: how many records the revive group is behind.
        late_ms: how late the broker is at most with the next one, milliseconds; None: not reported.
        now: when the answer was reported.
        poll_interval: how often brokers are asked, milliseconds.
    """
    if former is None or records < former.records or now - former.at > COVERED_INTERVALS * poll_interval:
        return ReviveBacklog(records, now, now, records, late_ms)
    return ReviveBacklog(records, now, former.rising_since, former.rising_from, late_ms)


def judge(step: ClusterStep, broker: str) -> Verdict:
    """Check for how long the backlog has grown."""
    view = step.state.brokers.get(broker)
    backlog = view.revive if view is not None else None
    if backlog is None:
        return CLEAR
    if step.now - backlog.at > COVERED_INTERVALS * step.policy.poll_interval:
        return None
    if backlog.records <= step.policy.revive_backlog or backlog.records == backlog.rising_from:
        return CLEAR
    if backlog.late_ms is not None and backlog.late_ms <= step.policy.revive_behind_after:
        return CLEAR
    return Holds("warning", duration_ms=backlog.at - backlog.rising_since)


def evidence(step: ClusterStep, broker: str) -> Evidence:
    """Return the backlog, by how much it has grown, and for how long."""
    view = step.state.brokers.get(broker)
    backlog = view.revive if view is not None else None
    if backlog is None:
        return {"backlog": None, "limit": step.policy.revive_backlog}
    return {
        "backlog": backlog.records,
        "limit": step.policy.revive_backlog,
        "grown_by": backlog.records - backlog.rising_from,
        "growing_ms": backlog.at - backlog.rising_since,
        "overdue_ms": backlog.late_ms,
    }


RULE = ClusterRule(
    CODE,
    judge,
    evidence,
    title="Broker {subject} is behind with giving back popped messages",
    units={"backlog": "count", "limit": "count", "grown_by": "count", "growing_ms": "ms", "overdue_ms": "ms"},
    needs=("POLLS",),
    open_after=lambda policy: policy.revive_behind_after,
    absorbed_by=OF_BROKER,
    advice={
        "": Advice(
            what=(
                "The broker checks records of popped messages more slowly than they come: messages without an "
                "acknowledgement come back late, or not at all."
            ),
            first_step=(
                "Look for PopReviveService in the broker's log, and at its disk; a restart of the broker starts a "
                "stuck revive thread again."
            ),
            inspect=("BROKERS",),
        ),
    },
)
