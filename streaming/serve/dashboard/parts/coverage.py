"""The telemetry that a group is observed by, in one line."""

from streaming.base.language import gettext, ngettext
from streaming.queries.results import TelemetryCoverage


def coverage_of(coverage: TelemetryCoverage) -> str:
    """Format the telemetry coverage in one line."""
    parts = []
    if coverage.hooks:
        parts.append(gettext("hooks {n}/{brokers}", n=coverage.hooks, brokers=coverage.brokers))
    if coverage.polls:
        parts.append(gettext("{n}/{clients} clients respond", n=coverage.members_answering, clients=coverage.members))
    if coverage.silent_rules:
        rules = len(coverage.silent_rules)
        parts.append(ngettext("{n} rule suspended or not applicable", "{n} rules suspended or not applicable", rules))
    if unreadable := len(coverage.unreadable) + coverage.unreadable_more:
        parts.append(ngettext("{n} part of an answer unreadable", "{n} parts of answers unreadable", unreadable))
    if coverage.routes_incomplete:
        topics = "; ".join(coverage.routes_incomplete)
        parts.append(gettext("the collector's route lacks a broker ({topics})", topics=topics))
    return " · ".join(parts) or gettext("none")
