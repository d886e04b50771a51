"""Telemetry from a real cluster: the remoting client and the collectors."""
