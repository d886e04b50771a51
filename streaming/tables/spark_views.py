"""Define the tables with the same views and functions in a Spark session."""

from pathlib import Path

from pyspark.sql import SparkSession

from schemas.tables import ADDED, TABLES
from streaming.tables import observations
from streaming.tables.catalog import definitions
from streaming.tables.delta import is_delta_at


def register(spark: SparkSession, tables: Path) -> None:
    """Define tables, views and functions in the session by their names."""
    folder = tables.resolve()  # the JVM may have another working directory
    for table in [table for table in TABLES if table not in ADDED or is_delta_at(folder / table)]:
        spark.read.format("delta").load(str(folder / table)).createOrReplaceTempView(table)
    for name, parameters, text in definitions(observations.IN_SPARK):
        sql = text.replace("unnest(", "explode(").replace("epoch_ms(", "unix_millis(")  # DuckDB's names for them
        if parameters is None:
            spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW {name} AS\n{sql}")
        else:
            declared = ", ".join(f"{parameter} TIMESTAMP" for parameter in parameters)
            spark.sql(f"CREATE OR REPLACE TEMPORARY FUNCTION {name}({declared}) RETURNS TABLE RETURN\n{sql}")
