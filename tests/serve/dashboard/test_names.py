"""Names of groups, clients and queues in tables stay on one line, on a screen and on a phone."""

import pytest
from playwright.sync_api import expect

LONG = "10.20.130.140@payments-worker-eu-central-1-canary-7d9f8b6c5-x2x9q#1234567890123456"
# The name of each link in a cell is replaced by a long one, as hyphens are where browsers break lines.
_LENGTHEN = """long => {
    const names = [...document.querySelectorAll("tbody .name a, tbody .name .client, .facts dd .client, .lede .mono")]
        .filter(node => !node.children.length)
    for (const node of names) node.textContent = long
    return names.length
}"""
_BROKEN = """long => [...document.querySelectorAll("tbody .name *, .facts dd .client, .lede .mono")]
    .filter(node => node.textContent === long && !node.children.length && node.offsetWidth)
    .filter(node => {
        const range = document.createRange()
        range.selectNodeContents(node)
        return new Set([...range.getClientRects()].map(box => Math.round(box.top))).size > 1
    }).length"""


@pytest.mark.parametrize(
    "path",
    [
        "/incident/stuck0001",
        "/group/orders-group",
        *(pytest.param(path, marks=pytest.mark.prove) for path in ("/", "/clients?group=orders-group")),
    ],
)
def test_a_long_name_with_hyphens_is_on_one_line(open_page, path):
    page = open_page(path)
    page.locator(".panel tbody tr, .lede .mono").first.wait_for()
    assert page.evaluate(_LENGTHEN, LONG) > 0
    for width in (1440, 390):
        page.set_viewport_size({"width": width, "height": 844})
        assert page.evaluate(_BROKEN, LONG) == 0
        assert page.evaluate("document.documentElement.scrollWidth") == width


def test_a_name_that_is_cut_has_a_title_and_a_table_has_a_name(open_page):
    table = open_page("/").get_by_role("table", name="Consumer groups: Worst first")  # by its caption, which is unseen

    expect(table.get_by_role("rowheader").filter(has_text="orders-group")).to_have_attribute("title", "orders-group")
