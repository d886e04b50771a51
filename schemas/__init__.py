"""The contract of every event and every table, generated from one source: the msgspec types."""
