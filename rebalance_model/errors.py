"""The errors of the model have one base, so that a program can tell them from its own."""


class ModelError(Exception):
    """Base of every error that the model raises on purpose."""


class UnknownSubjectError(ModelError, LookupError):
    """A question is about a cluster, a group or a queue that no event has shown."""
