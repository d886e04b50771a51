"""The pages in Chinese, in a browser whose reader wants that, and the switch between the languages."""

import re

import pytest
from playwright.sync_api import expect

from streaming.serve.web.middleware import LANGUAGE_COOKIE
from tests.languages.catalogues import read
from tests.serve.dashboard.conftest import SIZES
from tests.serve.dashboard.tables import MINUTE, Group
from tests.serve.dashboard.test_looks import LARGE, PAGES
from tests.support.tables import append

CHINESE = "zh-CN"
_SHOWN = """() => {
  const skipped = "code, pre, .mono, script, style, [lang]:not(html), a.brand, [translate=no]", found = [];
  const add = (node, text) => node.closest(skipped) || !text?.trim() || found.push(text.trim());
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) add(texts.currentNode.parentElement, texts.currentNode.textContent);
  for (const name of ["aria-label", "title", "placeholder", "aria-valuetext"]) {
    for (const node of document.querySelectorAll(`[${name}]`)) add(node, node.getAttribute(name));
  }
  return found;
}"""
"""Returns the texts that are shown or read out, without those that are no language."""
_CUT = """() => [...document.querySelectorAll("h1, h2, dt, dd, button, .button, summary, th, option, label, .status")]
  .filter(one => one.clientWidth && one.scrollWidth > one.clientWidth + 1 && getComputedStyle(one).display !== "inline"
    && !one.closest(".visually-hidden, thead")).map(one => one.innerText)"""
"""Returns the texts that do not fit into their elements."""


def _english(texts: list[str]) -> list[str]:
    """Return the texts that are English: those of the catalogue, and sequences of English words."""
    translated = {one.id for one in read("zh") if isinstance(one.id, str) and one.id and one.string != one.id}
    words = re.compile(r"\b[A-Za-z]?[a-z]+('s)? [a-z]{2,}\b(?![-@:])")  # not the name of a broker or queue
    said = (re.sub(r"`[^`]*`|mqadmin \w+", "", text) for text in texts)
    return [text for text in said if text in translated or words.search(text)]


@pytest.mark.parametrize(
    "path", [pytest.param(path, marks=[pytest.mark.prove] if path in LARGE else []) for path in PAGES]
)
def test_no_page_has_english_sentences_or_cut_texts_in_chinese(open_page, path):
    page = open_page(path, width=390, locale=CHINESE)
    expect(page.locator("html")).to_have_attribute("lang", CHINESE)
    page.get_by_role("button", name="主题").wait_for()
    for width in (390, 1440):
        page.set_viewport_size({"width": width, "height": SIZES[width]})
        assert not _english(page.evaluate(_SHOWN)), width
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert not page.evaluate(_CUT), width


def test_the_switch_changes_the_language_and_is_remembered(open_page, site):
    page = open_page("/incidents?state=open")
    expect(page.locator("html")).to_have_attribute("lang", "en-US")

    page.get_by_role("button", name="中文").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("问题")
    expect(page.locator("html")).to_have_attribute("lang", CHINESE)
    assert page.url.endswith("/incidents?state=open")
    page.goto(site.base)
    expect(page.get_by_role("heading", level=1)).to_have_text("消费组")

    page.get_by_role("button", name="English").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Consumer groups")
    page.context.clear_cookies()


def test_a_page_on_its_way_at_the_choice_is_in_the_chosen_language(open_page, site):
    page = open_page("/incidents?state=open")

    def chosen_meanwhile(route):
        made_before = route.fetch()
        page.context.add_cookies([{"name": LANGUAGE_COOKIE, "value": "zh", "url": site.base}])
        route.fulfill(response=made_before)

    page.route("**/clients", chosen_meanwhile, times=1)
    page.goto(f"{site.base}/clients")
    expect(page.get_by_role("heading", level=1)).to_have_text("客户端")
    assert page.url.endswith("/clients")
    page.context.clear_cookies()


def test_a_chosen_language_that_is_gone_does_not_reload_for_ever(open_page, site):
    page = open_page("/incidents?state=open")
    page.context.add_cookies([{"name": LANGUAGE_COOKIE, "value": "tlh", "url": site.base}])
    page.goto(f"{site.base}/clients")
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Incidents").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Incidents")
    page.context.clear_cookies()


def test_updates_and_answers_to_input_are_in_the_pages_language(open_page, site):
    group = Group("said-group", "Said", ("10.0.0.3@said-1",))
    group.state(site.now - MINUTE)
    append(site.tables, group.taken())
    page = open_page("/", locale=CHINESE)
    page.get_by_role("link", name="said-group").click()
    expect(page.get_by_role("region", name="队列", exact=True)).to_contain_text("没有队列。")

    group.queue(site.now, 0, None, status="UNKNOWN", status_reason="no known owner")
    group.state(site.now)
    append(site.tables, group.taken())
    queues = page.get_by_role("region", name="队列", exact=True)
    expect(queues.get_by_role("row").nth(1)).to_contain_text("没有已知的持有者")

    page.get_by_role("searchbox", name="查找队列或客户端").fill("nowhere")
    expect(queues).to_contain_text("没有匹配的队列。")


def test_why_a_query_is_refused_is_in_the_pages_language(open_page):
    page = open_page("/sql?query=DROP TABLE telemetry", locale=CHINESE)
    page.get_by_role("button", name="执行").click()
    expect(page.get_by_role("alert")).to_have_text("只允许一条 SELECT。")


@pytest.mark.parametrize(
    ("locale", "sentence"), [(CHINESE, "未知的消费组 nobody"), ("en-GB", "Unknown consumer group nobody")]
)
def test_an_error_is_in_the_readers_language(open_page, locale, sentence):
    page = open_page("/group/nobody", locale=locale)
    expect(page.get_by_text(sentence)).to_be_visible()
