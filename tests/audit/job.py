"""Runs the real job over a recording, or over what one kind of source said of it, into a runtime root of its own."""

import json
from pathlib import Path

from streaming.job import run_available_now
from streaming.log.files import FilePublisher
from streaming.log.recording import recorded_rows
from streaming.settings import Settings, load_policy
from tests.audit.telemetry import lines


def run_job(recording: Path, settings: Settings, sources: tuple[str, ...] = ("hook", "poll")) -> None:
    """Put the rows of these kinds of source into a new file log, and run the job until all are in the tables."""
    chosen = _only(recording, sources, settings.runtime.root)
    with FilePublisher(settings.log_path, settings.source.partitions) as log:
        for rows in recorded_rows(chosen, settings.source.partitions):
            log.write(rows)
    run_available_now(settings, load_policy())


def _only(recording: Path, sources: tuple[str, ...], folder: Path) -> Path:
    kept = folder / f"{'-'.join(sources)}.jsonl"
    with kept.open("wb") as file:
        file.writelines(line for line in lines(recording) if json.loads(line)["source"] in sources)
    return kept


def main() -> None:
    """``python -m tests.audit.job RECORDING ROOT [hook|poll …]``: make the tables that the audit is to look at."""
    import sys  # noqa: PLC0415

    from streaming.settings import load_settings  # noqa: PLC0415

    recording, root, *sources = sys.argv[1:]
    jars = load_settings().runtime.jars
    Path(root).mkdir(parents=True)
    settings = load_settings(runtime={"root": Path(root), "jars": jars}, source={"kind": "files", "path": ""})
    run_job(Path(recording), settings, tuple(sources) or ("hook", "poll"))


if __name__ == "__main__":
    main()
