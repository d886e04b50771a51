"""Errors that a user sees: one sentence that says what to do, without a traceback."""


class UserError(Exception):
    """An error that the user can correct. The command prints this one sentence and ends with exit code 1."""


class UnhealthyError(UserError):
    """The requested object exists and is unhealthy. The command ends with exit code 3."""


class NotFoundError(UserError):
    """The requested object does not exist: exit code 1 as any `UserError`, and 404 over HTTP."""
