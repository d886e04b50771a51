import pyarrow as pa
import pytest
from deltalake import Schema as DeltaSchema
from msgspec import Struct
from pyspark.sql.pandas.types import from_arrow_schema

from rebalance_model.observe.effects import TABLE_OF
from schemas.arrow import arrow_schema
from schemas.tables import DERIVED, PARTITIONED_BY, TABLES, ListOf, StructOf, TableColumn, columns, columns_of


def test_every_kind_of_field_becomes_its_column():
    class Inner(Struct):
        name: str

    class Row(Struct):
        text: str
        number: int | None
        flag: bool
        raw: bytes | None
        names: tuple[str, ...]
        parts: tuple[Inner, ...] | None

    inner = StructOf((TableColumn("name", "string", nullable=False),))
    assert columns_of(Row) == (
        TableColumn("text", "string", nullable=False),
        TableColumn("number", "long", nullable=True),
        TableColumn("flag", "boolean", nullable=False),
        TableColumn("raw", "binary", nullable=True),
        TableColumn("names", ListOf("string"), nullable=False),
        TableColumn("parts", ListOf(inner), nullable=True),
    )


@pytest.mark.parametrize("declared", [float, dict[str, str], int | str, int | str | None], ids=str)
def test_a_field_that_no_column_can_hold_is_refused_by_name(declared):
    class Row(Struct):
        odd: declared

    with pytest.raises(TypeError, match="column odd"):
        columns_of(Row)


def test_every_effect_has_its_table_in_the_order_of_the_sink():
    assert list(DERIVED) == list(TABLE_OF.values())
    assert TABLES[: len(DERIVED)] == tuple(DERIVED)


@pytest.mark.parametrize("table", TABLES)
def test_spark_has_the_nullability_of_the_contract(table):
    assert [field.nullable for field in from_arrow_schema(arrow_schema(table))] == [c.nullable for c in columns(table)]


@pytest.mark.parametrize("table", TABLES)
def test_delta_can_hold_every_table(table):
    """No NOT NULL inside a list, which Delta refuses; every type is one of Delta's."""
    held = pa.schema(DeltaSchema.from_arrow(arrow_schema(table)))

    assert held.names == arrow_schema(table).names
    assert all(field.type.value_field.nullable for field in arrow_schema(table) if isinstance(field.type, pa.ListType))


def test_partition_columns_are_columns_that_are_never_null():
    for table, names in PARTITIONED_BY.items():
        required = {column.name for column in columns(table) if not column.nullable}
        assert set(names) <= required
