"""Spark schemas of the tables. Nothing else in `schemas` imports Spark."""

from pyspark.sql import types as spark

from schemas.tables import ColumnType, ListOf, StructOf, TableColumn, columns

_SCALARS: dict[str, spark.DataType] = {
    "string": spark.StringType(),
    "long": spark.LongType(),
    "timestamp": spark.TimestampType(),
    "boolean": spark.BooleanType(),
    "binary": spark.BinaryType(),
    "date": spark.DateType(),
}


def spark_schema(table: str) -> spark.StructType:
    """Return the schema of a table; a derived row's JSON is parsed with it (from_json).

    Columns that are never null are NOT NULL, so Delta refuses a row that lacks one. Inside lists and structs all
    fields may be null: Delta has no NOT NULL there.

    Raises:
        KeyError: the table does not exist.
    """
    return spark.StructType([_field(column, nullable=column.nullable) for column in columns(table)])


def _field(column: TableColumn, *, nullable: bool) -> spark.StructField:
    return spark.StructField(column.name, _type(column.type), nullable)


def _type(declared: ColumnType) -> spark.DataType:
    if isinstance(declared, ListOf):
        return spark.ArrayType(_type(declared.element), containsNull=True)
    if isinstance(declared, StructOf):
        return spark.StructType([_field(column, nullable=True) for column in declared.columns])
    return _SCALARS[declared]
