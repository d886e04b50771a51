"""Judge what a soak has left in its folder.

    python -m tests.instruments.soak.verdict FOLDER

prints a table in Markdown, and what is wrong, and writes both to the folder, with a picture of the measures.
"""

import re
import statistics
import sys
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import msgspec

from checkpoints.quality import SUITE
from rebalance_model.observe.effects import TABLE_OF, IncidentTransition
from tests.instruments.faults.case import BOTH, BROKER
from tests.instruments.faults.stories import SOAK
from tests.instruments.faults.verdict import Incident, incidents_of, is_due, is_reread, show, within, wrong_by
from tests.instruments.figures import PROOFS
from tests.instruments.soak.measures import flatness, growing_of, measures_of, speed_of
from tests.instruments.soak.picture import picture
from tests.instruments.soak.records import PART_OF, PARTITIONS, STARTS_AGAIN_ALONE, Fault, Soaked, lines_of
from tests.instruments.soak.rows import Archive, differences
from tests.instruments.soak.sender import CLUSTER
from tests.support.tables import read_rows

ENDED = {what: part for what, part in PART_OF.items() if what not in STARTS_AGAIN_ALONE}
"""The part of `up` that ends when one of our processes is killed, so that `up` must say so."""
TELEMETRY = ("collect", "kafka")
"""Processes without which telemetry is late or missing."""
EXCUSED_MS = 240_000
"""For how long after such a kill incidents may be missing, late, or about missing telemetry."""
SAID_MS_MAX = 120_000
MAY_FAIL = {"times", "behind_seconds", "operator_behind_seconds"}
"""Checks that are right to fail when the job was killed or Kafka was away: volumes change, queries fall behind."""


def archive_of(soaked: Soaked) -> tuple[list[str], list[str]]:
    """Compare archive, Kafka's offsets, and what the sender has counted; return figures, and what is wrong."""
    archive = Archive(soaked.tables, soaked.folder / "scratch")
    wrong, total = [], 0
    for partition, (rows, distinct, lowest, highest) in archive.counts().items():
        total += rows
        begin, end = soaked.run.offsets.get(partition, (0, highest + 1))
        if (rows, distinct, lowest, highest) != (end - begin, rows, begin, end - 1):
            wrong.append(
                f"partition {partition}: {rows:,} rows of {distinct:,} offsets from {lowest} to {highest} are archived,"
                f" Kafka has {begin} to {end - 1}"
            )
    if not soaked.run.offsets:
        wrong.append("the run broke off: Kafka's last offsets are unknown")
    sent, mine = sum(one.rows for one in soaked.sent), archive.rows_of_cluster(CLUSTER)
    if mine != sent or not all(one.has_ended for one in soaked.sent):
        wrong.append(f"the sender counts {sent:,} rows, {mine:,} are archived")
    events = sum(one.events for one in soaked.sent)
    rejected = archive.rejected()
    log = f"{total:,} rows of the log: {total - rejected:,} accepted + {rejected:,} rejected"
    return [f"{log}; {events:,} events of the sender are {sent:,} rows"], wrong


def tables_of(soaked: Soaked) -> tuple[list[str], list[str]]:
    """Compare the derived tables with the core in a loop."""
    rows, wrong = differences(soaked.tables, soaked.folder / "scratch", PARTITIONS)
    return [", ".join(f"{table} {count:,}" for table, count in rows.items())], wrong


def lab_of(soaked: Soaked) -> tuple[list[str], list[str]]:
    """Look for the incidents of the faults of the lab, and for incidents without a fault."""
    run = SimpleNamespace(
        played=[fault.played for fault in soaked.faults if fault.played is not None],
        ended=soaked.run.ended or 2**62,
    )
    incidents = [one for one in _incidents(soaked.tables) if soaked.run.began <= one.opened <= run.ended]
    figures, wrong, explained = [], [], set()
    for played in run.played:
        case = SOAK[played.group].cases[played.case]
        codes = {due.code for due in case.due}
        mine = [
            one
            for one in incidents
            if within(run, played, one) and (one.code in codes or not _lacks_telemetry(soaked, one))
        ]
        explained.update(map(id, mine))
        disturbed = [fault for fault in _telemetry_faults(soaked) if _overlaps(fault, played)]
        group = "broker" if played.group == BROKER else played.group
        name = f"{case.fault} ({group}) at {soaked.minute(played.time):.0f} min"
        for sentence in wrong_by(BOTH, case, played, mine):
            missing = " is missing" in sentence
            if disturbed and (not missing or any(is_due(due, played, one) for due in case.due for one in mine)):
                figures.append(f"{name}, while {disturbed[0].what} was killed: {sentence}")
            else:
                wrong.append(f"{name}: {sentence}")
        first = {one.code: show(one, played) for one in reversed(mine) if not is_reread(one)}
        figures.append(f"{name}: {'; '.join(first.values()) or 'no incident'}")
    for incident in incidents:
        if id(incident) in explained or is_reread(incident):
            continue
        where = f"{incident.group or 'the cluster'} {incident.subject}"
        text = f"{incident.code} {'/'.join(incident.sub_causes)} of {where} at {soaked.minute(incident.opened):.1f} min"
        causes = _kills_before(soaked, incident)
        if causes and (incident.resolved is not None or incident.severity == "info"):
            figures.append(f"{text}: after the kill of {causes[-1].what}")
        else:
            wrong.append(f"{text} is explained by no fault, or is not resolved")
    return figures, wrong


def _telemetry_faults(soaked: Soaked) -> list[Fault]:
    return [fault for fault in soaked.faults if fault.kind == "ours" and fault.what in TELEMETRY]


def _kills_before(soaked: Soaked, incident: Incident) -> list[Fault]:
    return [fault for fault in _telemetry_faults(soaked) if 0 <= incident.opened - fault.time <= EXCUSED_MS]


def _lacks_telemetry(soaked: Soaked, incident: Incident) -> bool:
    """Return whether an incident is about telemetry that a kill of ours has kept away."""
    return incident.code == "TELEMETRY_GAP" and bool(_kills_before(soaked, incident))


def _overlaps(fault: Fault, played) -> bool:
    return fault.time <= played.end and (fault.back or fault.time) + EXCUSED_MS >= played.time


def _incidents(tables: Path) -> list:
    transitions = defaultdict(list)
    rows = [row for row in read_rows(tables, TABLE_OF[IncidentTransition]) if row["cluster"] != CLUSTER]
    for row in sorted(rows, key=lambda row: (row["time"], row["seq"])):
        transitions[row["incident_id"]].append(msgspec.convert(row, IncidentTransition))
    return incidents_of(transitions)


def processes_of(soaked: Soaked) -> tuple[list[str], list[str]]:
    """Look for what was said about each process that was killed."""
    figures, wrong = [], []
    for fault in soaked.faults:
        if fault.kind == "lab":
            continue
        if fault.kind == "failure":
            wrong.append(fault.what)
            continue
        until = max(fault.back or 0, fault.time + SAID_MS_MAX)
        said = [line["event"] for line in soaked.said if fault.time <= line["at"] <= until and _is_about(fault, line)]
        probe = [text for one in soaked.samples if fault.time <= one.time <= until for text in one.not_ready]
        back = "not back" if fault.back is None else f"ready after {(fault.back - fault.time) / 1000:.0f} s"
        figures.append(
            f"{fault.what} at {soaked.minute(fault.time):.0f} min: {(said or probe or ['nothing said'])[0]}; {back}"
        )
        if fault.back is None:
            wrong.append(f"{fault.what} at {soaked.minute(fault.time):.0f} min was not ready again")
        if fault.what in ENDED and not said:
            wrong.append(f"{fault.what} at {soaked.minute(fault.time):.0f} min: up has not said that it ended")
    return figures, wrong


def _is_about(fault: Fault, line: dict) -> bool:
    if fault.what in ENDED:
        return "starting it again" in line["event"] and line.get("process") == ENDED[fault.what]
    words = "lost a Python worker" if fault.what == "workers" else "Kafka"
    return words in line["event"]


def processor_of(soaked: Soaked) -> tuple[list[str], list[str]]:
    """Return how much of the cores each kind of process has used."""
    first, last = soaked.samples[0], soaked.samples[-1]
    seconds = (last.time - first.time) / 1000
    used = defaultdict(float)
    before: dict[str, float] = {}
    for sample in soaked.samples:
        for kind, process in sample.processes.items():
            used[kind] += max(0.0, process.cpu - before.get(kind, process.cpu))
            before[kind] = process.cpu
    parts = ", ".join(
        f"{kind} {value / seconds:.2f}" for kind, value in sorted(used.items(), key=lambda one: -one[1])[:10]
    )
    load = statistics.median(one.load for one in soaked.samples)
    cores = (last.cpu - first.cpu) / seconds
    return [f"{cores:.2f} of {soaked.run.cores} cores in use on average, load {load:.0f}; {parts}"], []


def logs_of(soaked: Soaked) -> tuple[list[str], list[str]]:
    """Look for tracebacks in what our processes have printed, and for exit codes."""
    wrong = [
        f"{log.name} has {len(found)} tracebacks, the first: {found[0][:400]}"
        for log in sorted(soaked.folder.glob("*.log"))
        if (found := _tracebacks(log))
    ]
    if soaked.run.up_code != 0:
        wrong.append(f"up ended with {soaked.run.up_code}")
    if soaked.run.rest_code != 0:
        wrong.append(f"the run over the rest of the log ended with {soaked.run.rest_code}")
    wrong += [f"maintain said: {said[:300]}" for said in _failures(soaked)]
    spark = [f"{len(found)} in {log.name}" for log in _logs(soaked) if (found := _tracebacks(log))]
    return [f"tracebacks in Spark's own logs: {', '.join(spark) or 'none'}"], wrong


def _failures(soaked: Soaked) -> list[str]:
    """Return what `maintain` could not do, each once: no fault of the soak hinders it."""
    said = (str(line["event"]) for line in soaked.said if line.get("process") == "maintain")
    return sorted({re.sub(r"[0-9]+", "n", event) for event in said if "Retrying" in event})


def _logs(soaked: Soaked) -> list[Path]:
    return sorted(log for log in (soaked.folder / "root/logs").rglob("*") if log.is_file())


def _tracebacks(log: Path) -> list[str]:
    return [line for line in log.read_text(errors="replace").splitlines() if "Traceback" in line]


def alerts_of(soaked: Soaked) -> tuple[list[str], list[str]]:
    """Compare the faults of the lab with the alerts that the webhook got."""
    lines = lines_of(soaked.folder / "alerts.jsonl", dict)
    alerts = [(line["time"], alert) for line in lines for alert in line["alerts"]]
    keys = [(alert.get("incident_id"), alert.get("kind"), alert.get("seq")) for _, alert in alerts]
    wrong = []
    for fault in soaked.faults:
        if (played := fault.played) is None:
            continue
        groups = None if played.group == BROKER else f"{played.group}-group"
        until = played.end + SAID_MS_MAX
        if not any(played.time <= at <= until and groups in (None, alert.get("group")) for at, alert in alerts):
            wrong.append(f"{fault.what} at {soaked.minute(fault.time):.0f} min: no alert has arrived")
    return [
        f"{len(lines)} messages with {len(alerts)} alerts arrived, {len(keys) - len(set(keys))} of them again"
    ], wrong


def checks_of(soaked: Soaked) -> tuple[list[str], list[str]]:
    """Look at the results of the quality gates: of the tables, and of the archive's batches."""
    results = read_rows(soaked.tables, "quality_results")
    failed = Counter(
        (row["suite"], row["column"], row["expectation"], row["column"] in MAY_FAIL)
        for row in results
        if not row["success"]
    )
    sentences = {key: f"{key[0]}: {key[1]} {key[2]} failed {count} times" for key, count in failed.items()}
    of_tables = sum(row["suite"] != SUITE for row in results)
    figures = [f"{of_tables} results about the tables, {len(results) - of_tables} about batches of the archive"]
    figures += [sentence for key, sentence in sentences.items() if key[3]]
    return figures, [sentence for key, sentence in sentences.items() if not key[3]]


_PARTS = {
    "Rows of the log": archive_of,
    "Derived rows, compared with the core in a loop": tables_of,
    "Faults of the lab and their incidents": lab_of,
    "Alerts": alerts_of,
    "Processes that were killed": processes_of,
    "Checks of the tables": checks_of,
    "Logs": logs_of,
    "Processor": processor_of,
}


def _judged(look: Callable[[Soaked], tuple[list[str], list[str]]], soaked: Soaked) -> tuple[list[str], list[str]]:
    """Return figures and what is wrong, also of a folder that lacks something."""
    try:
        return look(soaked)
    except Exception as error:  # noqa: BLE001  the other parts can be judged all the same
        traceback.print_exc()
        return [], [f"it can't be judged: {type(error).__name__}: {error}"]


def report(folder: Path, *, keeps: bool = False) -> int:
    """Judge the folder, write the verdict and its picture there, and print; return 1 if something is wrong.

    With ``keeps`` the figures are kept in `tests/PROVED.md`.
    """
    soaked = Soaked(folder)
    run, measures = soaked.run, measures_of(soaked)
    parts = {title: _judged(look, soaked) for title, look in _PARTS.items()}
    table, grown = flatness(measures)
    minutes = soaked.minute(soaked.samples[-1].time)
    kills = sum(fault.kind == "ours" for fault in soaked.faults)
    labs = sum(fault.kind == "lab" for fault in soaked.faults)
    lines = [
        f"# Soak of {minutes:.0f} minutes, {run.rate:,} events a second, seed {run.seed}, {run.date}, {run.commit}",
        "",
    ]
    lines += [f"{labs} faults of the lab, {kills} kills of our processes.", ""]
    for title, (figures, wrong) in parts.items():
        lines += [f"## {title}", "", *(f"- {one}" for one in figures), *(f"- **WRONG** {one}" for one in wrong), ""]
    lines += ["## What must not grow", "", *table, "", speed_of(soaked), ""]
    lines += [*(f"- **WRONG** {one}" for one in grown), ""]
    lines += ["## What grows with the data", ""]
    lines += [f"- {name}: {series[0][1]:,.4g} to {series[-1][1]:,.4g}" for name, series in growing_of(soaked) if series]
    text = "\n".join([*lines, ""])
    (folder / "verdict.md").write_text(text)
    panels = {one.name: one.series for one in measures} | dict(growing_of(soaked))
    marks = [(soaked.minute(fault.time), fault.kind) for fault in soaked.faults if fault.kind != "failure"]
    title = f"{run.rate:,} events a second for {minutes:.0f} minutes, {labs + kills} faults, {run.date}, {run.commit}"
    (folder / "soak.svg").write_text(picture(title, panels, marks, minutes))
    print(text)
    if keeps:
        length = f"{minutes:.0f} minutes, {labs} faults, {kills} kills"
        kept = {f"{length}: {title}": "; ".join(figures) for title, (figures, _) in parts.items()}
        not_met = [*grown, *(sentence for _, wrong in parts.values() for sentence in wrong)]
        PROOFS.keep("instruments.soak", kept | ({f"not met: {length}": "; ".join(not_met)} if not_met else {}))
    return int(bool(grown) or any(wrong for _, wrong in parts.values()))


if __name__ == "__main__":
    sys.exit(report(Path(sys.argv[1]), keeps=True))
