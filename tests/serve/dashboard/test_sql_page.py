"""The page for SQL, with the keyboard alone, and what a hostile query costs."""

import re

import pytest
from playwright.sync_api import expect

from tests.serve.dashboard.tables import Group
from tests.support.tables import append, read_rows
from tests.support.waiting import until

LAG = (
    'SELECT time, "group", sum(lag) AS lag FROM queue_observations WHERE "group" LIKE \'e%\' AND lag >= 0 GROUP BY ALL'
)
ENDLESS = "SELECT list_sum(list_transform(range(1, 40000000), lambda x: sin(x) + cos(x))) FROM range(1000)"
"""One call of a scalar function after the other: DuckDB looks for an interrupt only between them."""
REFUSED = {
    "SELECT * FROM read_csv('/etc/passwd')": "The table function read_csv can't be used here",
    "ATTACH '/etc/passwd' AS a": "Only a single SELECT is allowed.",
    "SELECT getenv('HOME')": "The function getenv can't be used here.",
    "COPY telemetry TO '/tmp/rebalance-watch-copied'": "Only a single SELECT is allowed.",
    "SELEC 1": 'The query failed: syntax error at or near "SELEC"',
}
"""Neighbours have other sentences, which show that the answer is the next one's: the page runs one query at a time."""


@pytest.fixture
def page(open_page):
    return open_page("/sql")


def typed(page, query: str) -> None:
    """Replace the query as people type, and run it."""
    page.get_by_role("textbox", name="Query").focus()
    page.keyboard.press("Control+a")
    page.keyboard.type(query)
    page.keyboard.press("Control+Enter")


def test_an_answer_is_a_table_a_chart_and_a_file_by_keyboard(page, site):
    typed(page, LAG)
    answer = page.get_by_role("region", name="Answer")
    expect(answer.get_by_role("rowgroup").last.get_by_role("row")).to_have_count(50)  # the first page of it
    chart = answer.get_by_role("img", name="Lines over time of: east-group")
    expect(chart.locator("svg path").first).to_be_attached()
    page.wait_for_url(re.compile(r"/sql\?query=SELECT"))
    answer.get_by_role("button", name="Download CSV").focus()
    with page.expect_download() as download:
        page.keyboard.press("Enter")
    written = download.value.path().read_text().splitlines()
    assert written[0] == "time,group,lag"
    assert len(written) > 60
    assert re.fullmatch(r"2\d{3}-\d\d-\d\dT[0-9:.]+Z,east-group,0", written[1])

    typed(page, "SELECT '=1+2' AS sum, 'a,\"b' AS text, [1, NULL] AS list, NULL AS nothing, 7 AS number")
    expect(answer.get_by_role("cell", name="[1,null]")).to_be_visible()
    expect(chart).to_be_hidden()
    with page.expect_download() as download:
        answer.get_by_role("button", name="Download CSV").click()
    assert download.value.path().read_text() == ('sum,text,list,nothing,number\n\'=1+2,"a,""b","[1,null]",,7\n')

    def recorded() -> list[tuple[object, ...]]:
        rows = [row for row in read_rows(site.tables, "operator_actions") if row["detail"] == LAG]
        return sorted((row["source"], row["action"], row["result"]) for row in rows)

    until(lambda: recorded() == [("PAGE", "SQL", "DONE")] * 2, 60, recorded)  # the table, and the file


def test_a_name_of_the_schema_and_an_example_get_into_the_editor(page):
    editor = page.get_by_role("textbox", name="Query")
    schema = page.get_by_role("region", name="Schema")
    schema.get_by_text("current_groups", exact=True).press("Enter")  # opens it
    schema.get_by_role("button", name="FROM current_groups").press("Enter")
    expect(editor).to_have_value("FROM current_groups")
    expect(editor).to_be_focused()

    page.get_by_text("Examples", exact=True).press("Enter")
    page.get_by_role("button", name="For how many hours had each group each health?").press("Enter")
    expect(editor).to_have_value(re.compile(r"FROM group_state\s+WHERE time >= TIMESTAMPTZ '20"))
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("region", name="Answer").get_by_role("cell", name="orders-group").first).to_be_visible()
    page.keyboard.press("Control+z")
    expect(editor).to_have_value("FROM current_groups")


def test_a_hostile_query_is_ended_and_costs_no_other_page(page, open_page, site):
    alert = page.get_by_role("alert")
    for query, sentence in REFUSED.items():
        page.get_by_role("textbox", name="Query").fill(query)
        page.get_by_role("button", name="Run").click()
        expect(alert).to_contain_text(sentence)

    typed(page, ENDLESS)
    expect(page.get_by_role("button", name="Running…")).to_be_disabled()
    group = Group("meanwhile-group", "Meanwhile", ("10.0.0.3@meanwhile-1",))
    group.state(site.now)
    append(site.tables, group.taken())
    other = open_page("/?find=meanwhile-group")
    expect(other.get_by_role("link", name="meanwhile-group")).to_be_visible()
    expect(alert).to_have_text(re.compile("^The query took more than 3 seconds and was stopped"))
    typed(page, "SELECT 1 AS one")
    expect(page.get_by_role("cell", name="1", exact=True)).to_be_visible()
    expect(alert).to_have_count(0)
