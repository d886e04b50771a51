"""Errors that a user sees: one sentence that says what to do, without a traceback."""


class UserError(Exception):
    """An error that the user can correct. The command prints this one sentence and ends with exit code 1."""


class SettingsError(UserError):
    """A setting, or a file that the settings name, is wrong, so a new start fails again: exit code 2.

    Its arguments are one sentence for each thing that is wrong.
    """

    def __str__(self) -> str:
        """Return all sentences."""
        return " ".join(map(str, self.args))


class UnhealthyError(UserError):
    """The requested object exists and is unhealthy. The command ends with exit code 3."""


class UnavailableError(UserError):
    """A server does not answer, so a later start may succeed without any change: exit code 4."""


class NotFoundError(UserError):
    """The requested object does not exist: exit code 1 as any `UserError`, and 404 over HTTP."""


class InvalidValueError(UserError):
    """A value is none of a closed set: exit code 2, and 422 over HTTP."""


class ForbiddenError(UserError):
    """The person may not do this: exit code 1 as any `UserError`, and 403 over HTTP."""


class NotReadyError(UserError):
    """The requested data does not exist yet, but may later: exit code 1 as any `UserError`, and 503 over HTTP."""


class QueryError(UserError):
    """A query is wrong, or can't be run, and the files that it reads are not the reason."""


ERRORS_BY_NAME = {kind.__name__: kind for kind in (UserError, SettingsError, NotFoundError, NotReadyError, QueryError)}
"""The errors that one process reports to another."""


def first_line(error: Exception) -> str:
    """Return the first line of a library's error, without its full stop, to be part of a sentence."""
    return str(error).partition("\n")[0].removesuffix(".")
