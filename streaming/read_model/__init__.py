"""Reads the tables: with DuckDB for everything a user asks, with Spark for who has one anyway."""

from streaming.read_model.reader import ReadModel

__all__ = ["ReadModel"]
