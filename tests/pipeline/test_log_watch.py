"""A log that is made again while the job runs ends the job; a Kafka that does not answer does not."""

import shutil

import pytest

from streaming.base.errors import UserError
from streaming.log.files import FilePublisher
from streaming.log.identity import log_id
from streaming.pipeline import job_watch
from streaming.pipeline.job_watch import LogWatch
from tests.support.waiting import until


@pytest.fixture
def settings(settings_in, tmp_path):
    settings = settings_in(tmp_path)
    FilePublisher(settings.log_path, 1).close()
    return settings


@pytest.fixture
def watch(settings):
    return LogWatch(settings, "files /log", log_id(settings))


def test_a_log_that_is_made_again_is_an_error_of_the_next_check(settings, watch, monkeypatch):
    monkeypatch.setattr(job_watch, "LOOK_SECONDS", 0.01)
    with watch:
        watch.check()
        shutil.rmtree(settings.log_path)
        FilePublisher(settings.log_path, 1).close()
        until(lambda: watch._error, 100)
        with pytest.raises(UserError, match="it was created again, or is in another cluster"):
            watch.check()


def test_a_log_is_gone_only_after_some_looks(settings, watch):
    shutil.rmtree(settings.log_path)
    watch.inspect()
    watch.inspect()
    with pytest.raises(UserError, match=r"The log \(files /log\) .* is gone"):
        watch.inspect()


def test_a_log_that_is_gone_explains_the_failure_of_a_query_at_once(settings, watch):
    watch.explain()
    shutil.rmtree(settings.log_path)
    with pytest.raises(UserError, match="is gone"):
        watch.explain()


def test_a_log_that_is_away_for_a_moment_is_no_error(settings, watch):
    moved = settings.log_path.with_name("moved")
    for _ in range(5):
        settings.log_path.rename(moved)
        watch.inspect()
        moved.rename(settings.log_path)
        watch.inspect()


def test_a_kafka_that_does_not_answer_says_nothing(settings, watch, monkeypatch):
    def away(_):
        raise UserError("Kafka does not answer")

    monkeypatch.setattr(job_watch, "log_id", away)
    for _ in range(5):
        watch.inspect()
