"""Health of a process, by a clock that the test has."""

from streaming.base.health import Health, TaskHealth


class Clock:
    now = 1_000_000

    def __call__(self):
        return self.now


def health_of(age_ms_max=60_000):
    clock = Clock()
    health = Health(clock)
    return clock, health, health.task("round", age_ms_max)


def test_a_process_is_not_ready_before_its_first_round():
    clock, health, _ = health_of()
    clock.now += 5_000
    assert health.now().tasks == (
        TaskHealth("round", ready=False, time=None, age_ms=5_000, reason="no round has finished since the start"),
    )
    assert not health.now().ready


def test_a_process_is_ready_while_its_last_round_is_recent():
    clock, health, task = health_of()
    task.done()
    clock.now += 60_000
    assert health.now().tasks == (TaskHealth("round", ready=True, time=1_000_000, age_ms=60_000),)
    clock.now += 1
    [found] = health.now().tasks
    assert (found.ready, found.reason) == (False, "no round has finished for 60 s (at most 60)")


def test_the_last_failure_is_the_reason_until_a_round_succeeds():
    clock, health, task = health_of()
    task.done()
    task.failed("the disk is full")
    assert health.now().ready
    clock.now += 60_001
    assert health.now().tasks[0].reason == "the disk is full"
    task.done()
    assert health.now().tasks[0].reason == ""


def test_a_process_is_ready_if_all_of_its_tasks_are():
    _, health, task = health_of()
    other = health.task("write", 1_000)
    task.done()
    assert not health.now().ready
    other.done()
    assert health.now().ready


def test_a_clock_that_is_set_back_makes_no_negative_age():
    clock, health, task = health_of()
    task.done()
    clock.now -= 10_000
    assert health.now().tasks[0].age_ms == 0


def test_a_note_is_shown_until_the_task_is_done_again():
    _, health, task = health_of()
    task.done("waits for a")
    assert [(one.ready, one.reason) for one in health.now().tasks] == [(True, "waits for a")]
    task.done()
    assert health.now().tasks[0].reason == ""


def test_a_task_that_is_not_repeated_any_more_is_forgotten():
    _, health, task = health_of()
    other = health.task("other", 1)
    other.done()
    health.remove(task)
    assert [one.task for one in health.now().tasks] == ["other"]
    assert health.now().ready
