"""The Grafana dashboard and the Prometheus rules ask only for what is exported, and the rules fire when they should."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from streaming.base.settings import conf_file
from streaming.serve.alerting.config import OWN_CODES
from streaming.serve.metrics import snapshot
from streaming.serve.metrics.collector import registry
from streaming.serve.metrics.snapshot import Sources
from streaming.serve.store import Store
from tests.support.world import NOON, example

ROOT = Path(__file__).parents[3]
RULES = conf_file("prometheus/rules.yml")
OURS = re.compile(r"\b(?:rocketmq|rebalance_watch)_[a-z_]+")
SELECTED = re.compile(r"\b((?:rocketmq|rebalance_watch)_[a-z_]+)\{([^}]*)\}")
OF_PROMETHEUS = {"instance", "job", "severity"}

pytestmark = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is missing: conf/apt.txt")


@pytest.fixture(scope="module")
def exported(tmp_path_factory, settings_in) -> dict[str, set[str]]:
    """Return the labels of each metric, from tables in which each has a series."""
    settings = settings_in(tmp_path_factory.mktemp("rules"))
    example().write(settings.runtime.tables)
    for folder in ("offsets", "commits", "state"):
        file = settings.runtime.checkpoints / "operator" / folder / "0"
        file.parent.mkdir(parents=True)
        file.touch()
    with Store(settings.runtime.tables) as store, pytest.MonkeyPatch.context() as patch:
        patch.setattr(snapshot, "now_ms", lambda: NOON + 10_000)  # later their quantities are stale: without a series
        families = list(text_string_to_metric_families(generate_latest(registry(store, Sources(), settings)).decode()))
    labels = {sample.name: set(sample.labels) for family in families for sample in family.samples}
    assert len(labels) >= len(families), "a family has no series in the example"
    return labels


def dashboard() -> dict:
    return json.loads(conf_file("grafana/rebalance-watch.json").read_text("utf-8"))


def dashboard_queries() -> list[str]:
    panels = [target["expr"] for panel in dashboard()["panels"] for target in panel.get("targets", ())]
    variables = [variable["query"]["query"] for variable in dashboard()["templating"]["list"][1:]]
    return panels + variables + [one["expr"] for one in dashboard()["annotations"]["list"]]


def rule_queries() -> list[str]:
    return re.findall(r"^ +expr: (.+)$", RULES.read_text("utf-8"), re.MULTILINE)


@pytest.mark.parametrize("queries", [dashboard_queries, rule_queries])
def test_every_metric_and_label_of_a_query_is_exported(exported, queries):
    for query in queries():
        names = OURS.findall(query)
        assert names, query
        assert set(names) <= set(exported), query
        for name, matchers in SELECTED.findall(query):
            assert set(re.findall(r"(\w+)\s*[=!]", matchers)) <= exported[name], query
        for by in re.findall(r"(?:by|on) \(([^)]*)\)", query):
            assert set(by.split(", ")) <= set.union(*(exported[name] for name in names)), query


def test_the_dashboard_shows_every_exported_metric(exported):
    shown = {name for query in dashboard_queries() for name in OURS.findall(query)}

    assert shown == {name for name in exported if OURS.match(name)}


def test_panels_do_not_overlap_and_their_legends_name_existing_labels(exported):
    places = set()
    for panel in dashboard()["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert at["x"] + at["w"] <= 24
        assert not cells & places, panel["title"]
        places |= cells
        for target in panel.get("targets", ()):
            known = set.union(*(exported[name] for name in OURS.findall(target["expr"])))
            assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= known, panel["title"]


def test_links_of_a_panel_have_labels_of_its_series_and_lead_to_pages(exported):
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    linked = [panel for panel in panels if panel.get("fieldConfig", {}).get("defaults", {}).get("links")]
    assert len(linked) > 10
    for panel in linked:
        queries = [target["expr"] for target in panel["targets"]]
        labels_of_series = set.union(*(exported[name] for query in queries for name in OURS.findall(query)))
        for by in re.findall(r"by \(([^)]*)\)", " ".join(queries)):
            labels_of_series &= set(by.split(", "))
        for link in panel["fieldConfig"]["defaults"]["links"]:
            assert set(re.findall(r"\$\{__(?:field\.labels|data\.fields)\.(\w+)", link["url"])) <= labels_of_series, (
                panel["title"]
            )
            assert re.match(r"\$\{page\}/(group|rule)/", link["url"])


def test_annotations_use_only_labels_of_their_alert():
    text = RULES.read_text("utf-8")
    for alert in text.split("- alert: ")[1:]:
        query = re.search(r"expr: (.+)", alert)[1]
        by = re.search(r"^(?:sum|max) by \(([^)]*)\)|- max by \(([^)]*)\)", query)
        if by and " unless " not in query:
            assert set(re.findall(r"\$labels\.(\w+)", alert)) <= set((by[1] or by[2]).split(", ")), alert


@pytest.mark.parametrize("name", ["RUNBOOK.md", "RUNBOOK.zh.md"])
def test_every_alert_about_the_monitor_itself_is_in_the_runbook(name):
    runbook = (ROOT / "streaming" / name).read_text("utf-8")
    explained = re.findall(r"^\| `(\w+)` \|", runbook, re.MULTILINE)
    ours = re.findall(r"- alert: (\w+)", RULES.read_text("utf-8").partition("rebalance-watch-itself")[2])
    assert ours
    assert explained == [*ours, *OWN_CODES]


def test_promtool_accepts_the_rules():
    subprocess.run(["promtool", "check", "rules", RULES], check=True, capture_output=True, timeout=60)


def test_promtool_shows_when_the_rules_fire(tmp_path):
    cases = tmp_path / "cases.yml"
    cases.write_text(Path(__file__).with_name("rules_cases.yml").read_text("utf-8").replace("ROOT", str(ROOT)))

    ended = subprocess.run(
        ["promtool", "test", "rules", cases], check=False, capture_output=True, text=True, timeout=60
    )

    assert ended.returncode == 0, ended.stdout + ended.stderr
