"""The home page as long as there are no groups: a checklist that is kept up to date and turns into the groups."""

from nicegui import ui

from streaming.base.language import gettext
from streaming.serve.dashboard.parts.frame import element, frame
from streaming.serve.dashboard.parts.markup import LiveMarkup
from streaming.serve.first_run import FirstRun

_LOOK_SECONDS = 1.0


class FirstRunPage:
    """The steps until there are groups."""

    def __init__(self, first_run: FirstRun) -> None:
        self._first_run = first_run

    def lay_out(self) -> None:
        """Create the page and show what is known at once."""
        frame(gettext("First run"), [(gettext("Groups"), None)])
        with element("section", "panel", aria_labelledby="steps"):
            self._markup = LiveMarkup("first_run")
        self._look()
        ui.timer(_LOOK_SECONDS, self._look, immediate=False)

    def _look(self) -> None:
        self._markup.show(steps=self._first_run.look())
