"""Telemetry events in, findings out: the observer that rebuilds each consumer group."""
