"""MESSAGES_DEAD_LETTERED: messages went to the group's dead-letter topic, where no consumer gets them.

A concurrent consumer sends a message that its listener refuses back to the broker, which delivers it again by the retry
topic: 16 times by default, over 4 h 46 min (maxReconsumeTimes). Then it moves the message to ``%DLQ%<group>``. An
ordered message goes there only if maxReconsumeTimes is set.

Dead letters that were there before the first answer are no incident. Growth that is found after a gap in the telemetry
is: it is dated by the last answer before the gap. Clear when the answers of a while (`dead_letters_clear_after`) show
no more.
"""

from rebalance_model.entities import DEAD_LETTER_TOPIC_PREFIX
from rebalance_model.observe.rules.rule import CLEAR, Advice, Evidence, GroupRule, Holds, Verdict
from rebalance_model.observe.state.group import DeadLetters, added
from rebalance_model.observe.step import GroupStep

_HOUR = 3_600_000


def judge(step: GroupStep, _: str) -> Verdict:
    """Check whether messages were added in the present period of growth."""
    if not step.state.dead_letters:
        return None
    return Holds("warning") if added(step.state.dead_letters, step.policy.dead_letters_clear_after) else CLEAR


def evidence(step: GroupStep, _: str) -> Evidence:
    """Return how many messages were added since when, at which brokers and offsets, and how many the topic has."""
    by_broker = step.state.dead_letters
    grown = {broker: one for broker, one in sorted(by_broker.items()) if one.added}
    offsets_of = {broker: offsets for broker, one in grown.items() if (offsets := _still_there(one)) is not None}
    since = min((one.added_after for one in grown.values()), default=step.now)
    last = max((one.last_added_at for one in grown.values()), default=step.now)
    count = sum(one.added for one in grown.values())
    fields: Evidence = {
        "topic": f"{DEAD_LETTER_TOPIC_PREFIX}{step.state.group}",
        "added": count,
        "added_after": since,
        "last_added_at": last,
        "added_per_hour": round(count * _HOUR / max(last - since, 1)),
        "stored": sum(one.max_offset - one.min_offset for one in by_broker.values()),
        "offsets": ", ".join(f"{broker} {first}..{last}" for broker, (first, last) in offsets_of.items()),
    }
    if offsets_of:
        broker = max(offsets_of, key=lambda name: by_broker[name].last_added_at)
        fields |= {"broker": broker, "first_offset": offsets_of[broker][0]}
    return fields


def _still_there(letters: DeadLetters) -> tuple[int, int] | None:
    """Return the offsets of the first and the last added message that the topic still has; None: it has none."""
    first, last = max(letters.first_offset, letters.min_offset), letters.max_offset - 1
    return (first, last) if first <= last else None


RULE = GroupRule(
    "MESSAGES_DEAD_LETTERED",
    judge,
    evidence,
    follows=("DEAD_LETTERS",),
    title="Messages of {group} went to the dead-letter queue",
    units={
        "topic": "text",
        "added": "messages",
        "added_after": "epoch_ms",
        "last_added_at": "epoch_ms",
        "added_per_hour": "per_hour",
        "stored": "messages",
        "offsets": "text",
        "broker": "text",
        "first_offset": "offset",
    },
    needs=("DEAD_LETTERS",),
    advice={
        "": Advice(
            what="Messages have used up their attempts and went to the dead-letter topic: no consumer gets them.",
            first_step=(
                "Read one of them, and find in the clients' logs why the listener refuses it; once that is mended, "
                "send the dead letters again."
            ),
            inspect=("DEAD_LETTERS",),
        ),
    },
)
