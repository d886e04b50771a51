"""The contract of every event and every table, generated from one source of truth: the msgspec types."""
