"""What every section of the settings is."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """Settings that are checked: unknown ones are refused, and none changes."""

    model_config = ConfigDict(extra="forbid", frozen=True)
