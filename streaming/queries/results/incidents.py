"""Incidents and the transitions of their timeline."""

from pydantic import Field

from streaming.base.language import gettext
from streaming.queries.health import Severity
from streaming.queries.results.base import Instant, QueryResult


class Incident(QueryResult):
    """An incident after its last transition by the requested time."""

    headline: str = Field(default="", title="What is wrong", description="The problem and its cause, in a few words.")
    cluster: str
    group: str
    incident_id: str = Field(title="Id")
    code: str
    sub_cause: str = Field(description="The cause that held longest; empty: none is distinguished.")
    severity: Severity = Field(description="The latest one.")
    subject: str
    opened_at: Instant = Field(title="Opened")
    resolved_at: Instant | None = Field(title="Resolved")
    changed_at: Instant
    transitions: int
    topic: str | None
    broker: str | None
    queue_id: int | None
    client_id: str | None = Field(title="Client")
    explanation: str
    first_step: str
    judged_at: Instant = Field(
        description="The transition of which cause, client, explanation, first step and evidence are: the last one at "
        "the worst severity of the cause. What changed later is in the timeline."
    )
    parent: str | None = Field(title="Explained by", description="Id of the incident that explains it.")
    absorbed: bool = Field(description="True if no alert is sent of it because the alert of that one stands for it.")
    evidence: dict[str, object]
    cause: str = Field(
        description="Event that caused its last transition: source_id|key|seq; empty if it was the passage of time."
    )
    resolution: str | None = Field(
        default=None,
        title="Ended",
        description=(
            "Why it was resolved although its condition was not seen to clear: the topic no longer exists, or a person "
            "has closed it (who, and why)."
        ),
    )
    cleared_at: Instant | None = Field(
        default=None,
        description="When its condition cleared; null while it holds, even if a person has closed the incident.",
    )
    alike: int = Field(
        default=0,
        description="Number of further incidents of the same code, cause, client and broker for which this one stands.",
    )
    consequences: int = Field(default=0, title="Explains", description="Number of incidents that it explains.")

    @property
    def title(self) -> str:
        """The code and the cause."""
        return f"{self.code} {self.sub_cause}".rstrip()

    @property
    def where(self) -> str:
        """The affected group or cluster."""
        return self.group or gettext("cluster {cluster}", cluster=self.cluster)


BY_PERSON = ("CLOSED", "REOPENED")
"""The action of a person, in the timeline of an incident; the explanation is who, and why."""


class Transition(QueryResult):
    """A transition in the timeline of an incident, or that a person closed it or opened it again."""

    time: Instant
    transition: str = Field(
        description="OPENED, ESCALATED, DEESCALATED, RECLASSIFIED, RESOLVED; CLOSED, REOPENED: by a person; the "
        "explanation is who, and why."
    )
    severity: Severity
    sub_cause: str
    explanation: str
    evidence: dict[str, object]
    parent: str | None
    cause: str
