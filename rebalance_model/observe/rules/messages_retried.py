"""MESSAGES_RETRIED: messages come back by the retry topic again and again, since the group's listeners refuse them.

For groups that pull, what POP_RETURNED is for those that pop. It takes `AGAIN_FOR_MS` without a longer pause than
`retries.AGAIN_WITHIN`. An info: it may be the same few messages each time. A warning from `MANY` a minute and a fifth
of what is consumed of the group's topics; it stays one until the incident is over. Clear when none comes back any more.
"""

from rebalance_model.observe.group import skipped
from rebalance_model.observe.rules.rule import CLEAR, Advice, Evidence, GroupRule, Holds, Verdict
from rebalance_model.observe.state import Retries
from rebalance_model.observe.step import GroupStep

AGAIN_FOR_MS = 300_000
CLEAR_AFTER_MS = 600_000
"""A run that begins again is the same incident within this time."""
MANY, SHARE = 10, 5
"""Limits of a warning: messages in a minute, and one of this many consumed ones."""
_MINUTE, _HOUR = 60_000, 3_600_000


def judge(step: GroupStep, _: str) -> Verdict:
    """Check for how long messages have come back."""
    run = step.state.retries
    if run is None or not run.last:
        return CLEAR
    if step.now - run.last > skipped.AGAIN_WITHIN:
        return CLEAR if step.facts.is_reported else None
    step.schedule_check(run.last + skipped.AGAIN_WITHIN + 1)
    took = run.last - run.since
    if took < AGAIN_FOR_MS:
        return CLEAR
    is_much = run.count * _MINUTE >= MANY * took and SHARE * run.count >= _consumed(step, run)
    run.is_much = run.is_much or is_much
    return Holds("warning" if run.is_much else "info")


def _consumed(step: GroupStep, run: Retries) -> int:
    return max(0, skipped.consumed(step) - run.consumed_before)


def evidence(step: GroupStep, _: str) -> Evidence:
    """Return how many messages came back since when, and how many of the group's topics were consumed meanwhile."""
    run = step.state.retries or Retries({})
    took = max(run.last - run.since, 1)
    return {
        "retried": run.count,
        "retried_per_hour": round(run.count * _HOUR / took),
        "consumed": _consumed(step, run),
        "retried_since": run.since,
    }


RULE = GroupRule(
    "MESSAGES_RETRIED",
    judge,
    evidence,
    follows=("RETURNED",),
    title="Messages of {group} come back again and again",
    units={
        "retried": "messages",
        "retried_per_hour": "per_hour",
        "consumed": "messages",
        "retried_since": "epoch_ms",
    },
    needs=("COMMITS",),
    clear_after=lambda _: CLEAR_AFTER_MS,
    absorbed_by=("BROKER_UNREACHABLE", "TELEMETRY_GAP"),
    advice={
        "": Advice(
            what=(
                "The group's listeners refuse messages, and they come back by its retry topic without a pause: many of "
                "them, or the same few again and again."
            ),
            first_step=(
                "Look for the exception in the clients' logs; read messages of the group's retry topic: their "
                "RECONSUME_TIME says how often each has come. An ordered consumer with maxReconsumeTimes may send one "
                "back for ever."
            ),
            inspect=("PROGRESS", "DEAD_LETTERS"),
        ),
    },
)
