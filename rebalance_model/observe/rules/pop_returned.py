"""POP_RETURNED: popped messages come back to the group, because they were not acknowledged, or were refused.

EXPIRED: they were invisible for long enough without an acknowledgement: the listener is slower than that, hangs, or its
client is gone; each is consumed twice. A warning from `MANY` a minute and a fifth of what is acknowledged; a single one
is the cost of a client that leaves. REJECTED: a listener refuses messages that were delivered before, for a minute or
longer each time (their delays grow): poison messages. UNDETERMINED: no hook shows why, and by polls the retry
topic of a popped topic grows again and again for `AGAIN_FOR_MS`; it is not known whether the messages were refused.
What clients give back when they leave, one after the other, is no reason. A warning from `MANY` a minute and a fifth of
what was handed out. Clear when none has come back for a minute.
"""

import msgspec

from rebalance_model.observe.rules import pop_not_acking
from rebalance_model.observe.rules.rule import CLEAR, OF_BROKER, Advice, Evidence, GroupRule, Holds, Verdict
from rebalance_model.observe.state.pops import WINDOW_MS
from rebalance_model.observe.step import GroupStep

EXPIRED, REJECTED, UNDETERMINED = "EXPIRED", "REJECTED", "UNDETERMINED"
MANY, SHARE = 10, 5
"""Limits of a warning: messages in a minute, and one of this many acknowledged (by polls: handed out) ones."""


AGAIN_FOR_MS = 120_000
"""The time that messages must come back by polls: those of clients that are restarted do not."""
RECENT_POLLS = 3
"""Poll intervals within which each broker must have been asked, to know that no message came back."""


def judge(step: GroupStep, _: str) -> Verdict:
    """Check what came back in the last minute: what answers prove, calls that do not show it do not disprove."""
    by_answers, by_calls = _of_answers(step), _of_calls(step)
    if isinstance(by_calls, Holds):
        is_more = isinstance(by_answers, Holds) and by_answers.severity == "warning"
        return msgspec.structs.replace(by_calls, severity="warning") if is_more else by_calls
    return by_answers if isinstance(by_answers, Holds) or by_calls is not None else None


def _of_calls(step: GroupStep) -> Verdict:
    """Check what the calls at the brokers show."""
    pops, now = step.facts.pops, step.now
    expired = now - pops.expired_at <= WINDOW_MS
    if not expired and now - pops.rejected_at > WINDOW_MS:
        return CLEAR if step.cluster.has_no_silent_hook or not pops.sources else None
    step.schedule_check((pops.expired_at if expired else pops.rejected_at) + WINDOW_MS + 1)
    count = pops.expired.total(now)
    is_much = not expired or (count >= MANY and SHARE * count >= pops.acked.total(now))
    explained = pop_not_acking.explains(step)
    return Holds("warning" if is_much else "info", EXPIRED if expired else REJECTED, explained_by=explained)


def _of_answers(step: GroupStep) -> Verdict:
    """Check by how much retry topics grew in the last minute."""
    returns, now = step.state.returns, step.now
    if returns is None or not returns.returned_at:
        return CLEAR
    if now - returns.returned_at > WINDOW_MS:
        views = step.state.views.values() if "OFFSETS" not in step.facts.missing else ()
        oldest = min((view.stats_asked for view in views if view.stats_asked), default=0)
        is_known = now - oldest <= RECENT_POLLS * step.policy.poll_interval
        if not is_known:
            step.schedule_check(now + step.policy.poll_interval)
        return CLEAR if is_known else None
    step.schedule_check(returns.returned_at + WINDOW_MS + 1)
    if returns.returned_at - returns.since < AGAIN_FOR_MS:
        return CLEAR
    count = returns.returned.total(now)
    is_much = count >= MANY and SHARE * count >= returns.handed_out.total(now)
    return Holds("warning" if is_much else "info", UNDETERMINED)


def evidence(step: GroupStep, _: str) -> Evidence:
    """Return how many messages came back in the last minute, how many were acknowledged, and the last one's topic."""
    pops, returns, now = step.facts.pops, step.state.returns, step.now
    fields: Evidence = {}
    if pops.sources:
        fields |= {
            "expired": pops.expired.total(now),
            "rejected": pops.rejected.total(now),
            "acknowledged": pops.acked.total(now),
        }
    if returns is not None:
        fields |= {"returned": returns.returned.total(now), "handed_out": returns.handed_out.total(now)}
    topic = pops.returned_topic or (returns.topic if returns is not None else "")
    return fields | {"window_ms": WINDOW_MS, "topic": topic or None}


RULE = GroupRule(
    "POP_RETURNED",
    judge,
    evidence,
    follows=("RETURNED",),
    title="Popped messages come back to {group}",
    units={
        "expired": "messages",
        "rejected": "messages",
        "acknowledged": "messages",
        "returned": "messages",
        "handed_out": "messages",
        "window_ms": "ms",
        "topic": "text",
    },
    sub_causes=(EXPIRED, REJECTED, UNDETERMINED),
    needs=("COMMITS",),
    absorbed_by=(*OF_BROKER, "PROXY_UNREACHABLE", "TELEMETRY_GAP"),
    advice={
        EXPIRED: Advice(
            short="they were not acknowledged in time",
            what=(
                "Popped messages were not acknowledged within their invisible time, and came back: they are consumed "
                "again. The listener is slower than that, hangs, or its client is gone."
            ),
            first_step=(
                "Compare the listener's time for a message with the invisible time (popInvisibleTime, or the "
                "invisibleDuration of receive); look for clients that left."
            ),
            inspect=("THREADS", "PROGRESS"),
        ),
        REJECTED: Advice(
            short="the listener refuses them",
            what="Messages are refused by the listener again and again: each comes back later than the time before.",
            first_step="Look for the exception in the clients' logs; read the messages of the group's retry topic.",
            inspect=("MESSAGE", "DEAD_LETTERS"),
        ),
        UNDETERMINED: Advice(
            short="they were refused, or not acknowledged in time",
            what=(
                "Popped messages come back to the retry topic: they were refused by the listener, or not acknowledged "
                "within their invisible time. Polls can't tell which; a broker's hook does."
            ),
            first_step=(
                "Look for exceptions and slow messages in the clients' logs; compare the listener's time for a message "
                "with the invisible time."
            ),
            inspect=("PROGRESS", "DEAD_LETTERS"),
        ),
    },
)
