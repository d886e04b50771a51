"""The errors of the model have one base, so that a program can tell them from its own.

The type says whose fault it is: `UsageError` of the program that calls the model; `RejectedError` of who wrote an
event; `UnreadableStateError` and `StateVersionError` of what a state was kept in; `UnknownSubjectError` of who asks,
and `NotYetError` of nobody.
"""


class ModelError(Exception):
    """Base of every error that the model raises on purpose."""


class UsageError(ModelError, TypeError):
    """The calling program passes a value of another type than the one that is declared."""


class UnknownSubjectError(ModelError, LookupError):
    """A question is about a cluster, a group or a queue that no event has shown."""


class NotYetError(UnknownSubjectError):
    """A question is about a cluster or a group whose events wait for other sources; it has an answer later."""

    def __init__(self, subject: str, known_at: int) -> None:
        super().__init__(
            f"events of {subject} wait for what other sources report: ask again when the log has reached {known_at}"
        )
        self.known_at = known_at
        """The log's stamp by which they are folded at the latest, if the log continues; epoch milliseconds."""
