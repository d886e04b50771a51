"""The page of a rule: what its incidents mean, and what to do first. The Prometheus rules name it as their runbook."""

from streaming.base.language import gettext
from streaming.queries.rule_text import RuleText, rule_text
from streaming.serve.dashboard.parts.frame import frame
from streaming.serve.dashboard.parts.markup import LiveMarkup
from streaming.serve.links import home_link, incidents_link


class RulePage:
    """What a rule says of itself, whatever the tables have."""

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
