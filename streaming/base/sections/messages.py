"""The settings of what processes say: lines and alerts."""

from typing import Literal

from streaming.base.sections.section import Section


class Log(Section):
    """The lines that a long-running process prints."""

    format: Literal["console", "json"]


class Alerts(Section):
    """The alerts; routes and channels are in a separate file, see `streaming.serve.alerting.config`."""

    file: str
