"""The contract of every event and every table."""
