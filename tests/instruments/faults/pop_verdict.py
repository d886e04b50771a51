"""Compare the incidents of a recorded story of consumers that pop with those that each fault requires.

    python -m tests.instruments.faults.pop_verdict FOLDER [--write]

prints what `verdict` prints, and a table that has beside each incident what was seen at the same time of the lag:
in our own rows, in the output of `mqadmin consumerProgress`, and in the broker's own metrics. ``--write`` writes it to
tests/FAULTS.md.
"""

import os
import re
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from rebalance_model.observe.effects import QueueProgress
from tests.instruments.faults.otel import samples
from tests.instruments.faults.verdict import _NAMES, PAGE, answers, cells_of, judge, keep, read, report
from tests.instruments.figures import commit
from tests.support.folding import folded

BEGIN, END = "<!-- pop faults: python -m tests.instruments.faults.pop_verdict --write -->", "<!-- /pop faults -->"
_TOTALS = re.compile(r"Consume (Diff|Inflight) Total: (-?\d+)")


@dataclass(frozen=True)
class Seen:
    """The lag of each group that was seen, as (epoch ms, lag, in flight), by its source."""

    ours: dict
    mqadmin: dict
    otel: dict


def seen(folder, log):
    """Return what was seen in a run."""
    return Seen(_ours(log), _mqadmin(answers(folder)), _otel(samples(folder)))


def _ours(log):
    """Return the lag of our own rows, by hook and polls, whenever a row changes it."""
    lags, lags_of = defaultdict(dict), defaultdict(list)
    for row in folded(log):
        if isinstance(row, QueueProgress) and row.client_id is None and row.lag:
            by_queue = lags[row.group]
            flights = row.in_flight or (None,) * len(row.lag)
            for topic, queue_id, lag, flight in zip(row.topic, row.queue_id, row.lag, flights, strict=True):
                by_queue[topic, row.broker, queue_id] = (lag or 0, flight or 0)
            lags_of[row.group].append(
                (row.time, sum(one[0] for one in by_queue.values()), sum(one[1] for one in by_queue.values()))
            )
    return lags_of


def _mqadmin(printed):
    lags_of = defaultdict(list)
    for answer in printed:
        totals = dict(_TOTALS.findall(answer.out))
        said = (int(totals["Diff"]), int(totals.get("Inflight", 0))) if "Diff" in totals else (None, None)
        lags_of[answer.group].append((answer.answered, *said))
    return lags_of


def _otel(sampled):
    lags_of = defaultdict(list)
    for one in sampled:
        for group, metrics in one.groups.items():
            lags_of[group].append((one.time, int(metrics.get("lag", 0)), int(metrics.get("inflight", 0))))
    return lags_of


class Highest(NamedTuple):
    """The highest lag, and the highest number of messages in flight, that was said while a fault was active."""

    lag: int
    in_flight: int


def highest(lags_of, played):
    """Return what was said at most; None if nothing was said, or each answer was an error."""
    during = [one for one in _during(lags_of, played) if one[1] is not None]
    return Highest(max(one[1] for one in during), max(one[2] for one in during)) if during else None


def _during(lags_of, played):
    return [one for one in lags_of.get(f"{played.group}-group", ()) if played.done <= one[0] <= played.cure]


def _words(lags_of, played):
    most = highest(lags_of, played)
    if most is not None:
        return f"{most.lag}, {most.in_flight}"
    asked = len(_during(lags_of, played))
    return f"fails ({asked} times)" if asked else "nothing"


def table(judged, lags):
    """Yield the rows of the table: fault, incident, seconds by each source, and the lag that each tool says at most."""
    yield (
        "| fault | incident | hook | poll | both | our lag, in flight | `mqadmin consumerProgress`: diff, inflight | "
        "broker's metrics: lag, inflight |"
    )
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    for judged_case in judged:
        for number, (code, cells) in enumerate(cells_of(judged_case)):
            first = (
                f"{NAMES.get(judged_case.case.fault) or _NAMES[judged_case.case.fault]} ({judged_case.group})"
                if number == 0
                else ""
            )
            about = (
                [_words(by, judged_case.played) for by in (lags.ours, lags.mqadmin, lags.otel)]
                if number == 0
                else [""] * 3
            )
            yield f"| {first} | {code} | {' | '.join([*cells, *about])} |"


NAMES = {
    "hang": "the listener hangs in all threads",
    "poison": "the listener refuses one message",
    "slow": "one message takes longer than its invisible time",
    "no-ack": "nothing is acknowledged",
    "pull-among-pops": "a consumer joins that pulls",
    "all-gone": "all consumers leave",
    "freeze": "SIGSTOP",
    "kill": "SIGKILL",
}


def write_page(run, judged, lags):
    """Write the table of the run between its marks in tests/FAULTS.md."""
    where = f"{os.cpu_count()} cores at load {run.load[2]:.0f}, {run.date}, recorded at {run.commit}"
    lines = [BEGIN, f"{where}, judged at {commit()}:", "", *table(judged, lags), "", END]
    text = PAGE.read_text()
    head, tail = text.split(BEGIN)[0], text.split(END)[1]
    PAGE.write_text(head + "\n".join(lines) + tail)


def main(arguments):
    """Compare, and print the report; return 1 if there is a deviation."""
    folder = Path(next(one for one in arguments if not one.startswith("--")))
    run, log = read(folder)
    judged, stray = judge(run, log)
    lags = seen(folder, log)
    print(*report(judged, stray, run), "", *table(judged, lags), sep="\n")
    keep(run, judged, stray)
    if "--write" in arguments:
        write_page(run, judged, lags)
    return int(any(one.wrong for one in judged) or any(stray.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
