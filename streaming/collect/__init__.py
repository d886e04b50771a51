"""Telemetry from a real cluster: the poll collector, the spool shipper, and the hook in the brokers."""
