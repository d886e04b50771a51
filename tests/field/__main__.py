"""Writes REPORTS.md: each public report with its reference and what is concluded of it, by polls, by hook and by both.

python -m tests.field      folds every case, in about a minute
"""

import tomllib
from pathlib import Path

from tests.docs.source import prose, table
from tests.support.field import CASES, SOURCES, concluded

FOLDER = Path(__file__).parent
PAGE = FOLDER / "REPORTS.md"
_HEAD = """<!-- generated: page; python -m tests.field -->

# Public reports

What people who run RocketMQ, or tools like this one, have reported, rebuilt as telemetry (`tests/field/cases`). A
verdict is the group's health at the end, then the incidents without a parent in the order in which they opened; those
about messages that were consumed twice are left out. `-`: the case has no telemetry of this source.
"""


def reports():
    """Return each case with its ``report``, and its ``note`` if it has one."""
    return tomllib.loads((FOLDER / "reports.toml").read_text("utf-8"))


def verdict(name, source):
    """Return the health and the incidents of a case by one source, as a cell of the table."""
    if not (CASES / name / f"input-{source}.jsonl.gz").exists():
        return "-"
    conclusions = concluded(name, source)
    causes = {}
    for row in conclusions.transitions():
        if row.parent is None and row.code != "DUPLICATE_CONSUMPTION":
            causes.setdefault(row.code, {}).update({row.sub_cause: None} if row.sub_cause else {})
    incidents = "; ".join(f"`{code}` {', '.join(of)}".rstrip() for code, of in causes.items())
    return f"{conclusions.group().health} {incidents}".rstrip()


def row(name):
    """Return the cells of a case."""
    report = reports()[name]
    reference = " ".join(filter(None, [report["report"] + ".", report.get("note")]))
    return [f"`{name}`", prose(reference), *(verdict(name, source) for source in SOURCES)]


def main():
    """Write the page."""
    lines = table(["case", "report", *SOURCES], [row(name) for name in sorted(reports())])
    PAGE.write_text("\n".join([_HEAD, *lines, "", "<!-- end: page -->", ""]), "utf-8")


if __name__ == "__main__":
    main()
