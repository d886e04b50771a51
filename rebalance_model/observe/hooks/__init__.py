"""Fold the events of the brokers' hooks, each of which is one call of a client."""
