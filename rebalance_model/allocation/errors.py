"""Errors of a strategy, by the exception that Java throws for them."""

from rebalance_model.errors import ModelError


class AllocationError(ModelError, ValueError):
    """Arguments that Java refuses with IllegalArgumentException, or a strategy or parameter that Java doesn't have."""


class AllocationNullError(AllocationError):
    """A null where Java throws NullPointerException: as with any other exception, the client keeps its queues."""
