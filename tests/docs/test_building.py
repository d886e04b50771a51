"""What schemas/BUILDING.md promises of the tables to other engines."""

import re
from datetime import date

import pytest
from deltalake import DeltaTable

from schemas.tables import TABLES
from streaming.tables.maintenance import Limits, maintain
from tests.docs.source import ROOT
from tests.support.tables import append_rows, make_tables, small_row

WORDS = 1_200


@pytest.mark.parametrize("table", TABLES)
def test_no_table_needs_a_feature_of_delta(table, tmp_path):
    make_tables(tmp_path)
    append_rows(tmp_path, table, [small_row(table) | {"date": date(2026, 11, 27)}])
    append_rows(tmp_path, table, [small_row(table) | {"date": date(2026, 11, 27)}])
    maintain(tmp_path, table, Limits())

    protocol = DeltaTable(tmp_path / table).protocol()
    assert (protocol.min_reader_version, protocol.min_writer_version) == (1, 2)
    assert not protocol.reader_features
    assert not protocol.writer_features
    log = (tmp_path / table / "_delta_log").glob("*.json")
    assert not any("deletionVector" in commit.read_text() for commit in log)


def test_the_page_is_short():
    page = (ROOT / "schemas/BUILDING.md").read_text("utf-8")
    written_by_hand = re.sub(r"<!-- generated.*?<!-- end[^\n]*", "", page, flags=re.DOTALL)
    assert len(written_by_hand.split()) <= WORDS
