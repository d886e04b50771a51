"""The tables and the same views and functions in a Spark session."""

from pathlib import Path

from pyspark.sql import SparkSession

from schemas.tables import TABLES
from streaming.read_model.catalog import FUNCTIONS, VIEWS, function_sql, view_sql


def register(spark: SparkSession, tables: Path) -> None:
    """Make tables, views and functions known to the session by their names."""
    for table in TABLES:
        spark.read.format("delta").load(str(tables / table)).createOrReplaceTempView(table)
    for view in VIEWS:
        spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW {view} AS\n{view_sql(view)}")
    for function, parameters in FUNCTIONS.items():
        declared = ", ".join(f"{parameter} BIGINT" for parameter in parameters)
        spark.sql(
            f"CREATE OR REPLACE TEMPORARY FUNCTION {function}({declared}) RETURNS TABLE RETURN\n"
            f"{function_sql(function)}"
        )
