"""Spark schemas of the tables. Nothing else in `schemas` imports Spark."""

from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from schemas.arrow import arrow_schema


def spark_schema(table: str) -> StructType:
    """Return the schema of a table; a derived row's JSON is parsed with it (from_json).

    Columns that are never null are NOT NULL, so Delta refuses a row that lacks one. Inside lists and structs all
    fields may be null: Delta has no NOT NULL there.

    Raises:
        KeyError: the table does not exist.
    """
    return from_arrow_schema(arrow_schema(table))
