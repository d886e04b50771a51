"""Sources that are waited for, silent, late or ended; and corrections of wrong clocks."""

from rebalance_model.observe.engine import ordering
from rebalance_model.observe.engine.ordering import Ordering, Waiting
from rebalance_model.observe.events import BrokerStatus, ClockSeen, Tick
from rebalance_model.observe.policy import Policy
from rebalance_model.observe.state.clocks import Clocks

START = 1_800_000_000_000
BROKERS = {"poll": "", "a": "broker-a", "b": "broker-b"}


class Log:
    """Ticks of several sources, every second of true time."""

    def __init__(self, *names: str) -> None:
        self.ordering, self.at, self.names = Ordering(Waiting(), [], Policy()), 0, names
        self.out_of_wait: list[tuple[int, str, str]] = []
        """When it was known, which source, and why."""

    def run(self, until: int, *silent: str, step: int = 1, behind: tuple[str, int] = ("", 0)) -> "Log":
        while self.at < until:
            self.at += step
            for name in self.names:
                if name not in silent:
                    self.tick(name, self.at - (behind[1] if name == behind[0] else 0))
        return self

    def tick(self, name: str, at: int, *, end: bool = False) -> None:
        common = {"cluster": "c", "broker": BROKERS[name], "source": "hook" if BROKERS[name] else "poll"}
        tick = Tick(time=START + 1000 * at, source_id=f"{name}@1", seq=at + 1, end=end, **common)
        self.ordering.push(tick, START + 1000 * self.at, 1)
        for _ in self.ordering.released(()):
            pass
        self.out_of_wait += [(self.at, out.source[2:], out.why) for out in self.ordering.out_of_wait()]

    @property
    def watermark(self) -> int:
        """Seconds since the start."""
        return (self.ordering.state.watermark - START) // 1000


def test_no_source_is_silent_while_all_tick():
    log = Log("poll", "a", "b").run(300)
    assert (log.out_of_wait, log.watermark) == ([], 300)


def test_a_source_is_waited_for_past_15_s_and_two_intervals_and_no_longer():
    log = Log("poll", "a", "b").run(100).run(117, "a")
    assert (log.out_of_wait, log.watermark) == ([], 100)
    log.run(140, "a")
    assert log.out_of_wait == [(118, "a", "SILENT")]
    assert log.watermark > 130
    log.run(160)
    assert (len(log.out_of_wait), log.watermark) == (1, 160)


def test_a_source_whose_ticks_stay_behind_is_late_until_it_keeps_up():
    log = Log("poll", "a").run(60, "a").run(180, behind=("a", 60))
    assert [out_of_wait[1:] for out_of_wait in log.out_of_wait] == [("a", "LATE")]
    assert log.watermark > 170
    log.run(200)
    assert not log.ordering.is_late("c/a")


def test_a_source_that_is_behind_by_less_is_waited_for():
    log = Log("poll", "a").run(100).run(180, behind=("a", 15))
    assert (log.out_of_wait, log.watermark) == ([], 165)


def test_a_buffer_that_is_full_waits_for_the_furthest_behind_no_longer(monkeypatch):
    """Before its time: so much has come of the others that it would not fit."""
    log = Log("poll", "a", "b").run(100)
    log.run(102, "a")
    assert (log.out_of_wait, log.watermark) == ([], 100)
    monkeypatch.setattr(ordering, "EVENTS_MAX", 3)
    log.run(103, "a")
    assert (log.out_of_wait, log.watermark) == ([(103, "a", "BUFFER_FULL")], 103)
    log.run(110)
    assert not log.ordering.is_late("c/a")


def test_a_single_source_is_never_detected_as_silent():
    log = Log("a").run(30)
    log.at = 500
    assert log.run(510).out_of_wait == []


def test_no_source_is_silent_after_all_have_paused():
    log = Log("poll", "a", "b").run(100)
    log.at = 5_000
    assert log.run(5_100).out_of_wait == []


def test_a_source_that_ends_is_not_waited_for_and_not_reported_silent():
    log = Log("poll", "a").run(100)
    log.tick("a", 101, end=True)
    log.run(150, "a")
    assert (log.out_of_wait, log.watermark >= 145) == ([], True)


def test_the_same_tick_once_more_lets_no_time_pass():
    log = Log("poll", "a").run(30)
    before = log.ordering.state.elapsed
    for _ in range(50):
        log.tick("poll", 30)
    assert (log.ordering.state.elapsed, log.out_of_wait) == (before, [])


def test_of_two_clocks_the_one_far_from_the_timeline_is_corrected():
    """The host of the collector has booted an hour ahead, and its first request shows only that the two differ."""
    log, hour = Log(), 3_600
    asked = START + 1_000 * hour
    common = {"cluster": "c", "broker": "broker-a", "seq": 1, "asked": asked}
    seen = ClockSeen(time=START, source="hook", source_id="a@1", collector="poll@1", seen=START, **common)
    answer = BrokerStatus(time=asked, source="poll", source_id="poll@1", answered=asked, boot_time=1, **common)
    log.ordering.push(seen, START, 1)
    log.ordering.push(answer, START, 1)
    sources = log.ordering.state.sources
    assert (sources["c/poll"].correction, sources["c/a"].correction) == (0, -1_000 * hour)
    log.tick("poll", hour)
    assert (sources["c/poll"].correction, sources["c/a"].correction) == (1_000 * hour, 0)


# Clocks

QUESTION = ("c/poll", "broker-a", 1_000)


def test_a_clock_within_the_round_trip_is_left_as_it_is():
    clocks = Clocks()
    assert not clocks.note_sighting(QUESTION, "c/a", 1_010)
    assert not clocks.note_answer(QUESTION, 1_020)
    assert clocks.corrections == {}


def test_a_clock_50_minutes_ahead_is_corrected_within_the_round_trip():
    clocks = Clocks()
    clocks.note_answer(QUESTION, 1_020)
    assert clocks.note_sighting(QUESTION, "c/a", 3_001_010)
    assert abs(clocks.corrections["c/a"] - 3_000_000) <= 20


def test_a_delay_is_no_wrong_clock():
    """The sighting comes long after the answer, but carries its own time."""
    clocks = Clocks()
    clocks.note_answer(QUESTION, 1_020)
    for n in range(1, 20):
        clocks.note_answer(("c/poll", "broker-a", 1_000 + 10_000 * n), 1_020 + 10_000 * n)
    assert not clocks.note_sighting(QUESTION, "c/a", 1_010)
    assert clocks.corrections == {}
