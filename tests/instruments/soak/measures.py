"""Measures of a soak: what must stay flat, what may grow with the data, and whether it did."""

import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

from tests.instruments.soak.picture import Series, per_minute
from tests.instruments.soak.records import Soaked, Used

NOT_OURS = {"Kafka", "lab: consumer", "lab: producer", "lab: name server", "run children", "sender", "soak"}
"""Processes that are not judged: no part of the product. A broker is, because it has our hook."""
SPEED_MINUTES = 8
"""The length of the periods for which the speed of the machine is measured."""
MB = 1e6
_PARTS_OF_WINDOW = 9


@dataclass(frozen=True)
class Measure:
    """Something that must not grow, and by how much it may seem to within the window that is judged."""

    name: str
    series: Series
    share: float
    """Of the median."""
    least: float
    """Tolerated in any case, in the unit of the values."""


@dataclass(frozen=True)
class Trend:
    """The growth of a measure over the last two thirds of a run."""

    measure: Measure
    median: float
    growth: float
    """By the slope of Theil and Sen, over the length of the window."""

    @property
    def tolerated(self) -> float:
        """The growth that is tolerated."""
        return max(self.measure.share * self.median, self.measure.least)

    @property
    def is_flat(self) -> bool:
        """Return whether it has not grown by more than is tolerated."""
        return self.growth <= self.tolerated


def trend(measure: Measure) -> Trend | None:
    """Return the trend of the medians of equal parts, which restarts move less than values; None: hardly measured."""
    series = [one for one in measure.series if one[0] >= measure.series[-1][0] / 3]
    if len(series) < _PARTS_OF_WINDOW:
        return None
    begin, length = series[0][0], series[-1][0] - series[0][0]
    parts: list[list[float]] = [[] for _ in range(_PARTS_OF_WINDOW)]
    for minute, value in series:
        parts[min(int((minute - begin) / length * _PARTS_OF_WINDOW), _PARTS_OF_WINDOW - 1)].append(value)
    medians = [(number / _PARTS_OF_WINDOW, statistics.median(values)) for number, values in enumerate(parts) if values]
    slopes = [(later - former) / (end - start) for (start, former), (end, later) in combinations(medians, 2)]
    return Trend(measure, statistics.median(value for _, value in series), statistics.median(slopes))


@dataclass
class _Period:
    """The events that were sent in some minutes."""

    rows: int = 0
    cpu: float = 0.0
    """The sender's seconds of processor time."""


def measures_of(soaked: Soaked) -> list[Measure]:
    """Return all that must stay flat; minutes from the first sample."""
    found = [*_of_processes(soaked), *_of_times(soaked), *_of_files(soaked)]
    return [one for one in found if one.series]


def _of_processes(soaked: Soaked) -> Iterator[Measure]:
    for kind in sorted({kind for sample in soaked.samples for kind in sample.processes} - NOT_OURS):
        used = [(soaked.minute(one.time), one.processes[kind]) for one in soaked.samples if kind in one.processes]
        used = [(minute, one) for minute, one in used if one.processes]
        rss = [(minute, one.rss / MB) for minute, one in used]
        yield Measure(f"{kind}: memory (RSS), MB", rss, 0.10, 40)
        yield Measure(f"{kind}: open files", [(minute, one.files) for minute, one in used], 0.10, 15)


def _of_times(soaked: Soaked) -> Iterator[Measure]:
    slowness = slowness_of(soaked)
    scrapes = [(soaked.minute(one.time), one.scrape) for one in soaked.samples if one.scrape is not None]
    yield Measure("dashboard: metrics and all groups, s", _at_one_speed(scrapes, slowness), 0.20, 2)
    for query in ("operator", "archive"):
        batches = [line for line in soaked.said if line.get("query") == query and line["ms"] and line.get("rows")]
        usual = statistics.median(line["rows"] for line in batches) if batches else 0
        whole = [line for line in batches if line["rows"] >= usual / 2]  # a small one mostly begins and ends
        timed = [(soaked.minute(line["at"]), line["ms"] / line["rows"] * 1000) for line in whole]
        per_row = per_minute(_at_one_speed(timed, slowness), statistics.median)
        yield Measure(f"{query}: ms for 1,000 rows", per_row, 0.20, 0)
        lag = [(soaked.minute(one.time), one.lag[query]) for one in soaked.samples if query in one.lag]
        yield Measure(f"{query}: rows behind Kafka", lag, 0.20, 10_000)
    sent = [(soaked.minute(one.time), sum(one.end.values())) for one in soaked.samples if one.end]
    yield Measure("Kafka: rows a second", _rates(sent), 0.05, 0)


def _of_files(soaked: Soaked) -> Iterator[Measure]:
    for name in sorted({name for sample in soaked.samples for name in sample.files}):
        counted = [(soaked.minute(one.time), one.files[name]) for one in soaked.samples if name in one.files]
        if name.startswith("table "):
            live = [(minute, one.live) for minute, one in counted if one.live is not None]
            yield Measure(f"{name}: live files", live, 0.25, 25)
        else:
            yield Measure(f"{name}: files", [(minute, one.files) for minute, one in counted], 0.25, 100)


def slowness_of(soaked: Soaked) -> dict[float, float]:
    """Return how slow the machine was in each period, by its first minute, as a multiple of the run's median.

    The sender does the same for each event all the time, so what it needs for one shows the speed of the machine,
    which on this kind of machine changes by a quarter within an hour.
    """
    costs = {begin: one.cpu / one.rows for begin, one in _periods(soaked).items()}
    return {begin: cost / statistics.median(costs.values()) for begin, cost in costs.items()}


def speed_of(soaked: Soaked) -> str:
    """Return a sentence about the times that are judged."""
    factors = slowness_of(soaked).values() or [1.0]
    return (
        "Times are those of a machine that is equally fast all the time: divided by what the sender needed for an "
        f"event, {min(factors):.2f} to {max(factors):.2f} times its median."
    )


def _rates(counts: Series) -> Series:
    """Return the growth of a counter a second, over each minute."""
    minutes = {int(minute): (minute, count) for minute, count in counts}
    pairs = pairwise(minutes.values())
    return [(later, (more - less) / (later - former) / 60) for (former, less), (later, more) in pairs]


def _at_one_speed(series: Series, slowness: Mapping[float, float]) -> Series:
    return [(minute, value / slowness.get(_period(minute), 1.0)) for minute, value in series]


def _period(minute: float) -> float:
    """Return the first minute of the period of a minute."""
    return minute // SPEED_MINUTES * SPEED_MINUTES


def _periods(soaked: Soaked) -> dict[float, _Period]:
    """Return what was sent in each period, by its first minute; not while Kafka was away or the sender was new."""
    periods: dict[float, _Period] = defaultdict(_Period)
    for before, sample in pairwise(soaked.samples):
        rows = sum(sample.end.values()) - sum(before.end.values())
        cpu = sample.processes.get("sender", Used()).cpu - before.processes.get("sender", Used()).cpu
        if before.end and rows > 0 and cpu > 0:
            period = periods[_period(soaked.minute(before.time))]
            period.rows += rows
            period.cpu += cpu
    return dict(periods)


def growing_of(soaked: Soaked) -> list[tuple[str, Series]]:
    """Return what may grow with the data: what `maintain` keeps for a day, and the bytes."""
    counted = [(soaked.minute(one.time), one.files) for one in soaked.samples if one.files]
    tables = [(minute, [one for name, one in files.items() if name.startswith("table ")]) for minute, files in counted]
    return [
        (
            "all tables: files, kept ones too",
            [(minute, sum(one.files for one in files)) for minute, files in tables],
        ),
        ("all tables: MB", [(minute, sum(one.bytes for one in files) / MB) for minute, files in tables]),
    ]


def flatness(measures: Sequence[Measure]) -> tuple[list[str], list[str]]:
    """Return a row of a table for each measure, and what has grown."""
    rows, wrong = ["| measure | median | growth in the last two thirds | tolerated |", "| --- | --- | --- | --- |"], []
    for measure in measures:
        slope = trend(measure)
        if slope is None:
            rows.append(f"| {measure.name} | hardly measured | | |")
            continue
        rows.append(f"| {measure.name} | {slope.median:,.4g} | {slope.growth:+,.3g} | {slope.tolerated:,.3g} |")
        if not slope.is_flat:
            wrong.append(f"{measure.name} has grown by {slope.growth:,.4g} from about {slope.median:,.4g}")
    return rows, wrong
