"""Supervision: programs that run together as child processes, are started again when they end, and end together."""
