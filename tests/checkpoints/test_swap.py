"""A swap of rows in an object store that does not answer; what a swap does is in `pipeline.rebuild.test_swap`."""

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError

from checkpoints import swap
from checkpoints.manifest import Swap
from streaming.base.errors import UserError
from streaming.base.place import ObjectPlace
from streaming.tables.folder import TableFolder
from tests.support.tables import make_tables

SWAP = Swap("5", ("anomalies",), rows="rows", seed="")


def failing(error):
    def fail(*_, **__):
        raise error

    return fail


@pytest.fixture
def tables(tmp_path, monkeypatch):
    """Tables in an object store: those of a folder take their place."""
    make_tables(tmp_path)
    monkeypatch.setattr(swap, "delta_at", lambda place: DeltaTable(tmp_path / place.name))
    monkeypatch.setattr(swap, "folder_at", lambda place: TableFolder(tmp_path / place.name))
    return ObjectPlace("s3://bucket/tables", {"aws_endpoint": "http://127.0.0.1:1"}, tmp_path, 0)


def unavailable(monkeypatch, call):
    monkeypatch.setattr(DeltaTable, call, failing(DeltaError("Generic S3 error: error sending request")))
    return pytest.raises(UserError, match="No object store answers at http://127")


@pytest.mark.parametrize("call", ["transaction_version", "get_add_actions", "create_write_transaction"])
def test_a_store_that_does_not_answer_to_a_swap_is_one_sentence(tables, tmp_path, monkeypatch, call):
    with unavailable(monkeypatch, call):
        swap.apply(SWAP, tmp_path, tables)


def test_a_store_that_does_not_list_the_former_rows_is_one_sentence(tables, tmp_path, monkeypatch):
    with unavailable(monkeypatch, "get_add_actions"):
        swap.copy_rows(tables, tmp_path / "before", SWAP.tables)


def test_a_swap_is_tried_again_when_another_process_was_faster(tables, tmp_path, monkeypatch):
    write, tries = DeltaTable.create_write_transaction, []

    def write_late(table, *arguments, **named):
        tries.append(table)
        if len(tries) < 3:
            raise CommitFailedError("a newer version is there")
        write(table, *arguments, **named)

    monkeypatch.setattr(DeltaTable, "create_write_transaction", write_late)
    swap.apply(SWAP, tmp_path, tables)
    assert DeltaTable(tmp_path / "anomalies").transaction_version(SWAP.swap_id) == 1
    assert len(tries) == 4  # the table is empty: first it gets a file without rows
