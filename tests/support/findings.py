"""The findings in the demo's capture, as the lines of `golden.txt`.

``python -m tests.support.findings > FILE`` makes them again; the columns ``fault`` and ``why`` are then written by
hand: a line that no fault explains is a bug, here or there.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from rebalance_model.entities import INT64_MAX
from rebalance_model.observe.effects import AnyEffect, IncidentTransition, RebalanceSettled
from rebalance_model.observe.events import AnyEvent
from rebalance_model.observe.events.decoding import decode
from streaming.lab.demo import CAPTURE, FAULT_LOG
from streaming.lab.state import FaultRecord
from streaming.log.recording import replayed_rows
from tests.support.folding import folded

GOLDEN = Path(__file__).parents[1] / "lab/demo/golden.txt"
SEPARATOR = " | "


class Line(msgspec.Struct, frozen=True):
    """One finding, the fault that explains it (a line of the fault log, from 1; 0: the lab's own start), and why."""

    at: str
    what: str
    fault: int
    why: str


def events() -> Iterator[AnyEvent]:
    """Return the capture's events, with the last ticks."""
    for line in replayed_rows(CAPTURE, 1):
        for row in line:
            yield decode(row.value, key=None, stamp=INT64_MAX, keyed=False)


def effects() -> list[AnyEffect]:
    """Return every effect, by a plain loop over the core, without Spark."""
    return folded(events())


def begun() -> int:
    """Return the time of the capture's first event."""
    [row, *_] = next(replayed_rows(CAPTURE, 1))
    return decode(row.value, key=None, stamp=INT64_MAX, keyed=False).time


def faults() -> list[FaultRecord]:
    """Return the fault log."""
    return [msgspec.json.decode(line, type=FaultRecord) for line in FAULT_LOG.read_bytes().splitlines()]


def findings(reported: Iterable[AnyEffect], start: int) -> Iterator[tuple[str, str]]:
    """Yield the time and description of each rebalance and each transition of an incident."""
    for effect in reported:
        at = f"{(effect.time - start) / 1000:7.1f} s"
        if isinstance(effect, RebalanceSettled):
            yield at, _rebalance(effect)
        elif isinstance(effect, IncidentTransition):
            name = f"{effect.code} {effect.sub_cause}".rstrip()
            yield at, f"{effect.transition} {name} ({effect.severity}) {effect.subject} {_name(effect.client_id)}"


def _rebalance(effect: RebalanceSettled) -> str:
    causes = ", ".join(_short(cause) for cause in effect.causes)
    pause = "none" if effect.pause_ms_max is None else f"{effect.pause_ms_max / 1000:.0f} s"
    ended = {True: "converged", False: "not converged", None: "unknown"}[effect.converged]
    members = f"{len(effect.members_before)} to {len(effect.members_after)} members"
    counts = (
        (effect.queues_moved, "moved"),
        (effect.queues_interrupted, "interrupted"),
        (effect.queues_unassigned, "unassigned"),
    )
    queues = ", ".join(f"{count} {what}" for count, what in counts if count or what == "moved")
    return f"REBALANCE {effect.group} ({causes}) {members}, {queues}, pause {pause}, {ended}"


def _short(cause: str) -> str:
    code, _, subject = cause.partition(" ")
    return f"{code} {_name(subject)}"


def _name(client_id: str | None) -> str:
    return client_id.rpartition("@")[2] if client_id else "nobody"


def golden() -> list[Line]:
    """Return the lines of the golden file."""
    rows = [line.split(SEPARATOR) for line in GOLDEN.read_text().splitlines() if not line.startswith("#")]
    return [Line(at, what, int(fault), why) for at, what, fault, why in rows]


if __name__ == "__main__":
    for number, fault in enumerate(faults(), start=1):
        cure = " cured" if fault.cure else ""
        print(f"# {number:2}  {(fault.time - begun()) / 1000:7.1f} s {fault.kind}{cure} {fault.client}")
    for at, what in findings(effects(), begun()):
        print(SEPARATOR.join((at, what, "?", "?")))
