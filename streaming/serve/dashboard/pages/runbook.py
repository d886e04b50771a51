"""The runbook, and the page of a rule, to which its incidents lead."""

import re
from functools import cache
from importlib import resources

import markdown2
from markupsafe import Markup

from streaming.base.language import ENGLISH, current, gettext
from streaming.queries.rule_text import RuleText, rule_text
from streaming.serve.dashboard.parts.frame import frame
from streaming.serve.dashboard.parts.markup import LiveMarkup
from streaming.serve.links import home_link, incidents_link


class RulePage:
    """The texts of a rule, independent of the tables."""

    def __init__(self, code: str) -> None:
        self._code = code
        self._text: RuleText

    async def ask(self) -> None:
        """Read the rule.

        Raises:
            NotFoundError: there is no such code.
        """
        self._text = rule_text(self._code)

    def lay_out(self) -> None:
        """Create the page and show it."""
        frame(self._text.code, [
            (gettext("Groups"), home_link()), (gettext("Incidents"), incidents_link()), (self._text.code, None),
        ])  # fmt: skip
        LiveMarkup("rule").show(rule=self._text, now_open=incidents_link(code=self._text.code, state="open"))


_LINK_TO_A_FILE = re.compile(r"\[([^\]]+)\]\((?!https?:)[^)]*\)")
"""A link to a file of the repository, which the dashboard does not serve: its text stays."""
_ALARM = re.compile(r"<td><code>(\w+)</code></td>")


class RunbookPage:
    """The runbook, with an anchor for each alarm."""

    async def ask(self) -> None:
        """Read nothing: the text is a part of the program."""

    def lay_out(self) -> None:
        """Create the page and show it."""
        frame(gettext("Runbook"), [(gettext("Groups"), home_link()), (gettext("Runbook"), None)])
        LiveMarkup("runbook").show(text=_text(current().code))


@cache
def _text(language: str) -> Markup:
    name = "RUNBOOK.md" if language == ENGLISH else f"RUNBOOK.{language}.md"
    written = resources.files("streaming").joinpath(name).read_text("utf-8").partition("\n")[2]
    html = markdown2.markdown(_LINK_TO_A_FILE.sub(r"\1", written), extras=["tables", "code-friendly"])
    return Markup(_ALARM.sub(r'<th scope="row" id="\1"><code>\1</code></th>', html))  # noqa: S704  our own file
