"""A log has an id by which another one of the same name is told from it."""

import shutil

import pytest

from streaming.log.files import FilePublisher
from streaming.log.identity import LogId, log_id

UNKNOWN = LogId()


@pytest.mark.parametrize(
    ("kept", "now", "is_other"),
    [
        (UNKNOWN, LogId("c", "t"), False),  # of an earlier release
        (LogId("c", "t"), LogId("c", "t"), False),
        (LogId("c", "t"), LogId("c", "u"), True),
        (LogId("c", "t"), LogId("d", "t"), True),
        (LogId("c", ""), LogId("c", "t"), False),  # Kafka was upgraded to 2.8
        (LogId("c", "t"), LogId("c", ""), False),  # and back
        (LogId("", "f"), LogId("", "f"), False),
        (LogId("", "f"), LogId("", "g"), True),
        (LogId("", "f"), UNKNOWN, True),  # a folder that was made by hand
        (UNKNOWN, UNKNOWN, False),
    ],
)
def test_a_log_is_another_one_if_an_id_is_known_to_differ(kept, now, is_other):
    assert kept.is_other(now) is is_other


def test_what_is_not_known_now_is_kept():
    assert LogId("c", "").completed_by(LogId("b", "t")) == LogId("c", "t")


def test_a_file_log_keeps_its_id_and_one_that_is_made_again_has_another(tmp_path, settings_in):
    settings = settings_in(tmp_path)
    assert log_id(settings) is None
    ids = []
    for _ in range(2):
        for _ in range(2):
            FilePublisher(settings.log_path, 1).close()
            ids.append(log_id(settings))
        shutil.rmtree(settings.log_path)
    assert ids[0] == ids[1]
    assert ids[2] == ids[3]
    assert ids[0].is_other(ids[2])


def test_a_file_log_of_an_earlier_release_has_none_until_it_is_written(tmp_path, settings_in):
    settings = settings_in(tmp_path)
    settings.log_path.mkdir()
    assert log_id(settings) == UNKNOWN
    FilePublisher(settings.log_path, 1).close()
    assert log_id(settings) != UNKNOWN
