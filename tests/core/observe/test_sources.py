"""Which sources speak: by the clocks of the others, whatever those show."""

from rebalance_model.observe.sources import Sources

AFTER = 15_000


class Log:
    """Ticks of several sources, every second of true time; each clock is off by its own."""

    def __init__(self, *names: str) -> None:
        self.sources, self.at, self.names = Sources(), 0, names
        self.off = {"poll": 0, "a": 10_800_000, "b": -5_400_000}
        self.told: list[tuple[int, str]] = []

    def run(self, until: int, *silent: str, step: int = 1) -> "Log":
        while self.at < until:
            self.at += step
            for name in self.names:
                if name not in silent:
                    self.tick(name, self.at * 1000 + self.off[name])
        return self

    def tick(self, name: str, time: int) -> None:
        if self.sources.hear(name, time, AFTER):
            self.told.append((self.at, f"{name} again"))
        self.told += [(self.at, name) for name in self.sources.fallen_silent(AFTER)]


def test_nobody_is_silent_while_all_tick():
    assert Log("poll", "a", "b").run(300).told == []


def test_a_source_is_silent_past_15_s_and_told_of_once_until_it_ticks_again():
    log = Log("poll", "a", "b").run(100).run(140, "a").run(150)
    assert log.told == [(116, "a"), (141, "a again")]


def test_the_pace_itself_may_fall_silent_and_the_others_live_on():
    log = Log("poll", "a", "b").run(100)
    assert log.sources.pace == "poll"
    log.run(140, "poll").run(180)
    assert log.told == [(116, "poll"), (141, "poll again")]
    assert log.sources.pace == "a"
    assert log.run(220, "a").told[2:] == [(196, "a")]


def test_of_two_that_fall_silent_at_once_the_pace_is_told_first():
    """The other has ticked since the pace has: how long ago, only the new pace's ticks tell."""
    log = Log("poll", "a", "b").run(100).run(140, "poll", "a")
    assert log.told == [(116, "poll"), (132, "a")]


def test_one_source_alone_has_nobody_to_say_that_it_is_silent():
    log = Log("a").run(10)
    log.at = 500
    assert log.run(510).told == []


def test_when_all_have_stood_still_nobody_was_silent():
    log = Log("poll", "a", "b").run(100)
    log.at = 5_000
    assert log.run(5_100).told == []


def test_a_clock_that_is_set_silences_nobody():
    log = Log("poll", "a", "b").run(100)
    for name, moved in (("poll", 3_600_000), ("a", -3_600_000)):
        log.off[name] += moved
        log.run(log.at + 14)
    assert log.told == []


def test_a_source_that_ticks_seldom_is_given_two_of_its_intervals():
    """A collector of very many brokers: every 20 s."""
    log = Log("a", "b").run(10)
    for at in range(20, 101, 20):
        log.run(at)
        log.tick("poll", at * 1000)
    assert log.run(139).told == []
    assert log.run(142).told == [(141, "poll")]


def test_a_source_of_one_tick_is_given_a_minute():
    log = Log("a", "b").run(10)
    log.tick("poll", 10_000)
    assert log.run(70).told == []
    assert log.run(72).told == [(71, "poll")]


def test_the_same_tick_once_more_lets_no_time_pass():
    log = Log("poll", "a").run(10)
    before = log.sources.elapsed
    for _ in range(50):
        log.tick("poll", 10_000)
    assert log.sources.elapsed == before
    assert log.told == []
