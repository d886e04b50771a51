"""Retry and dead-letter topics of a group: what they have, and how much was added within the last hour."""

from rebalance_model.observe.effects import QueueProgress
from streaming.queries.group_at import GroupAt
from streaming.queries.groups import failed_messages
from streaming.tables import ReadModel
from tests.support.tables import append, make_tables

MINUTE = 60_000
RETRY, DEAD = "%RETRY%orders", "%DLQ%orders"


def asked(tmp_path, at, *answers):
    """The answer about minute ``at``; ``answers`` are minute, kind and arrays of a queue each."""
    rows = [
        QueueProgress(
            cluster="c", group="orders", broker="b", time=minute * MINUTE, asked_at=None, interval_ms=MINUTE,
            source="POLL", kind=kind, topic=(topic,), queue_id=(0,),
            **{name: (value,) for name, value in arrays.items()},
        )
        for minute, kind, topic, arrays in answers
    ]  # fmt: skip
    append(make_tables(tmp_path), rows)
    with ReadModel(tmp_path) as model:
        return failed_messages(model, GroupAt("c", "orders", at * MINUTE))


def dead(minute, low, high, stored_at=None):
    return minute, "TOPIC_STATS", DEAD, {"min_offset": low, "broker_offset": high, "stored_at": stored_at}


def retry(minute, offset, lag):
    return minute, "CONSUME_STATS", RETRY, {"broker_offset": offset, "lag": lag}


def test_growth_is_counted_over_the_last_hour(tmp_path):
    found = asked(tmp_path, 90, *(dead(minute, 2, 10 + minute // 10, 5) for minute in range(91)))
    [letters] = found
    assert (letters.given_up, letters.broker, letters.messages) == (True, "b", 17)
    assert (letters.added, letters.added_ms) == (6, 60 * MINUTE)
    assert (letters.newest_at, letters.time, letters.age_ms) == (5, 90 * MINUTE, 0)
    assert not letters.is_stale


def test_growth_counts_from_the_first_answer_if_it_is_within_the_hour(tmp_path):
    [letters] = asked(tmp_path, 20, *(dead(minute, 0, minute) for minute in range(5, 21)))
    assert letters.messages == 20
    assert (letters.added, letters.added_ms) == (15, 15 * MINUTE)


def test_messages_to_be_tried_again_are_the_lag_of_the_retry_topic(tmp_path):
    [waiting] = asked(tmp_path, 9, retry(1, 4, 0), retry(9, 9, 3))
    assert (waiting.given_up, waiting.messages, waiting.added) == (False, 3, 5)


def test_a_retry_topic_that_never_had_a_message_has_none(tmp_path):
    [waiting] = asked(tmp_path, 9, retry(9, 0, None))
    assert (waiting.messages, waiting.added) == (0, 0)


def test_a_retry_topic_without_a_commit_is_unknown(tmp_path):
    [waiting] = asked(tmp_path, 9, retry(9, 6, None))
    assert waiting.messages is None


def test_no_topic_is_no_dead_letters_and_no_answer_is_unknown(tmp_path):
    [letters] = asked(tmp_path, 9, dead(9, 0, 0))
    assert (letters.messages, letters.added, letters.newest_at) == (0, 0, None)


def test_an_old_answer_is_stale_and_then_nothing_is_known(tmp_path):
    [letters] = asked(tmp_path / "a", 12, dead(9, 0, 3))
    assert (letters.is_stale, letters.age_ms) == (True, 3 * MINUTE)
    assert asked(tmp_path / "b", 25, dead(9, 0, 3)) == []


def test_growth_of_a_topic_that_was_deleted_meanwhile_is_unknown(tmp_path):
    [letters] = asked(tmp_path, 9, dead(1, 0, 30), dead(9, 0, 2))
    assert (letters.messages, letters.added) == (2, None)


def test_what_came_later_is_not_known_yet(tmp_path):
    [letters] = asked(tmp_path, 9, dead(8, 0, 3), dead(10, 0, 4))
    assert letters.messages == 3
