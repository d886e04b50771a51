"""A power cut: what was not synced is lost or torn; the rows are all there once, or a start says what is not whole.

Spark's part is played: it plans a batch, hands it to our sinks, writes the state and records it, and syncs none of its
files.
"""

import json
import os
import random
import shutil
from collections import Counter
from pathlib import Path

import pytest

from checkpoints import lease
from checkpoints.generation import claimed
from checkpoints.manifest import OPERATOR
from checkpoints.spark_files import last
from schemas.arrow import table_of
from streaming.base.errors import UserError
from streaming.pipeline.sinks import TableSink, sync_plan, sync_state
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
    operator = root / "checkpoints" / OPERATOR
    with claimed(root / "checkpoints", root / "tables", BASIS) as generation:
        sink = TableSink(root / "tables", OPERATOR, generation)
        recorded = last(operator / "commits")
        batch = recorded + 1
        begin = planned(operator, recorded) if batch else 0
        while begin < ROWS:
            assert batch == 0 or state(operator, batch).read_text() == str(begin), "the state is not that of the batch"
            plan = operator / "offsets" / str(batch)
            if not plan.exists():
                write(plan, f"v1\n{{}}\n{json.dumps({'log': {'0': begin + choice.randint(1, 9)}})}")
            end = min(planned(operator, batch), ROWS)
            sync_plan(operator, batch)
            rows = [change(number, seq=number) for number in range(begin, end)]
            if batch == recorded + 1:
                write(operator / f"state/0/_metadata/v2/{batch}", "v2\n{}")
            write(state(operator, batch + 1), str(end))
            sink.append_arrow(table_of(TABLE, rows), TABLE, batch_id=batch)
            sync_state(operator, batch)
            write(operator / "commits" / str(batch), "v1\n{}")
            begin, batch = end, batch + 1
            if choice.random() < 0.3:
                maintain(root / "tables", TABLE, Limits())


def planned(operator: Path, batch: int) -> int:
    """The end of a batch's rows."""
    return int(json.loads((operator / "offsets" / str(batch)).read_text().splitlines()[-1])["log"]["0"])


def state(operator: Path, version: int) -> Path:
    return operator / "state/0/0" / f"{version}.changelog"


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def outcome(disk: Disk, choice: random.Random) -> str:
    """Run until all is there, with power cuts on the way; return how it ended."""
    for _ in range(2):
        disk.syncs_left = choice.randint(1, 60)
        try:
            run(disk.root, choice)
        except PowerCutError:
            disk.cut()
        except UserError as error:
            return refusal(error, disk.root)
        else:
            break
    disk.syncs_left = 0
    try:
        run(disk.root, choice)
    except UserError as error:
        return refusal(error, disk.root)
    found = sorted(row["seq"] for row in read_rows(disk.root / "tables", TABLE))
    assert found == list(range(ROWS))
    return "whole"


def refusal(error: UserError, root: Path) -> str:
    return f"refused: {str(error).replace(str(root), '').partition('(')[0]}"


def outcomes(pristine: Path, folder: Path, seeds: range, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    counts: Counter[str] = Counter()
    for seed in seeds:
        try:
            ended = outcome(disk_of(pristine, folder / str(seed), seed, monkeypatch), random.Random(-seed))
            print(seed, ended)
            counts[ended] += 1
        except AssertionError as error:
            raise AssertionError(f"seed {seed}") from error
        shutil.rmtree(folder / str(seed))
    return counts


def test_after_power_cuts_every_row_is_there_once_or_a_start_is_refused(pristine, tmp_path, monkeypatch):
    found = outcomes(pristine, tmp_path, range(12), monkeypatch)

    assert found["whole"] >= 4, found


@pytest.mark.prove
@pytest.mark.timeout(3_600)
def test_after_hundreds_of_power_cuts_too(pristine, tmp_path, monkeypatch, record_property):
    record_property("roots", dict(outcomes(pristine, tmp_path, range(300), monkeypatch)))
