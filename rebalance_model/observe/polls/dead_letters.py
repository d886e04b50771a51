"""Fold the offsets of a group's dead-letter topic (GET_TOPIC_STATS_INFO): has it got messages since the last answer?

The first answer of a broker is where counting begins. A lower offset than before means that the topic was deleted, or
that the broker has lost messages: counting begins again there. A slave may be behind its master, so a lower offset of
a slave means nothing.
"""

from rebalance_model.entities import DEAD_LETTER_TOPIC_PREFIX, bounded
from rebalance_model.observe.events import TopicStats
from rebalance_model.observe.state.group import DeadLetters, added
from rebalance_model.observe.step import GroupStep

_MASTER = 0
_QUEUE = 0
"""A broker writes to this queue only, however many the topic has (AbstractSendMessageProcessor.DLQ_NUMS_PER_GROUP)."""


def fold_dead_letters(step: GroupStep, event: TopicStats) -> None:
    """Compare the broker's offset with that of its answer before; an answer without a topic means offset 0."""
    step.changed("REPORT")
    if event.queues is None or event.topic != f"{DEAD_LETTER_TOPIC_PREFIX}{event.group}":
        return
    state, broker = step.state, event.broker
    row = next((one for one in event.queues if one.mq.queue_id == _QUEUE), None)
    low, high = (row.min_offset, row.max_offset) if row is not None else (0, 0)
    letters = state.dead_letters.get(broker)
    if letters is not None and (
        event.asked < letters.asked or (high < letters.max_offset and event.broker_id != _MASTER)
    ):
        return
    growing = added(state.dead_letters, step.policy.dead_letters_clear_after)
    _forget_brokers(step)
    if growing:
        step.changed("DEAD_LETTERS")
    if letters is None:
        state.dead_letters[broker] = DeadLetters(event.asked, step.now, low, high)
        return
    if high > letters.max_offset:
        step.changed("DEAD_LETTERS")
        if not growing:
            for one in state.dead_letters.values():
                one.added = 0
        if not letters.added:
            letters.first_offset, letters.added_after = letters.max_offset, letters.asked
        letters.added = bounded(letters.added + high - letters.max_offset)
        letters.last_added_at = step.now
    elif high < letters.max_offset:
        letters.first_offset = high
    letters.asked, letters.time, letters.min_offset, letters.max_offset = event.asked, step.now, low, high


def _forget_brokers(step: GroupStep) -> None:
    """Forget brokers that have not answered for so long that they are gone."""
    known = step.state.dead_letters
    for broker in [name for name, one in known.items() if step.now - one.time > step.policy.group_memory]:
        del known[broker]
