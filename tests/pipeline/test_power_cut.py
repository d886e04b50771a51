"""A power cut: what was not synced is lost or torn; the rows are all there once, or a start says what is not whole.

Spark's part is played: it plans a batch, hands it to our sinks, and records it, and syncs none of its files.
"""

import os
import random
import shutil
from collections import Counter
from pathlib import Path

import pytest

from checkpoints import lease
from checkpoints.generation import claimed
from checkpoints.manifest import OPERATOR
from schemas.arrow import table_of
from streaming.base.errors import UserError
from streaming.pipeline.sinks import TableSink, sync_plan
from streaming.tables.maintenance import Limits, maintain
from tests.support.basis import BASIS
from tests.support.power_cut import Disk, PowerCutError
from tests.support.tables import read_rows
from tests.tables.test_maintenance import change

ROWS = 30
TABLE = "assignment_history"


@pytest.fixture(scope="module")
def pristine(tmp_path_factory):
    """A root with empty tables."""
    root = tmp_path_factory.mktemp("power") / "pristine"
    with claimed(root / "checkpoints", root / "tables", BASIS):
        pass
    return root


def disk_of(pristine: Path, folder: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> Disk:
    shutil.copytree(pristine, folder)
    disk = Disk(folder, random.Random(seed))
    monkeypatch.setattr(os, "fsync", disk.fsync)
    monkeypatch.setattr(lease, "EXPIRY_SECONDS", 0.1)  # of a lease that is torn: here no machine starts meanwhile
    return disk


def run(root: Path, choice: random.Random) -> None:
    """Append the numbers of a log to a table, some in each batch, until all are there."""
    offsets, commits = (root / "checkpoints" / OPERATOR / name for name in ("offsets", "commits"))
    offsets.mkdir(parents=True, exist_ok=True)
    commits.mkdir(parents=True, exist_ok=True)
    with claimed(root / "checkpoints", root / "tables", BASIS) as generation:
        sink = TableSink(root / "tables", OPERATOR, generation)
        begin = 0
        batch = max((int(file.name) for file in commits.iterdir()), default=-1) + 1
        if batch:
            begin = planned(offsets / str(batch - 1))
        while begin < ROWS:
            plan = offsets / str(batch)
            if not plan.exists():
                plan.write_text(f"{begin + choice.randint(1, 9)};")
            end = min(planned(plan), ROWS)
            sync_plan(root / "checkpoints" / OPERATOR, batch)
            rows = [change(number, seq=number) for number in range(begin, end)]
            sink.append_arrow(table_of(TABLE, rows), TABLE, batch_id=batch)
            (commits / str(batch)).write_text("v1")
            begin, batch = end, batch + 1
            if choice.random() < 0.3:
                maintain(root / "tables", TABLE, Limits())


def planned(file: Path) -> int:
    """The end of a batch's rows; Spark refuses a torn plan in a sentence."""
    if not file.exists() or not file.read_text().endswith(";"):
        raise UserError(f"The plan {file} is not whole.")
    return int(file.read_text().removesuffix(";"))


def outcome(disk: Disk, choice: random.Random) -> str:
    """Run until all is there, with power cuts on the way; return how it ended."""
    for _ in range(2):
        disk.syncs_left = choice.randint(1, 60)
        try:
            run(disk.root, choice)
        except PowerCutError:
            disk.cut()
        except UserError as error:
            return f"refused: {str(error).partition('(')[0]}"
        else:
            break
    disk.syncs_left = 0
    try:
        run(disk.root, choice)
    except UserError as error:
        return f"refused: {str(error).partition('(')[0]}"
    found = sorted(row["seq"] for row in read_rows(disk.root / "tables", TABLE))
    assert found == list(range(ROWS))
    return "whole"


def outcomes(pristine: Path, folder: Path, seeds: range, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    found: Counter[str] = Counter()
    for seed in seeds:
        try:
            ended = outcome(disk_of(pristine, folder / str(seed), seed, monkeypatch), random.Random(-seed))
            print(seed, ended)
            found[ended] += 1
        except AssertionError as error:
            raise AssertionError(f"seed {seed}") from error
        shutil.rmtree(folder / str(seed))
    return found


def test_after_power_cuts_every_row_is_there_once_or_a_start_is_refused(pristine, tmp_path, monkeypatch):
    found = outcomes(pristine, tmp_path, range(12), monkeypatch)

    assert found["whole"] >= 4, found


@pytest.mark.prove
@pytest.mark.timeout(3_600)
def test_after_hundreds_of_power_cuts_too(pristine, tmp_path, monkeypatch):
    print("\n", outcomes(pristine, tmp_path, range(300), monkeypatch))
