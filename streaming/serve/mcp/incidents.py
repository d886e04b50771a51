"""Tools about incidents, the rules that find them, the checks of the data, and a reader's own SQL."""

from contextlib import AbstractContextManager, nullcontext
from typing import Annotated, Literal

from pydantic import Field

from streaming.base.limits import SQL_CHARACTERS
from streaming.base.settings import Settings
from streaming.queries.health import Severity
from streaming.queries.incident_detail import incident
from streaming.queries.incidents import incidents
from streaming.queries.present import asked_instant, begin_of
from streaming.queries.quality import quality
from streaming.queries.results import Incident, IncidentDetail, QualityCheck, SqlResult
from streaming.queries.rule_text import RuleText, rule_text
from streaming.serve.mcp.dated import ROWS, At, Cluster, DatedAnswer, Limit, Tools, dated, dated_list
from streaming.serve.mcp.descriptions import table_text, tables_text
from streaming.serve.operator_actions import Actor, SqlActions, SqlRecording
from streaming.serve.store import Store
from streaming.serve.user import check_operator, current_user

State = Literal["open", "resolved", "all"]


class IncidentTools(Tools):
    """The tools."""

    def __init__(self, store: Store, settings: Settings, sql_actions: SqlActions | None) -> None:
        super().__init__(store)
        self._web = settings.web
        self._sql_actions = sql_actions

    def list_incidents(
        self,
        *,
        group: Annotated[str | None, Field(description="Only those of this group, and of its cluster.")] = None,
        code: Annotated[str | None, Field(description="Only this code, such as ORDERED_QUEUE_STUCK.")] = None,
        severity: Annotated[Severity | None, Field(description="Only this severity.")] = None,
        state: Annotated[State, Field(description="The state at that time.")] = "open",
        since: Annotated[
            str | int | None,
            Field(description="Those that were open at any time since then, also if `state` is open."),
        ] = None,
        unfold: Annotated[
            bool, Field(description="True to include those that another one in the list explains.")
        ] = False,
        at: At = None,
        cluster: Cluster = None,
        limit: Limit = ROWS,
    ) -> DatedAnswer[list[Incident]]:
        """List the incidents that are open at a time, or were, newest first.

        Each has code, main cause, severity, subject, explanation, evidence, and the first step to do.
        """
        model, instant = self._store.model(), asked_instant(at)
        listed = incidents(
            model, cluster=cluster, group=group, code=code, severity=severity,
            only_open=since is None and state == "open", only_resolved=state == "resolved",
            since=begin_of(model, since, instant), at=instant, unfold=unfold,
        )  # fmt: skip
        return dated_list(model, listed, limit, instant, cluster)

    def show_incident(
        self,
        *,
        incident_id: Annotated[str, Field(description="Id of the incident, or a beginning of it that is unique.")],
    ) -> DatedAnswer[IncidentDetail]:
        """Show one incident with its evidence, its first step and the commands to run next.

        Also its timeline, the incidents that it explains, the event that opened it, the present state of its queue, and
        what the listener was doing if it hung.
        """
        model = self._store.model()
        detail = incident(model, incident_id)
        return dated(model, detail, None, detail.incident.cluster)

    def explain_rule(
        self, code: Annotated[str, Field(description="Code of an incident, such as ORDERED_QUEUE_STUCK.")]
    ) -> RuleText:
        """Explain what the incidents of a code mean.

        Each sub-cause with its first step, the units of the evidence, the telemetry that the rule needs, and the codes
        that may explain it.
        """
        return rule_text(code)

    def list_quality_checks(self) -> DatedAnswer[list[QualityCheck]]:
        """List the last result of each check of the data itself, the failed ones first."""
        model = self._store.model()
        return dated(model, quality(model))

    def describe_tables(
        self,
        *,
        table: Annotated[str | None, Field(description="Table whose columns to describe. Default: list all.")] = None,
    ) -> str:
        """Describe all tables, views and functions for SQL, or the columns of one table."""
        return tables_text() if table is None else table_text(table)

    def sql(
        self,
        *,
        query: Annotated[
            str,
            Field(max_length=SQL_CHARACTERS, description='One SELECT in DuckDB\'s SQL. Quote the column: i."group".'),
        ],
        limit: Annotated[int, Field(ge=1, description="Maximum number of rows; `cut` says if there are more.")] = ROWS,
    ) -> DatedAnswer[SqlResult]:
        """Run one SELECT over tables, views and functions, limited in time, rows and memory.

        describe_tables lists them. A function takes an instant: owners_at(TIMESTAMPTZ '2026-11-21 15:50Z').
        Times in the answer are ISO 8601, UTC.
        """
        with self._recorded(query) as recording:
            check_operator()
            model, most = self._store.model(), min(limit, self._web.sql_rows)
            answer = self._store.sql.ask(query, timeout_s=self._web.sql_seconds, limit=most)
            recording.rows = answer.rows
        return dated(model, SqlResult.model_validate_json(answer.content))

    def _recorded(self, query: str) -> AbstractContextManager[SqlRecording]:
        if self._sql_actions is None:
            return nullcontext(SqlRecording())
        user = current_user()
        return self._sql_actions.recorded(Actor(user.subject, user.name, "MCP"), query)
