"""Rows that the operator gives as JSON become the same table as rows of Python."""

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalance_model.entities import INT64_MAX
from schemas.arrow import arrow_schema, table_of, table_of_json
from schemas.tables import DERIVED
from tests.support.tables import small_row, stored

_TIMES = st.integers(-(2**42), 2**42)
_TEXTS = st.text(st.characters(codec="utf-8"))


def values_of(field: pa.Field) -> st.SearchStrategy[object]:
    """Return what a column may hold, as JSON has it: times are epoch milliseconds."""
    values = _values(field.type)
    return st.none() | values if field.nullable else values


def _values(declared: pa.DataType) -> st.SearchStrategy[object]:
    if pa.types.is_list(declared):
        return st.lists(values_of(declared.value_field), max_size=3)
    if pa.types.is_struct(declared):
        return st.fixed_dictionaries({field.name: values_of(field) for field in declared})
    if pa.types.is_timestamp(declared):
        return _TIMES
    if pa.types.is_boolean(declared):
        return st.booleans()
    return st.integers(-INT64_MAX - 1, INT64_MAX) if pa.types.is_integer(declared) else _TEXTS


def rows_of(table: str) -> st.SearchStrategy[list[dict[str, object]]]:
    """Return some rows of a derived table, without its day."""
    row = st.fixed_dictionaries({field.name: values_of(field) for field in arrow_schema(table) if field.name != "date"})
    return st.lists(row, min_size=1, max_size=4)


@pytest.mark.parametrize("table", DERIVED)
@settings(max_examples=40)
@given(data=st.data())
def test_rows_in_json_are_the_same_rows(table, data):
    rows = data.draw(rows_of(table))
    found = table_of_json(table, lines(*rows))
    assert found == table_of(table, [stored(table, row) for row in rows])
    assert found.schema == arrow_schema(table)


def lines(*rows: dict[str, object]) -> bytes:
    return msgspec.json.Encoder().encode_lines(rows)


def test_many_blocks_keep_the_order_and_a_row_may_be_larger_than_one(monkeypatch):
    monkeypatch.setattr("schemas.arrow._BLOCK_BYTES", 1)
    found = table_of_json("anomalies", lines(*(small_row("anomalies") | {"seq": number} for number in range(50))))
    assert found["seq"].to_pylist() == list(range(50))
    assert found["seq"].num_chunks > 1
    (group,) = table_of_json("anomalies", lines(small_row("anomalies") | {"group": "é" * 10_000}))["group"].to_pylist()
    assert len(group) == 10_000


@pytest.mark.parametrize("change", [{"time": 1.5}, {"time": INT64_MAX + 1}, {"cluster": 1}, {"odd": 1}], ids=str)
def test_a_row_that_does_not_fit_its_table_is_an_error(change):
    assert len(table_of_json("anomalies", lines(small_row("anomalies")))) == 1
    with pytest.raises(pa.ArrowInvalid):
        table_of_json("anomalies", lines(small_row("anomalies") | change))
