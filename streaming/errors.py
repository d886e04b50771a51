"""Errors that a user sees: one sentence that says what to do, never a traceback."""


class UserError(Exception):
    """Something that the user can mend. The command ends with exit code 1 and this one sentence."""


class UnhealthyError(UserError):
    """What was asked about is there and is not well. The command ends with exit code 3."""


class NotFoundError(UserError):
    """What was asked about isn't there: exit code 1 as any other, and 404 where the question came by HTTP."""
