"""The meaning of tables and columns is in Delta, also of tables that an older release has made."""

import shutil

from deltalake import DeltaTable

from schemas.arrow import arrow_schema
from schemas.meanings import meaning_of, meanings_of
from schemas.tables import TABLES
from tests.checkpoints.test_generation import start
from tests.support.tables import append_rows, read_rows

CONTROL = {
    "time": 1_000, "control": "ACK", "control_id": "i1", "cluster": None, "group": None, "code": None, "until": None,
    "reason": "seen", "author": "ann", "severity": None,
}  # fmt: skip


def comments(table):
    return {field.name: field.metadata.get("comment") for field in DeltaTable(table).schema().fields}


def test_a_new_table_has_its_meaning(tmp_path):
    start(tmp_path)

    for table in TABLES:
        assert comments(tmp_path / "tables" / table) == meanings_of(table)
        assert DeltaTable(tmp_path / "tables" / table).metadata().description == meaning_of(table)


def test_a_table_that_was_there_gets_it_without_a_change_of_its_data(tmp_path):
    start(tmp_path)
    table = tmp_path / "tables/alert_controls"
    properties = DeltaTable(table).metadata().configuration
    shutil.rmtree(table)
    schema = arrow_schema("alert_controls")
    DeltaTable.create(table, schema, configuration=properties, raise_if_key_not_exists=False)
    append_rows(tmp_path / "tables", "alert_controls", [CONTROL])
    files, before = DeltaTable(table).file_uris(), DeltaTable(table).version()

    for _ in range(2):  # the second start has nothing to do
        start(tmp_path)

        delta = DeltaTable(table)
        assert comments(table) == meanings_of("alert_controls")
        assert delta.metadata().description == meaning_of("alert_controls")
        assert [field.nullable for field in delta.schema().fields] == [field.nullable for field in schema]
        assert delta.file_uris() == files
        assert delta.version() == before + 2, "one commit for all comments, one for the description"
        assert read_rows(tmp_path / "tables", "alert_controls") == [CONTROL]


def test_a_comment_that_has_changed_since_is_changed(tmp_path):
    start(tmp_path)
    table = tmp_path / "tables/anomalies"
    DeltaTable(table).alter.set_column_metadata("code", {"comment": "Another one.", "other": "kept"})

    start(tmp_path)

    assert comments(table) == meanings_of("anomalies")
    assert next(one for one in DeltaTable(table).schema().fields if one.name == "code").metadata["other"] == "kept"
