"""Every column says what it means, with each of its values."""

import typing

import pytest

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.effects import AssignmentChange, QueueMove, RebalanceSettled
from rebalance_model.observe.events import AnyEvent
from schemas.json_schema import events_document
from schemas.meanings import column_meanings, meaning_of, meanings_of
from schemas.tables import ROWS, TABLES, columns
from streaming.queries.labels import GAINED, LOST, TRIGGERS


@pytest.mark.parametrize("table", TABLES)
def test_every_table_and_column_has_a_meaning(table):
    assert meaning_of(table)
    assert all(meanings_of(table)[column.name] for column in columns(table))


@pytest.mark.parametrize("struct", [QueueMove, MessageQueue])
def test_every_field_inside_a_row_has_a_meaning(struct):
    assert column_meanings(struct).keys() >= set(struct.__struct_fields__)


def test_every_field_of_an_event_has_a_meaning():
    definitions = events_document()["$defs"]
    assert definitions.keys() >= {kind.__name__ for kind in typing.get_args(AnyEvent)}
    for name, one in definitions.items():
        described = {field for field, schema in one["properties"].items() if schema.get("description")}
        assert described == one["properties"].keys() - {"type"}, name


@pytest.mark.parametrize("row", [*dict.fromkeys(ROWS.values()), QueueMove])
def test_the_meaning_of_a_column_has_each_of_its_values(row):
    for name, declared in typing.get_type_hints(row).items():
        for value in _values(declared):
            assert value in column_meanings(row)[name], (row, name)


def _values(declared):
    if typing.get_origin(declared) is typing.Literal:
        return typing.get_args(declared)
    return [value for part in typing.get_args(declared) for value in _values(part)]


def test_the_codes_of_columns_without_a_type_of_their_own_have_a_meaning():
    evidence, trigger = column_meanings(AssignmentChange)["evidence"], column_meanings(RebalanceSettled)["trigger"]

    assert [code for code in (*GAINED, *LOST) if code not in evidence] == []
    assert [code for code in TRIGGERS if code not in trigger] == []


def test_a_text_that_is_never_null_says_what_empty_means():
    """`anomalies` and the others have empty texts where the core has them: documented, so that no reader guesses."""
    of_tables = {
        "anomalies": ("cause", "group", "sub_cause", "subject", "main_cause", "main_explanation"),
        "assignment_history": ("cause", "rebalance_id"),
        "group_state": ("consume_type", "message_model", "consume_from_where", "health_reason"),
        "queue_state": ("status_reason",),
    }
    for table, names in of_tables.items():
        for name in names:
            assert "empty" in meanings_of(table)[name].lower(), (table, name)
