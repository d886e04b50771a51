"""MIXED_REQUEST_MODE: a topic of a group is popped and pulled at once: its messages are consumed twice, or skipped.

Pops and pulls share the group's commit, and know nothing of each other. It happens if one member has another mode than
the others (clientRebalance), or if classic clients and such that speak gRPC have one group. While the mode of a topic
changes (SET_MESSAGE_REQUEST_MODE, 401), both are seen for up to two rebalances. Clear when one of both has not been
seen for a minute.
"""

from rebalance_model.observe.rules.rule import CLEAR, OF_BROKER, Advice, Evidence, GroupRule, Holds, Verdict
from rebalance_model.observe.state import RequestModes
from rebalance_model.observe.step import GroupStep

NAMED_MAX = 10
"""At most this many members are named."""


def judge(step: GroupStep, _: str) -> Verdict:
    """Check for how long any topic has been popped and pulled."""
    mixed = _mixed(step)
    if mixed is None:
        return CLEAR if step.cluster.has_no_silent_hook else None
    if mixed[1].both_ms(step.now) <= step.policy.request_mode_mixed_after:
        return None
    return Holds("critical", stamp=mixed[1].both_since)


def evidence(step: GroupStep, _: str) -> Evidence:
    """Return the topic, for how long both were seen, when each was last, and which members do what."""
    mixed, pops = _mixed(step), step.facts.pops
    if mixed is None:
        return {"topics": 0}
    topic, modes = mixed
    popping = sorted(
        c for c, one in pops.poppers.items() if any(target.topic == topic for target in one.active(step.now))
    )
    pulling = sorted(c for c, view in step.state.clients.items() if any(mq.topic == topic for mq in view.queues))
    return {
        "topic": topic,
        "topics": sum(bool(one.both_since) for one in pops.modes.values()),
        "mixed_ms": modes.both_ms(step.now),
        "limit_ms": step.policy.request_mode_mixed_after,
        "pop_age_ms": step.now - modes.popped_at,
        "pull_age_ms": step.now - modes.pulled_at,
        "popping": ", ".join(popping[:NAMED_MAX]) or None,
        "pulling": ", ".join(pulling[:NAMED_MAX]) or None,
    }


def _mixed(step: GroupStep) -> tuple[str, RequestModes] | None:
    """Return the topic that has been popped and pulled for longest."""
    mixed = [(t, one) for t, one in step.facts.pops.modes.items() if one.both_since]
    return min(mixed, key=lambda found: (found[1].both_since, found[0]), default=None)


RULE = GroupRule(
    "MIXED_REQUEST_MODE",
    judge,
    evidence,
    follows=("POPPED",),
    title="{group} pops and pulls one topic at once",
    units={
        "topic": "text",
        "topics": "count",
        "mixed_ms": "ms",
        "limit_ms": "ms",
        "pop_age_ms": "ms",
        "pull_age_ms": "ms",
        "popping": "text",
        "pulling": "text",
    },
    needs=("POPS",),
    absorbed_by=(*OF_BROKER, "TELEMETRY_GAP"),
    advice={
        "": Advice(
            what="The group pops and pulls one topic at once: messages are consumed twice, or by nobody.",
            first_step=(
                "Give all members of the group one mode (clientRebalance), and gRPC clients a group of their own; "
                "`mqadmin setConsumeMode` sets the mode of a topic."
            ),
            inspect=("MEMBERS", "COMPARE"),
        ),
    },
)
