"""The result of one check of the doctor."""

from typing import Literal

import msgspec


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one check."""

    part: str
    state: Literal["ok", "missing", "wrong"]
    found: str
    mend: str = ""
    needed: bool = True
    """Whether `run` requires it; False if only the lab does."""
