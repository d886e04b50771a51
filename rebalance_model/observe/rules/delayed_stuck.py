"""DELAYED_STUCK: a broker no longer delivers delayed messages, and so no retries of messages that listeners refused.

A broker keeps a delayed message, and one that is to be tried again, in a queue of its level (SCHEDULE_TOPIC_XXXX), and
moves it to its topic when its delay is over (ScheduleMessageService). DELAY_LEVEL: messages wait in the queue of a
level, and the broker has moved none for `delayed_stuck_after` longer than the level's delay: the first of them is
overdue. By its runtime info (scheduleMessageOffset_N). TIMER: it has read its timer wheel no further for that long,
and messages are in it (timerReadBehind, timerCongestNum). Clear when the broker moves a message, or none waits.

The delays are those of messageDelayLevel's default; raise `delayed_stuck_after` where a broker's own are longer.
"""

from collections.abc import Iterable

from rebalance_model.observe.rules.rule import CLEAR, OF_BROKER, Advice, ClusterRule, Evidence, Holds, Verdict
from rebalance_model.observe.state import Delayed, WaitingLevel
from rebalance_model.observe.step import ClusterStep

CODE = "DELAYED_STUCK"
COVERED_INTERVALS = 3
"""Answers further apart than this many poll intervals do not show that the broker moved no message between them."""
_MINUTE = 60_000
DELAYS = (1_000, 5_000, 10_000, 30_000, *(n * _MINUTE for n in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 30, 60, 120)))
"""The delays of the levels, from 1 on (MessageStoreConfig.messageDelayLevel); milliseconds."""


def noted(
    former: Delayed | None, levels: Iterable[tuple[int, int, int]], timer_behind: int, now: int, poll_interval: int
) -> Delayed:
    """Return what is known of a broker's delayed messages with another answer.

    Args:
        former: what was known before.
        levels: the levels in which messages wait: level, offset of the next one, and newest offset.
        timer_behind: how far it is behind with its timer wheel, milliseconds; 0: no message is in it.
        now: when the answer was reported.
        poll_interval: how often brokers are asked, milliseconds.
    """
    is_covered = former is not None and now - former.at <= COVERED_INTERVALS * poll_interval
    before = former.levels if former is not None and is_covered else {}
    waiting = {}
    for level, offset, newest in levels:
        last = before.get(level)
        since = last.since if last is not None and last.offset == offset else now
        waiting[level] = WaitingLevel(offset, newest, since)
    return Delayed(now, waiting, timer_behind)


def judge(step: ClusterStep, broker: str) -> Verdict:
    """Check for how long the broker has moved no message of a level, and how far it is behind with its timer."""
    view = step.state.brokers.get(broker)
    delayed = view.delayed if view is not None else None
    if delayed is None:
        return CLEAR
    if step.now - delayed.at > COVERED_INTERVALS * step.policy.poll_interval:
        return None
    if (late := _latest(delayed)) is not None and late[1] > step.policy.delayed_stuck_after:
        return Holds("critical", "DELAY_LEVEL", stamp=delayed.levels[late[0]].since)
    return Holds("critical", "TIMER") if delayed.timer_behind > step.policy.delayed_stuck_after else CLEAR


def evidence(step: ClusterStep, broker: str) -> Evidence:
    """Return the level whose first message is overdue for longest, or how far the timer is behind."""
    view, limit = step.state.brokers.get(broker), step.policy.delayed_stuck_after
    delayed = view.delayed if view is not None else None
    if delayed is None:
        return {"limit_ms": limit}
    late, fields = _latest(delayed), Evidence(limit_ms=limit)
    if delayed.timer_behind:
        fields["timer_behind_ms"] = delayed.timer_behind
    if late is None:
        return fields
    level, overdue = late
    waiting = delayed.levels[level]
    return fields | {
        "level": level,
        "delay_ms": DELAYS[level - 1],
        "commit_offset": waiting.offset,
        "broker_offset": waiting.newest,
        "messages": waiting.newest - waiting.offset,
        "overdue_ms": max(0, overdue),
    }


def _latest(delayed: Delayed) -> tuple[int, int] | None:
    """Return the level whose first message is overdue for longest, and for how long at least (ms); or None."""
    overdue = {
        level: delayed.at - one.since - DELAYS[level - 1]
        for level, one in delayed.levels.items()
        if 0 < level <= len(DELAYS)
    }
    level = max(overdue, key=lambda number: overdue[number], default=None)
    return (level, overdue[level]) if level is not None else None


RULE = ClusterRule(
    CODE,
    judge,
    evidence,
    title="Broker {subject} no longer delivers delayed messages and retries",
    units={
        "limit_ms": "ms",
        "timer_behind_ms": "ms",
        "level": "count",
        "delay_ms": "ms",
        "commit_offset": "offset",
        "broker_offset": "offset",
        "messages": "messages",
        "overdue_ms": "ms",
    },
    sub_causes=("DELAY_LEVEL", "TIMER"),
    needs=("POLLS",),
    absorbed_by=OF_BROKER,
    advice={
        "DELAY_LEVEL": Advice(
            short="one delay level stands",
            what=(
                "Messages of a delay level are overdue, and the broker moves none of them to their topics: delayed "
                "messages, and retries of refused ones, do not come."
            ),
            first_step=(
                "Read the broker's store.log and storeerror.log for ScheduleMessageService; compare the level's offset "
                "in delayOffset.json with its queue (mqadmin brokerStatus, scheduleMessageOffset), and restart the "
                "broker."
            ),
            inspect=("BROKERS",),
        ),
        "TIMER": Advice(
            short="its timer wheel stands",
            what="Timer messages are overdue: the broker reads its timer wheel too slowly, or no longer.",
            first_step="Read the broker's log for TimerMessageStore, and look at its disk; restart the broker.",
            inspect=("BROKERS",),
        ),
    },
)
