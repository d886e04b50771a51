"""Compare the incidents of a recorded fault scenario (by hook, by polls, by both) with those that each case requires.

    python -m tests.instruments.faults.verdict FOLDER… [--write]

prints every incident, every deviation, and the table of tests/FAULTS.md (``--write`` writes it there).
"""

import os
import re
import sys
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import msgspec

from rebalance_model.observe.effects import IncidentTransition
from rebalance_model.observe.events.decoding import decode
from tests.instruments.faults.case import BOTH, BROKER, HOOK, SOURCES
from tests.instruments.faults.cases import REREADS
from tests.instruments.faults.mqadmin_loop import Answer
from tests.instruments.faults.run import Played, Run
from tests.instruments.faults.stories import STORIES
from tests.instruments.figures import PROOFS, commit
from tests.support.field import concluded_of
from tests.support.folding import folded
from tests.support.recordings import recorded_rows

PAGE = Path(__file__).parents[2] / "FAULTS.md"
BEGIN, END = "<!-- faults: python -m tests.instruments.faults.verdict --write -->", "<!-- /faults -->"
_SAME = ("Same subscription", "Rebalance OK", "For more information", "See https:", "SubCommandException")
"""Lines that mqadmin consumerStatus prints for a healthy group, and the frame of its error messages."""


@dataclass(frozen=True)
class Incident:
    """One incident from its opening to its resolution (epoch ms; None: never)."""

    group: str
    code: str
    subject: str
    client_id: str | None
    severity: str
    sub_causes: tuple[str, ...]
    parent: str | None
    """The parent's code at the opening; None: no parent."""
    opened: int
    alerted: int | None
    """When it first had no parent."""
    resolved: int | None
    resolution: str | None
    """The reason, where the cluster no longer has its subject."""


def read(folder):
    """Return the run and its events."""
    return msgspec.json.decode((folder / "run.json").read_bytes(), type=Run), events(folder)


def events(folder):
    """Return the events of a recording, in their order."""
    stamp = time.time_ns() // 1_000_000
    rows = recorded_rows(folder / "recording.jsonl", 1)
    return [decode(row.value, key=None, stamp=stamp, keyed=False) for line in rows for row in line]


def concluded_by_source(log):
    """Return what the events of each source lead to, by itself and together."""
    return {source: concluded_of(one for one in log if source in (BOTH, one.source)) for source in SOURCES}


def answers(folder):
    """Return mqadmin's output, one answer per group and round."""
    lines = (folder / "mqadmin.jsonl").read_bytes().split(b"\n")[:-1]
    return [msgspec.json.decode(line, type=Answer) for line in lines]


def incidents(log, source):
    """Return every incident that this telemetry leads to, in the order of their openings."""
    transitions = {}
    for effect in folded(event for event in log if source in (BOTH, event.source)):
        if isinstance(effect, IncidentTransition):
            transitions.setdefault(effect.incident_id, []).append(effect)
    return incidents_of(transitions)


def incidents_of(transitions):
    """Return the incidents; ``transitions`` has those of each, in order, by its id."""
    codes = {name: steps[0].code for name, steps in transitions.items()}
    return [_incident(steps, codes) for steps in transitions.values()]


def _incident(steps, codes):
    first, last = steps[0], steps[-1]
    causes = dict.fromkeys(step.sub_cause for step in steps if step.transition != "RESOLVED")
    return Incident(
        group=first.group,
        code=first.code,
        subject=first.subject,
        client_id=first.client_id,
        severity=max((step.severity for step in steps), key=("info", "warning", "critical").index),
        sub_causes=tuple(causes),
        parent=codes[first.parent] if first.parent else None,
        opened=first.time,
        alerted=next((step.time for step in steps if not step.is_absorbed and step.transition != "RESOLVED"), None),
        resolved=last.time if last.transition == "RESOLVED" else None,
        resolution=last.resolution,
    )


@dataclass(frozen=True)
class Judged:
    """One case, the incidents by each source, and the deviations from the required ones."""

    group: str
    case: object
    played: Played
    reported: dict
    wrong: list


def judge(run, log):
    """Return every case of the run, and the incidents that belong to none."""
    story = STORIES[run.story]
    by_source = {source: incidents(log, source) for source in SOURCES}
    judged = []
    for played in run.played:
        case = story[played.group].cases[played.case]
        reported = {source: [one for one in by_source[source] if within(run, played, one)] for source in SOURCES}
        former = story[played.group].cases[played.case - 1].may_after if played.case else frozenset()
        judged.append(Judged(played.group, case, played, reported, list(wrong(case, played, reported, former))))
    stray = {
        source: [one for one in by_source[source] if not _is_of_any(run, one) and not is_reread(one)]
        for source in SOURCES
    }
    return judged, stray


def within(run, played, incident):
    """Return whether the incident opened after this fault and before the next one in its group."""
    if played.group != BROKER and f"{played.group}-group" != incident.group:
        return False
    later = [
        other.time
        for other in run.played
        if other.time > played.time and (other.group in (played.group, BROKER) or played.group == BROKER)
    ]
    return played.time <= incident.opened < min(later, default=run.ended + 1)


def _is_of_any(run, incident):
    in_story = run.began <= incident.opened <= run.ended  # before it the hooks' spools are sent, one after the other
    return not in_story or any(within(run, played, incident) for played in run.played)


def wrong(case, played, reported, former=frozenset()):
    """Yield each deviation as a sentence; ``former``: codes that the cure of the case before may still lead to."""
    groups = {one.group for source in SOURCES for one in reported[source]}
    for source in SOURCES:
        yield from wrong_by(source, case, played, reported[source], former)
    assert played.group == BROKER or groups <= {f"{played.group}-group"}


def wrong_by(source, case, played, reported, former=frozenset()):
    """Yield each deviation of the incidents by one source."""
    for due in case.due:
        if source in due.by and not any(is_due(due, played, one) for one in reported):
            seen = ", ".join(sorted({f"{one.code} {'/'.join(one.sub_causes)}" for one in reported})) or "nothing"
            yield f"{source}: {due.code} {'/'.join(sorted(due.sub_causes))} is missing; reported: {seen}"
    named = {due.code for due in case.due} | case.may
    for incident in reported:
        absorbed = incident.alerted is None and incident.parent in named
        late = incident.code in former or (incident.code in case.may_after and incident.opened >= played.cure)
        allowed = not named.isdisjoint((incident.code, *(f"{incident.code} {cause}" for cause in incident.sub_causes)))
        if not (allowed or late or absorbed or is_reread(incident)):
            yield f"{source}: {show(incident, played)} is a false alarm"
        if case.alone and incident.client_id != played.client_id and not is_reread(incident):
            yield f"{source}: {show(incident, played)} is about {incident.client_id}, not about {played.client_id}"
        if incident.resolved is None and incident.code not in case.stays and not (late and source == HOOK):
            yield f"{source}: {show(incident, played)} is not resolved"
    alerts = {
        (one.group, one.code, one.subject)
        for one in reported
        if one.alerted is not None and one.code != "ORDERED_QUEUE_STUCK" and not is_reread(one)
    }
    if case.alerts_max is not None and len(alerts) > case.alerts_max:
        yield f"{source}: {len(alerts)} alerts, more than {case.alerts_max}"


def is_reread(incident):
    """Return whether it is an info of messages that were really consumed twice."""
    return incident.code in REREADS and incident.severity == "info"


def is_due(due, played, incident):
    """Return whether it is the required incident."""
    if incident.code != due.code or (due.sub_causes and not due.sub_causes & set(incident.sub_causes)):
        return False
    if due.within is not None and incident.opened > played.done + due.within * 1000:
        return False
    if due.resolution is not None and (incident.resolution != due.resolution or incident.resolved > played.cure):
        return False
    return not (due.of_client and played.client_id) or incident.client_id == played.client_id


def show(incident, played):
    """Format an incident as one line; its time is in seconds after the fault."""
    ended = (
        "open" if incident.resolved is None else f"{(incident.resolved - played.cured) / 1000:+.0f} s after the cure"
    )
    ended += f": {incident.resolution}" if incident.resolution else ""
    inside = f" in {incident.parent}{' until alerted' if incident.alerted else ''}" if incident.parent else ""
    name = f"{incident.code} {'>'.join(incident.sub_causes)}".strip()
    at = (incident.opened - played.time) / 1000
    return f"{name} ({incident.severity}){inside} of {incident.group} {incident.subject} at {at:.1f} s, {ended}"


def report(judged, stray, run):
    """Yield the lines of the whole report."""
    for judged_case in judged:
        played = judged_case.played
        cure = (played.cure - played.time) / 1000
        yield f"== {judged_case.group}: {judged_case.case.fault} {played.client_id}, cured after {cure:.0f} s"
        for source in SOURCES:
            for incident in judged_case.reported[source]:
                yield f"   {source:4} {show(incident, played)}"
        for wrong in judged_case.wrong:
            yield f"   !! {wrong}"
    for source in SOURCES:
        for incident in stray[source]:
            about = f"{incident.code} {incident.sub_causes} {incident.group} {incident.subject}"
            yield f"!! {source}: {about} at {incident.opened - run.began} ms"


def table(judged, printed):
    """Yield the rows of the table: fault, incident, seconds by each source, mqadmin's output."""
    yield "| fault | incident | hook | poll | both | `mqadmin consumerStatus` meanwhile |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for judged_case in judged:
        mqadmin = _mqadmin_output(judged_case, printed)
        for number, (code, cells) in enumerate(cells_of(judged_case)):
            group = "all groups" if judged_case.group == BROKER else judged_case.group
            first = f"{_NAMES[judged_case.case.fault]} ({group})" if number == 0 else ""
            yield f"| {first} | {code} | {' | '.join(cells)} | {mqadmin if number == 0 else ''} |"


def cells_of(judged_case):
    """Yield the incidents of a judged case: the code with its causes, and after how long each source reported it."""
    codes = list(dict.fromkeys(due.code for due in judged_case.case.due))
    reported = [
        (source, incident) for source in SOURCES for incident in judged_case.reported[source] if not is_reread(incident)
    ]
    codes += sorted({incident.code for _, incident in reported if incident.alerted is not None}.difference(codes))
    opened = defaultdict(dict)
    for source, incident in reported:
        if incident.code in codes:
            opened[incident.code].setdefault(source, incident)
    for code in codes or ["none, as expected"]:
        cells = [_seconds(opened[code].get(source), judged_case.played) if codes else "none" for source in SOURCES]
        yield _code(code, opened[code]), cells


_NAMES = {
    "join": "a consumer joins",
    "leave": "a consumer leaves",
    "freeze": "SIGSTOP",
    "partition": "the network of a consumer is cut",
    "kill": "SIGKILL",
    "hang": "the listener hangs",
    "poison": "the listener returns SUSPEND",
    "slow-pull": "a consumer pulls every 150 s",
    "add-queues": "4 queues are added, then removed",
    "subscription": "two expressions in one group",
    "topic-set": "two topics in one group",
    "same-id": "equal client ids",
    "strategy": "two strategies",
    "mixed": "ordered and concurrent in one group",
    "broker-restart": "a broker restarts",
    "broker-kill": "a broker is killed and started again",
    "broker-freeze": "a broker is frozen for 90 s (SIGSTOP)",
    "one-by-one": "50 clients replaced one by one",
    "all-at-once": "50 clients replaced at once",
    "consume-disabled": "consumeEnable is set to false",
    "write-only": "the topic is set to write-only",
    "group-not-created": "one of two brokers lacks the group",
    "broadcast": "a consumer that broadcasts joins",
    "first-message": "the first message of a queue hangs",
    "topic-recreated": "the topic is deleted, and created again after 100 s",
    "group-deleted": "the group is deleted after its consumer has left",
    "topic-unsubscribed": "the consumer subscribes another topic",
}


def _code(code, opened):
    causes = dict.fromkeys(one.sub_causes[0] for one in opened.values() if one.sub_causes[0])
    name = f"`{code}`" if code.isupper() or "_" in code else code
    return f"{name} {', '.join(causes)}".strip()


def _seconds(incident, played):
    if incident is None:
        return "not reported"
    inside = f", part of `{incident.parent}`" if incident.alerted is None else ""
    return f"{(incident.opened - played.time) / 1000:.0f} s{inside}"


def _mqadmin_output(judged_case, printed):
    """Return the lines that mqadmin does not print for a healthy group, with the seconds until each came first."""
    lasted = judged_case.played.cure > judged_case.played.done
    begin, end = (
        (judged_case.played.done, judged_case.played.cure)
        if lasted
        else (judged_case.played.time, judged_case.played.end)
    )
    mine = [
        answer
        for answer in printed
        if judged_case.group in (BROKER, answer.group.removesuffix("-group"))
        and begin <= answer.asked
        and answer.answered <= end
    ]
    if not mine:
        return "not run in time"
    first = {}
    for answer in mine:
        for line in answer.verdicts:
            if not any(same in line for same in _SAME):
                first.setdefault(_plain(line), (answer.answered - judged_case.played.time) / 1000)
    if not first:
        return f"nothing in {len(mine)} runs"
    return "; ".join(f"“{line}” ({seconds:.0f} s)" for line, seconds in first.items())


def _plain(line):
    """Remove queues, addresses and numbers, so that equal findings are equal lines."""
    line = line.rpartition("DESC: ")[2]
    line = re.sub(r"MessageQueue \[.*?\]", "queue", line)
    line = re.sub(r"127\.0\.0\.1:\d+|<.*?>", "broker", line)
    return re.sub(r"\d{3,}\w*", "N", line).strip().replace("|", "/")[:120]


def write_page(runs):
    """Write the table of these runs between its marks in tests/FAULTS.md."""
    lines = [BEGIN]
    for run, judged, said in runs:
        where = f"{os.cpu_count()} cores at load {run.load[2]:.0f}, {run.date}, recorded at {run.commit}"
        lines += [f"{where}, judged at {commit()}:", "", *table(judged, said), ""]
    text = PAGE.read_text()
    head, tail = text.split(BEGIN)[0], text.split(END)[1]
    PAGE.write_text(head + "\n".join([*lines, END]) + tail)


def keep(run, judged, stray):
    """Keep the result of a story in `tests/PROVED.md`."""
    wrong, others = sum(bool(one.wrong) for one in judged), sum(map(len, stray.values()))
    result = f"{len(judged)} cases, {wrong} of them wrong; {others} incidents of no case"
    PROOFS.keep("instruments.faults", {f"story {run.story}": f"{result}; recorded on {run.date} at {run.commit}"})


def main(arguments):
    """Compare, and print the report; return 1 if there is a deviation."""
    runs, failed = [], False
    for folder in (Path(one) for one in arguments if not one.startswith("--")):
        run, log = read(folder)
        judged, stray = judge(run, log)
        runs.append((run, judged, answers(folder)))
        print(*report(judged, stray, run), "", *table(judged, runs[-1][2]), sep="\n")
        failed = failed or any(one.wrong for one in judged) or any(stray.values())
        keep(run, judged, stray)
    if "--write" in arguments:
        write_page(runs)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
