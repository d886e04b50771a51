"""Make the tables that the audit reads, from a recording or from the events of some kinds of sources in it.

The real job makes them, or the same core in a plain loop, which gives the same rows (`tests.pipeline.test_job`).
"""

import argparse
import json
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

from rebalance_model.observe.effects import AnyRow
from streaming.base.settings import Settings, load_policy, load_settings
from streaming.log.files import FilePublisher
from streaming.pipeline.job import run_available_now
from tests.audit.telemetry import lines
from tests.support.plain import effects, rows_of
from tests.support.recordings import recorded_rows
from tests.support.tables import append, make_tables


def run_job(recording: Path, settings: Settings, sources: Collection[str]) -> None:
    """Write the rows of these kinds of sources to a new file log, and run the job until all are processed."""
    write_log(recording, settings.log_path, settings.source.partitions, sources)
    run_available_now(settings, load_policy())


def run_loop(
    recording: Path, root: Path, sources: Collection[str], written: Callable[[AnyRow], AnyRow | None] = lambda row: row
) -> None:
    """Fold the rows of these kinds of sources in one shard, and write the tables of a runtime root.

    Args:
        recording: all events.
        root: where the tables are made.
        sources: the kinds of sources.
        written: returns what is written of a row: a mutant writes another one, or none.
    """
    write_log(recording, root / "log", 1, sources)
    rows = map(written, effects(rows_of(root / "log", 0), load_policy()))
    append(make_tables(root / "tables"), [row for row in rows if row is not None])


def write_log(recording: Path, log: Path, partitions: int, sources: Collection[str]) -> None:
    """Write the events of these kinds of sources in a recording to a file log."""
    chosen = log.parent / f"{'-'.join(sources)}.jsonl"
    chosen.write_bytes(b"".join(only(lines(recording), sources)))
    with FilePublisher(log, partitions) as publisher:
        for rows in recorded_rows(chosen, partitions):
            publisher.write(rows)


def only(recorded: Iterable[bytes], sources: Collection[str]) -> Iterable[bytes]:
    """Return the lines of these kinds of sources."""
    return (line for line in recorded if json.loads(line)["source"] in sources)


def main() -> None:
    """Make the tables in a new runtime root."""
    parser = argparse.ArgumentParser(prog="python -m tests.audit.job", description=main.__doc__)
    parser.add_argument("telemetry", type=Path)
    parser.add_argument("root", type=Path)
    parser.add_argument("--sources", default="hook,poll")
    parser.add_argument("--loop", action="store_true", help="in a plain loop, without Spark")
    asked = parser.parse_args()
    asked.root.mkdir(parents=True)
    sources = asked.sources.split(",")
    if asked.loop:
        run_loop(asked.telemetry, asked.root, sources)
    else:
        runtime = {"root": asked.root, "jars": load_settings().runtime.jars}
        run_job(asked.telemetry, load_settings(runtime=runtime, source={"kind": "files", "path": ""}), sources)


if __name__ == "__main__":
    main()
