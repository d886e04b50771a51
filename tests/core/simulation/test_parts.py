"""Chance, time, processes and connections of a simulated cluster."""

import pytest

from simulation.message_log import SentBackLog, SteadyLog
from simulation.name_server import NameServer
from simulation.process import Process, Promise
from simulation.rocketmq.client.host import BrokerError
from simulation.scheduler import MS, Clock, Scheduler
from simulation.splitmix import SplitMix64


def test_the_generator_is_splitmix64():
    # The sequence that the reference implementation gives for this seed.
    generator = SplitMix64(1234567)
    assert [generator.next() for _ in range(4)] == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
    ]


def test_the_generators_forms_keep_their_limits():
    generator = SplitMix64(1)
    assert {generator.between(3, 5) for _ in range(100)} == {3, 4, 5}
    assert {generator.choice("ab") for _ in range(100)} == {"a", "b"}
    assert not any(generator.chance(0) for _ in range(100))
    assert all(generator.chance(1) for _ in range(100))
    assert 400 < sum(generator.chance(0.5) for _ in range(1000)) < 600


def test_events_of_one_time_happen_in_the_order_of_insertion():
    scheduler, done = Scheduler(0), []
    scheduler.after(5, lambda: done.append("b"))
    scheduler.after(2, lambda: scheduler.after(3, lambda: done.append("c")))
    scheduler.at(-1, lambda: done.append("a"))
    scheduler.run_until(5)
    assert done == ["a", "b", "c"]
    assert scheduler.now == 5


def test_what_was_missed_is_played_in_the_past_and_goes_on_in_the_present():
    scheduler, seen = Scheduler(0), []
    scheduler.at(9, lambda: seen.append(("other", scheduler.now)))
    scheduler.run_until(6)

    def missed():
        seen.append(("missed", scheduler.now))
        scheduler.after(2, lambda: seen.append(("then", scheduler.now)))
        scheduler.after(5, lambda: seen.append(("later", scheduler.now)))

    scheduler.alone(3, 0, missed)
    assert (seen, scheduler.now) == ([("missed", 3), ("then", 5)], 6)
    scheduler.run_until(10)
    assert seen[2:] == [("later", 8), ("other", 9)]


def test_what_is_made_up_for_keeps_its_place_among_simultaneous_events():
    scheduler, seen = Scheduler(0), []

    def look():
        scheduler.alone(3, 0, missed)
        seen.append("look")

    def missed():
        scheduler.after(3, lambda: seen.append("late"))

    scheduler.run_until(2)
    scheduler.at(6, look)  # before the missed call put in its own
    scheduler.run_until(10)
    assert seen == ["look", "late"]
    seen.clear()
    scheduler.at(20, lambda: scheduler.at(26, look_again))

    def look_again():
        scheduler.alone(13, 0, lambda: scheduler.after(13, lambda: seen.append("early")))
        seen.append("look")

    scheduler.run_until(30)
    assert seen == ["early", "look"]
    assert (scheduler.has_run(29, 0), scheduler.has_run(31, 0)) == (True, False)


def test_a_wrong_clock_shows_a_stamp_at_its_own_time():
    scheduler = Scheduler(1_234_567)
    clock = Clock(scheduler, offset=-300)
    assert clock.now() == 934
    scheduler.run_until(clock.true_time(1000) - 1)
    assert clock.now() == 999
    scheduler.run_until(clock.true_time(1000))
    assert clock.now() == 1000


def _counting(process, seen):
    async def count():
        for number in range(5):
            seen.append(number)
            await process.sleep_until(process.scheduler.now + 10)

    return count()


def test_a_frozen_process_goes_on_where_it_was_and_a_dead_one_does_not():
    scheduler, seen = Scheduler(0), []
    process = Process(scheduler)
    process.spawn(_counting(process, seen))
    scheduler.run_until(15)
    process.freeze()
    scheduler.run_until(100)
    assert seen == [0, 1]
    process.thaw()
    scheduler.run_until(111)
    assert seen == [0, 1, 2, 3]
    process.kill()
    scheduler.run_until(1000)
    assert seen == [0, 1, 2, 3]


def test_the_first_outcome_of_a_promise_counts():
    process, seen = Process(Scheduler(0)), []

    async def wait(promise):
        try:
            seen.append(await promise)
        except BrokerError as error:
            seen.append(str(error))

    resolved, rejected = Promise(), Promise()
    process.spawn(wait(resolved))
    resolved.resolve(1)
    resolved.reject(BrokerError("late"))
    rejected.reject(BrokerError("no"))
    rejected.resolve(2)
    process.spawn(wait(rejected))
    assert seen == [1, "no"]


@pytest.mark.parametrize(("now", "newest"), [(99, 0), (100, 1), (109, 1), (110, 2), (1000, 91)])
def test_a_steady_log_computes_its_messages(now, newest):
    log = SteadyLog(100, 10)
    assert log.max_offset(now) == newest
    assert newest == 0 or log.arrival(newest - 1) <= now < log.arrival(newest)


def test_a_log_that_stops_gets_nothing_more():
    log = SteadyLog(100, 10)
    log.stop(125)
    assert log.max_offset(1000) == 3
    assert log.arrival(2) == 120
    assert log.arrival(3) is None
    assert (SteadyLog(0, None).max_offset(99), SteadyLog(0, None).arrival(0)) == (0, None)


def test_a_retry_log_has_its_messages_by_the_ends_of_their_delays():
    log = SentBackLog()
    for time in (30, 10, 20):
        log.append(time)
    assert [log.max_offset(time) for time in (9, 10, 25, 30)] == [0, 1, 2, 3]
    assert (log.arrival(0), log.arrival(2), log.arrival(3)) == (10, 30, None)


def test_a_route_has_the_queues_of_the_brokers_that_are_there():
    name_server = NameServer()
    assert name_server.route("T") is None
    name_server.register("T", "b", 1)
    name_server.register("T", "a", 2)
    assert list(map(str, name_server.route("T"))) == ["T@a:0", "T@a:1", "T@b:0"]
    assert name_server.route("T") is name_server.route("T")
    name_server.unregister("a")
    assert list(map(str, name_server.route("T"))) == ["T@b:0"]
    name_server.unregister("b")
    assert name_server.route("T") is None


def test_milliseconds_are_thousands_of_the_clocks_unit():
    assert MS == 1000
