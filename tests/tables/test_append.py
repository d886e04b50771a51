"""Append rows from this process: what a disk refuses is a sentence, and nothing is half there."""

import resource
import subprocess
import sys

import pytest

from schemas.arrow import table_of
from streaming.base.durable import torn_file
from streaming.base.errors import UserError
from streaming.tables.append import append
from streaming.tables.delta import delta_at
from streaming.tables.maintenance import Limits, maintain
from tests.support.tables import make_tables, read_rows
from tests.tables.test_maintenance import HISTORY, change

APPEND = """
import resource, sys
from pathlib import Path
from schemas.arrow import table_of
from streaming.base.errors import UserError
from streaming.tables.append import append
from tests.tables.test_maintenance import change
rows = table_of("assignment_history", [change(n, seq=n, client_id=str(n) * 9) for n in range(2_000)])
resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, resource.RLIM_INFINITY))
try:
    append(Path(sys.argv[1]), rows)
except UserError as error:
    print(error)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
append(Path(sys.argv[1]), rows)
"""


@pytest.mark.skipif(not hasattr(resource, "RLIMIT_FSIZE"), reason="no limit of a file's size here")
def test_a_full_disk_is_a_sentence_and_the_next_append_is_whole(tmp_path):
    tables = make_tables(tmp_path)

    ended = subprocess.run(
        [sys.executable, "-c", APPEND, tables / HISTORY], capture_output=True, text=True, check=False, timeout=200
    )

    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.endswith("can't be written (File too large): free space, or make it writable.\n")
    assert len(read_rows(tables, HISTORY)) == 2_000


@pytest.mark.parametrize("spoil", ["remove", "truncate", "zero"])
def test_a_file_that_is_not_whole_is_found(tmp_path, spoil):
    table = make_tables(tmp_path) / HISTORY
    append(table, table_of(HISTORY, [change(1)]))
    assert torn_file(table) is None

    [file] = table.glob("*.parquet")
    content = file.read_bytes()
    if spoil == "remove":
        file.unlink()
    else:
        file.write_bytes(content[:-1] if spoil == "truncate" else bytes(len(content)))
    assert torn_file(table) == file


def test_files_that_were_replaced_are_not_missed(tmp_path):
    tables = make_tables(tmp_path)
    for number in range(2):
        append(tables / HISTORY, table_of(HISTORY, [change(number, seq=number)]))
    small = list((tables / HISTORY).glob("*.parquet"))
    maintain(tables, HISTORY, Limits())
    for file in small:
        file.unlink()
    assert torn_file(tables / HISTORY) is None


def test_a_commit_that_is_torn_is_a_sentence(tmp_path):
    table = make_tables(tmp_path) / HISTORY
    append(table, table_of(HISTORY, [change(1)]))
    commit = max((table / "_delta_log").glob("*.json"))
    commit.write_bytes(commit.read_bytes()[:50])

    assert torn_file(table) == commit
    with pytest.raises(UserError, match=r"The Delta log of the table assignment_history in .* can't be read"):
        delta_at(table)


def test_rows_are_appended_though_others_are_dropped_meanwhile(tmp_path):
    """`maintain` drops rows while the job, which opened the table before, appends."""
    table = make_tables(tmp_path) / HISTORY
    append(table, table_of(HISTORY, [change(1)]))
    opened = delta_at(table)
    delta_at(table).delete()
    append(opened, table_of(HISTORY, [change(2)]))
    assert [row["time"] for row in read_rows(table.parent, HISTORY)] == [2]
