"""The settings of how people sign in to the dashboard, and the role that what is said of a person gives."""

import re
from collections.abc import Collection
from typing import Literal, Self, TypeAlias
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator

from streaming.base.addresses import is_loopback
from streaming.base.sections.section import Section

Role: TypeAlias = Literal["viewer", "operator"]
"""A viewer sees everything; an operator also acknowledges, silences and closes incidents, and runs SQL."""
EVERYONE = "*"
"""In the place of a role's values: everybody who signs in has it."""
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


class SignIn(Section):
    """How people sign in. Programs send the token, whatever this is."""

    kind: Literal["token", "oidc", "proxy"]
    operators: tuple[str, ...]
    viewers: tuple[str, ...]
    session_hours: float = Field(gt=0, le=720)
    issuer: str = Field(pattern=r"^(https?://[^\s?#]+)?$")
    client_id: str
    client_secret: SecretStr
    client_secret_file: str
    ca_file: str
    scopes: tuple[str, ...]
    name_claim: str = Field(min_length=1)
    roles_claim: str = Field(min_length=1)
    name_header: str
    roles_header: str

    @field_validator("issuer")
    @classmethod
    def _is_encrypted(cls, issuer: str) -> str:
        at = urlsplit(issuer)
        if at.scheme == "http" and not is_loopback(at.hostname or ""):
            raise ValueError("should begin with https://: what the provider says of people must not be changed")
        return issuer

    @field_validator("name_header", "roles_header")
    @classmethod
    def _is_header(cls, name: str) -> str:
        if not _HEADER.fullmatch(name):
            raise ValueError("should be the name of a header, such as X-Forwarded-User")
        return name.lower()

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        if self.kind == "token":
            return self
        if not (self.operators or self.viewers):
            raise ValueError(f'nobody could sign in: set operators or viewers, such as operators = ["{EVERYONE}"]')
        if self.kind == "oidc" and not (self.issuer and self.client_id):
            raise ValueError("kind oidc needs issuer and client_id, as the identity provider has them")
        if self.kind == "oidc" and "openid" not in self.scopes:
            raise ValueError("scopes should have openid")
        return self

    @property
    def session_seconds(self) -> int:
        """The length of a session."""
        return max(1, round(self.session_hours * 3600))

    def role_of(self, values: Collection[str]) -> Role | None:
        """Return the role of a person of whom these values are said; None: none, so who is not let in."""
        roles: tuple[tuple[Role, tuple[str, ...]], ...] = (("operator", self.operators), ("viewer", self.viewers))
        return next((role for role, wanted in roles if EVERYONE in wanted or not set(wanted).isdisjoint(values)), None)
