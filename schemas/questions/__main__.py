"""Answer the questions of this folder: ``python -m schemas.questions TABLES [GROUP [SINCE [UNTIL [LAST_RUN]]]]``."""

import sys
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter

from schemas.questions import answer, opened, questions


def _main(tables: str, group: str = "", since: str = "", until: str = "", last_run: str = "1970-01-01T00:00Z") -> None:
    connection = opened(Path(tables))
    [(some_group, first, last)] = connection.sql(
        'SELECT min("group") FILTER (WHERE "group" <> \'\'), min(time), max(time) FROM group_state'
    ).fetchall()
    values = {
        "group": group or some_group,
        "since": _instant(since) if since else first,
        "until": _instant(until) if until else last,
        "last_run": _instant(last_run),
    }
    for name, query in questions():
        began = perf_counter()
        rows = str(answer(connection, query, **values))
        asked = " ".join(line.removeprefix("-- ") for line in query.splitlines() if line.startswith("-- "))
        print(f"\n{name}: {asked}\n{rows}\n{perf_counter() - began:.2f} s")


def _instant(text: str) -> datetime:
    instant = datetime.fromisoformat(text)
    return instant if instant.tzinfo else instant.replace(tzinfo=UTC)


if __name__ == "__main__":
    _main(*sys.argv[1:])
