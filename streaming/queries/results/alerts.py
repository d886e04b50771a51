"""Who was notified about an incident, and what people and programs did about its alerts."""

from pydantic import Field

from streaming.queries.results.base import Instant, QueryResult


class Notification(QueryResult):
    """One alert about an incident and its last step on the way to a channel, or why none was sent."""

    time: Instant = Field(description="Time of its last step, by the clock of the alert process.")
    channel: str | None = Field(description="Name of the channel; null: no channel is notified.")
    message: str | None = Field(description="OPENED, ESCALATED, REMINDER or RESOLVED; null: it is held back.")
    step: str = Field(description="HELD, QUEUED, PACKED, SENT, FAILED or GIVEN_UP, as in alert_deliveries.")
    reason: str | None = Field(default=None, description="Why it is held back, as a code, as in alert_deliveries.")
    related_id: str | None = Field(
        default=None, description="The silence, or the other incident, that the reason is about."
    )
    detail: str = Field(description="The channel's error, or why it was given up, in words; else empty.")
    attempt: int = Field(description="Number of attempts to send it.")


class Acknowledgement(QueryResult):
    """That a person has seen an incident: no more reminders are sent."""

    time: Instant
    author: str
    reason: str


class Closing(QueryResult):
    """That a person has closed an incident, or has opened it again."""

    time: Instant
    author: str
    reason: str


class AlertSilence(QueryResult):
    """An active silence that suppresses the alerts of an incident."""

    silence_id: str
    until: Instant
    author: str
    reason: str


class RecordedAction(QueryResult):
    """What a person or a program did about the alerts of incidents or by SQL, or was refused."""

    time: Instant
    name: str = Field(title="Who", description="Name of who did it; may be empty.")
    subject: str = Field(
        description="What identifies a person for the identity provider or the proxy; of a command the system's user; "
        "token: who had the token; empty: someone on the dashboard's machine."
    )
    source: str = Field(title="By", description="PAGE, REST, MCP or CLI.")
    action: str = Field(description="ACKNOWLEDGE, SILENCE, UNSILENCE, CLOSE, REOPEN or SQL.")
    target: str = Field(
        title="Incident or silence",
        description="Id of the incident or the silence, as it was named if it was not found; of a new silence the "
        "incident that it was made from, or what it matches; empty: SQL.",
    )
    detail: str = Field(title="Reason or query", description="Why, and of a silence how long, or the query of SQL.")
    result: str = Field(description="DONE; REFUSED: not allowed; FAILED: it could not be done.")
    message: str | None = Field(description="Why it was not done; null: it was.")
    rows: int | None = Field(description="How many rows the answer of SQL had; null: another action, or no answer.")
