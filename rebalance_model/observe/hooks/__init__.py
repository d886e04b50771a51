"""Fold the events of the brokers' hooks; each event is one call of a client."""
