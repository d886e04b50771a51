"""Compare the answers from the tables of a runtime root with the recording from which the tables were made.

    python -m tests.audit TELEMETRY.jsonl[.gz] --root ROOT [--sources hook,poll] [--pairs 2000] [--seed 1]

The exit code is 1 if anything differs.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests.audit.answers import serving
from tests.audit.compare import compare
from tests.audit.differences import Difference, Result
from tests.audit.reading import read_all
from tests.audit.telemetry import read


def main() -> int:
    """Compare, print the differences, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.audit", description="Audit answers against raw telemetry.")
    parser.add_argument("telemetry", type=Path, help="recording from which the tables were made")
    parser.add_argument("--root", type=Path, required=True, help="runtime root with the tables")
    parser.add_argument("--sources", default="hook,poll,sim", help="kinds of sources that the job read")
    parser.add_argument("--pairs", type=int, default=2_000, help="minimum number of pairs of instant and queue")
    parser.add_argument("--seed", type=int, default=1, help="seed of the random pairs")
    parser.add_argument("--examples", type=int, default=5, help="maximum number of differences printed of each kind")
    asked = parser.parse_args()
    began = time.monotonic()
    recorded = read(asked.telemetry)
    with serving(asked.root) as api:
        result = compare(read_all(recorded, asked.sources.split(",")), api, asked.pairs, asked.seed)
    for line in report(result, recorded[0].time, asked.examples):
        print(line)
    print(f"{time.monotonic() - began:.0f} s")
    return 1 if result.differences else 0


def report(result: Result, begun: int, examples: int) -> Iterator[str]:
    """Yield one line for each kind, and its first differences below it."""
    for kind, found in result.by_kind().items():
        yield f"{kind}: {len(found)} of {result.compared[kind]} differ"
        yield from (f"    {_line(one, begun)}" for one in found[:examples])


def _line(difference: Difference, begun: int) -> str:
    at, where = (difference.time - begun) / 1000, " ".join(part for part in difference.place if part)
    proof = f" [{difference.proof}]" if difference.proof else ""
    return f"{at:8.3f} s {where} {difference.subject}: answered {difference.answered}, raw {difference.raw}{proof}"


if __name__ == "__main__":
    sys.exit(main())
