"""Errors of a strategy, by the exception that Java throws for them."""


class AllocationError(ValueError):
    """Arguments that Java refuses with IllegalArgumentException, or a strategy or parameter that Java doesn't have."""


class AllocationNullError(AllocationError):
    """A null where Java throws NullPointerException: as with any other exception, the client keeps its queues."""
