"""The pages to which alerts of Prometheus lead: what a rule means, and the runbook."""

import re

import pytest
from playwright.sync_api import expect

from rebalance_model.observe.rules.registry import RULES
from streaming.base.language import in_language
from streaming.base.settings import conf_file
from streaming.queries.rule_text import ABOUT, rule_codes, rule_text
from streaming.serve.dashboard.parts.markup import rendered
from streaming.serve.links import incidents_link


def test_a_rule_says_what_each_cause_means_and_what_to_do_first(open_page):
    page = open_page("/rule/ORDERED_QUEUE_STUCK")

    expect(page.get_by_role("heading", level=1)).to_have_text("ORDERED_QUEUE_STUCK")
    causes = page.get_by_role("region", name="What it means, and what to do first").get_by_role("row")
    advice = {sub: rule.advise(sub) for rule in RULES if rule.code == "ORDERED_QUEUE_STUCK" for sub in rule.sub_causes}
    expect(causes).to_have_count(len(advice) + 1)
    loop = causes.filter(has=page.get_by_role("rowheader", name="SUSPEND_LOOP"))
    expect(loop).to_contain_text(advice["SUSPEND_LOOP"].first_step)
    page.get_by_role("link", name="Its open incidents").click()
    page.wait_for_url(re.compile(r"/incidents\?code=ORDERED_QUEUE_STUCK&state=open"))


@pytest.mark.parametrize("code", rule_codes())
def test_every_code_has_a_page(code):
    page = rendered("rule", rule=rule_text(code), now_open=incidents_link(code=code))
    assert f"<h1>{code}</h1>" in page


def test_the_kinds_of_subject_are_translated():
    assert {rule.about for rule in RULES} == set(ABOUT)
    with in_language("zh"):
        page = rendered("rule", rule=rule_text("CLOCK_SKEW"), now_open="")
    assert "客户端、Broker、集群" in page


def test_an_unknown_code_is_a_page_that_names_the_nearest_one(open_page):
    page = open_page("/rule/LOCK_EXPIRE")
    expect(page.get_by_text("LOCK_EXPIRED")).to_be_visible()


def test_the_runbook_has_an_anchor_for_each_alert_that_names_it(open_page):
    page = open_page("/runbook")

    expect(page.get_by_role("heading", level=1)).to_have_text("Runbook")
    named = set(re.findall(r"/runbook#(\w+)", conf_file("prometheus/rules.yml").read_text("utf-8")))
    assert len(named) > 5
    for alert in named:
        expect(page.locator(f"#{alert}")).to_have_text(alert)
    expect(page.locator("main a[href*='README']")).to_have_count(0)
