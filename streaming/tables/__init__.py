"""Read and maintain the tables: with DuckDB for all queries of the program, with Spark for users who have it."""

from streaming.tables.reader import ReadModel

__all__ = ["ReadModel"]
