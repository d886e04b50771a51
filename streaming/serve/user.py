"""The user of a request: the person who has signed in, or a program; set by the gate for the time of a request."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

from streaming.base.errors import ForbiddenError
from streaming.base.language import gettext
from streaming.base.sections.web import Role


class User(NamedTuple):
    """The author of a request, and what that person or program may do."""

    subject: str
    """The id of a person at the identity provider or the proxy; ``token``: a holder of the token; empty: someone on
    this machine, where nobody signs in."""
    name: str
    """The name of the person who has signed in; empty: nobody has."""
    role: Role
    has_session: bool = False
    """True if the person has signed in here, and can sign out; a proxy's headers come with each request."""

    @property
    def is_operator(self) -> bool:
        """Return whether the user may act, and run SQL."""
        return self.role == "operator"

    @property
    def refusal(self) -> str:
        """Return why the user may not act."""
        return gettext("Only an operator may do this, and {name} is a viewer.", name=self.name)

    def check_operator(self) -> None:
        """Check that the user is an operator.

        Raises:
            ForbiddenError: it is a viewer.
        """
        if not self.is_operator:
            raise ForbiddenError(self.refusal)


NOBODY = User("", "", "operator")
"""The user where nobody signs in."""
BY_TOKEN = User("token", "", "operator")
"""The program that has sent the token."""
_user: ContextVar[User] = ContextVar("user", default=NOBODY)


@contextmanager
def asked_by(user: User) -> Iterator[None]:
    """Let a user be the one who asks until the end of the block."""
    token = _user.set(user)
    try:
        yield
    finally:
        _user.reset(token)


def current_user() -> User:
    """Return who asks."""
    return _user.get()


def check_operator() -> None:
    """Check that an operator asks.

    Raises:
        ForbiddenError: a viewer does.
    """
    current_user().check_operator()
