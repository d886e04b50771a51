"""The metrics of one scrape over known tables."""

from contextlib import ExitStack
from pathlib import Path
from shutil import copytree

import pytest
from deltalake import DeltaTable
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from rebalance_model.observe.policy import Policy
from schemas.tables import TABLES
from streaming.queries.health import METRIC
from streaming.queries.present import STATE_MISSED
from streaming.serve.metrics import snapshot
from streaming.serve.metrics.collector import registry
from streaming.serve.metrics.snapshot import Sources
from streaming.serve.store import Store
from streaming.tables.files import delta_time
from tests.support.features import READER, raise_protocol
from tests.support.world import COVERED, NOON, World, example

pytestmark = pytest.mark.xdist_group("metrics")  # one process writes the example's tables for all of them
DAY = 86_400_000


class Scraper:
    """A long-lived process over the tables that is scraped by a call."""

    def __init__(self, store: Store, settings) -> None:
        self.store = store
        self.registry = registry(store, Sources(), settings)

    def scrape(self) -> dict[tuple[str, frozenset], float]:
        self.store.refresh()
        text = generate_latest(self.registry).decode()
        samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
        series = {(sample.name, frozenset(sample.labels.items())): sample.value for sample in samples}
        assert len(series) == len(samples), "a series is there twice"
        return series


def value_of(series, name, **labels) -> dict | float | None:
    """Return the value of the series with these labels and the cluster; None if there is none."""
    return series.get((name, frozenset({"cluster": "c", **labels}.items())))


@pytest.fixture(scope="module", autouse=True)
def noon():
    """Set the clock to shortly after the example's rows: two intervals later their quantities would be stale."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(snapshot, "now_ms", lambda: NOON + 10_000)
        yield patch


@pytest.fixture(scope="module")
def scraper(settings_in):
    """Return a function that starts a process over a root's tables."""
    with ExitStack() as stack:

        def made(root: Path, **metrics: int) -> Scraper:
            settings = settings_in(root)
            settings = settings.model_copy(update={"metrics": settings.metrics.model_copy(update=metrics)})
            return Scraper(stack.enter_context(Store(settings.runtime.tables)), settings)

        yield made


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    """A root with the example's tables, for all who only read or copy them."""
    made = tmp_path_factory.mktemp("metrics")
    example().write(made / "tables")
    return made


@pytest.fixture(scope="module")
def scraped(root, scraper):
    return scraper(root).scrape()


@pytest.mark.parametrize(
    ("name", "orders", "quiet", "broadcasting"),
    [
        ("group_status", 3, 0, 1),
        ("telemetry_complete", 1, 2 / 3, 1),
        ("connections", 2, 0, 2),
        ("queues_unassigned", 1, None, None),
        ("queues_double_owned", 0, None, None),
        ("idle_clients", 1, None, None),
    ],
)
def test_unknown_values_of_a_group_have_no_series(scraped, name, orders, quiet, broadcasting):
    values = [
        value_of(scraped, f"rocketmq_consumer_{name}", consumer_group=group) for group in ("orders", "quiet", "all")
    ]

    assert values == [orders, quiet, broadcasting]


def test_the_health_of_a_silent_group_is_unknown(root, scraper, noon):
    with noon.context() as later:
        later.setattr(snapshot, "now_ms", lambda: NOON + STATE_MISSED * Policy().snapshot_interval)
        series = scraper(root).scrape()

    assert value_of(series, "rocketmq_consumer_group_status", consumer_group="orders") == METRIC["UNKNOWN"]


@pytest.mark.parametrize(("sharing", "unassigned"), [("DIVIDED", 1), ("POPPED", None), ("PROXIED", None)])
def test_a_shared_queue_is_not_counted_as_unassigned(tmp_path, scraper, sharing, unassigned):
    world = World()
    world.group("g", coverage=f'{COVERED[:-1]},"sharing":"{sharing}"}}')
    world.queue("g", 0, None)
    world.write(tmp_path / "tables")

    series = scraper(tmp_path).scrape()

    assert value_of(series, "rocketmq_consumer_queues_unassigned", consumer_group="g") == unassigned


def test_clients_of_proxies_are_connections_and_a_metric_of_their_own(tmp_path, scraper):
    world = World()
    world.group("grpc", members=(), proxied_clients=("x", "y"))
    world.group("classic")
    world.write(tmp_path / "tables")

    series = scraper(tmp_path).scrape()

    counted = {"grpc": (2, 2), "classic": (2, 0)}
    for group, (connections, by_proxy) in counted.items():
        assert value_of(series, "rocketmq_consumer_connections", consumer_group=group) == connections
        assert value_of(series, "rebalance_watch_proxied_clients", consumer_group=group) == by_proxy


def test_lag_sums_only_the_queues_whose_lag_is_known(scraped):
    lag, unknown = "rocketmq_consumer_lag_messages", "rocketmq_consumer_lag_unknown_queues"
    topic = {"topic": "Orders", "is_retry": "false"}

    assert value_of(scraped, lag, consumer_group="orders", **topic) == 50
    assert value_of(scraped, unknown, consumer_group="orders", **topic) == 1
    assert value_of(scraped, lag, consumer_group="orders", topic="%RETRY%orders", is_retry="true") == 3
    assert value_of(scraped, lag, consumer_group="all", **topic) == 0
    assert value_of(scraped, lag, consumer_group="quiet", **topic) is None
    assert value_of(scraped, unknown, consumer_group="quiet", **topic) == 1


def test_a_sum_with_lower_bounds_says_of_how_many_queues(tmp_path, scraper):
    world = World()
    world.group("g")
    world.queue("g", 0, lag=3)
    world.queue("g", 1, lag=4, lag_is_at_least=True)
    world.write(tmp_path / "tables")

    series = scraper(tmp_path).scrape()

    topic = {"consumer_group": "g", "topic": "Orders", "is_retry": "false"}
    assert value_of(series, "rocketmq_consumer_lag_messages", **topic) == 7
    assert value_of(series, "rocketmq_consumer_lag_at_least_queues", **topic) == 1
    assert value_of(series, "rocketmq_consumer_lag_unknown_queues", **topic) == 0


def test_dead_letters_are_counted_by_broker_while_they_are_known(tmp_path, scraper):
    world = World()
    world.group("g")
    world.dead_letters("g", 4, 7, time=NOON - 60_000)
    world.dead_letters("g", 4, 10)
    world.dead_letters("g", 0, 0, broker="never one")
    world.dead_letters("g", 0, 5, broker="stale", time=NOON - 121_000)
    world.write(tmp_path / "tables")

    series = scraper(tmp_path).scrape()

    added, stored = (f"rocketmq_consumer_dead_letters_{name}" for name in ("total", "stored_messages"))
    values = {
        broker: tuple(value_of(series, name, consumer_group="g", broker=broker) for name in (added, stored))
        for broker in ("b", "never one", "stale")
    }
    assert values == {"b": (10, 6), "never one": (0, 0), "stale": (None, None)}


def test_only_unhealthy_queues_have_series(scraped):
    status = "rocketmq_consumer_queue_status"
    queue = {"consumer_group": "orders", "topic": "Orders", "broker": "b"}

    assert value_of(scraped, status, queue_id="0", **queue) == 3
    assert value_of(scraped, status, queue_id="1", **queue) == 2
    assert value_of(scraped, "rocketmq_consumer_queue_lock_age_ms", queue_id="0", **queue) == 55_000
    assert sum(name == status for name, _ in scraped) == 3
    assert scraped["rebalance_watch_queues_left_out", frozenset()] == 0


def test_stuck_seconds_include_the_time_since_the_last_report(scraped):
    queue = {"consumer_group": "orders", "topic": "Orders", "broker": "b", "queue_id": "0"}

    assert value_of(scraped, "rocketmq_consumer_queue_stuck_seconds", **queue) == 61 + 30


def test_open_incidents_count_unless_a_parent_absorbed_them(scraped):
    name = "rocketmq_consumer_incidents_open"
    values = {dict(labels)["code"]: value for (metric, labels), value in scraped.items() if metric == name}

    assert values == {"ORDERED_QUEUE_STUCK": 1, "QUEUE_UNASSIGNED": 1}


def test_rebalances_count_by_day_with_a_series_for_each_earlier_cause(scraped):
    name = "rocketmq_consumer_rebalance_times"

    assert value_of(scraped, name, consumer_group="orders", cause="CLIENT_JOINED") == 2
    assert value_of(scraped, name, consumer_group="orders", cause="CLIENT_UNREGISTERED") == 0


def test_sources_without_their_incarnation_and_the_gates_last_verdict(scraped):
    name = "rebalance_watch_telemetry_timestamp_seconds"

    assert value_of(scraped, name, kind="poll", source="poll-1") == (NOON + 30_000) / 1000
    assert value_of(scraped, name, kind="hook", source="hook-b") == (NOON - 60_000) / 1000
    verdicts = {dict(labels)["suite"]: v for (m, labels), v in scraped.items() if m.endswith("check_success")}
    assert verdicts == {"telemetry": 1, "ownership": 0}
    checked = scraped["rebalance_watch_quality_check_timestamp_seconds", frozenset({("suite", "ownership")})]
    assert checked == NOON / 1000 + 5
    assert scraped["rebalance_watch_rows_rejected_total", frozenset({("reason", "BAD_JSON")})] == 1


def test_the_series_of_a_source_ends_after_a_day_of_silence(tmp_path, scraper):
    world = example()
    world.write(tmp_path / "tables")
    process = scraper(tmp_path)
    name = "rebalance_watch_telemetry_timestamp_seconds"
    assert value_of(process.scrape(), name, kind="hook", source="hook-b") is not None

    world.last("poll-1@2", NOON + DAY)
    world.write(tmp_path / "tables")
    series = process.scrape()

    assert value_of(series, name, kind="poll", source="poll-1") == (NOON + DAY) / 1000
    assert value_of(series, name, kind="hook", source="hook-b") is None


def test_retention_lowers_no_counter_until_the_next_day(tmp_path, scraper):
    world, tables = World(), tmp_path / "tables"
    world.group("orders")
    for time in (NOON - 2 * DAY, NOON - DAY, NOON - 3_000, NOON - 2_000):
        world.rebalance("orders", time)
    world.last("poll-1@1", NOON)
    world.write(tables)
    process = scraper(tmp_path)
    name, labels = "rocketmq_consumer_rebalance_times", {"consumer_group": "orders", "cause": "CLIENT_JOINED"}
    assert value_of(process.scrape(), name, **labels) == 2

    DeltaTable(tables / "rebalances").delete(f"time < {delta_time(NOON - DAY // 2)}")
    assert value_of(process.scrape(), name, **labels) == 2
    assert value_of(scraper(tmp_path).scrape(), name, **labels) == 2

    world.last("poll-1@1", NOON + DAY)
    world.write(tables)
    assert value_of(process.scrape(), name, **labels) == 0


def test_the_worst_queues_have_series_and_the_others_share_one(tmp_path, scraper):
    world = World()
    world.group("orders", "BAD")
    for queue_id in range(10):
        world.queue("orders", queue_id, "A", "BAD" if queue_id < 3 else "WARN", lag=queue_id, lock_age_ms=queue_id)
        world.incident("orders", "ORDERED_QUEUE_STUCK", queue_id, evidence=f'{{"stalled_ms":{queue_id * 1000}}}')
    world.write(tmp_path / "tables")

    series = scraper(tmp_path, queue_series=4).scrape()

    def queues(name):
        return {
            dict(labels)["queue_id"]: v for (m, labels), v in series.items() if m == f"rocketmq_consumer_queue_{name}"
        }

    assert queues("status") == {"0": 3, "1": 3, "2": 3, "9": 2, "others": 2}
    assert queues("lag_messages") == {"0": 0, "1": 1, "2": 2, "9": 9, "others": 3 + 4 + 5 + 6 + 7 + 8}
    assert queues("lock_age_ms")["others"] == 10_008
    assert queues("stuck_seconds") == {"9": 9, "8": 8, "7": 7, "6": 6, "others": 5}
    assert series["rebalance_watch_queues_left_out", frozenset()] == 6


def test_table_sizes_and_batch_numbers_of_the_pipeline(tmp_path, scraper):
    example().write(tmp_path / "tables")
    for query, folder, number in (("operator", "offsets", 11), ("operator", "commits", 11), ("operator", "commits", 9)):
        file = tmp_path / "checkpoints" / query / folder / str(number)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("v1")
    state = tmp_path / "checkpoints" / "operator" / "state" / "0" / "1.zip"
    state.parent.mkdir(parents=True)
    state.write_bytes(b"x" * 123)

    series = scraper(tmp_path).scrape()

    assert series["rebalance_watch_table_rows", frozenset({("table", "telemetry")})] == 3
    assert series["rebalance_watch_table_files", frozenset({("table", "alert_deliveries")})] == 0
    assert series["rebalance_watch_table_bytes", frozenset({("table", "anomalies")})] > 0
    assert series["rebalance_watch_batch_number", frozenset({("query", "operator")})] == 11
    assert 0 <= series["rebalance_watch_batch_seconds", frozenset({("query", "operator")})] < 60
    assert ("rebalance_watch_batch_number", frozenset({("query", "archive")})) not in series
    assert series["rebalance_watch_state_bytes", frozenset()] == 123


def test_empty_tables_export_no_group_metrics(tmp_path, scraper):
    World().write(tmp_path / "tables")

    series = scraper(tmp_path).scrape()

    assert not [name for name, _ in series if name.startswith("rocketmq_")]
    assert series["rebalance_watch_table_rows", frozenset({("table", "anomalies")})] == 0


def _names(prefix: str, names: str) -> set[str]:
    return {f"{prefix}_{name}" for name in names.split()}


_QUEUES = _names(
    "rocketmq_consumer",
    "lag_messages lag_unknown_queues lag_at_least_queues waiting_seconds queue_status queue_lag_messages"
    " queue_lock_age_ms queues_unassigned idle_clients",
) | {"rebalance_watch_queues_left_out"}
_QUANTITIES = _QUEUES | _names("rocketmq_consumer", "dead_letters_total dead_letters_stored_messages")
_INCIDENTS = _names("rocketmq_consumer", "incidents_open queue_stuck_seconds queues_double_owned")
_SOURCES = _names(
    "rebalance_watch", "telemetry_timestamp_seconds telemetry_ingest_timestamp_seconds rows_rejected_total"
)
NEEDED_FOR = {
    **dict.fromkeys(("queue_progress", "queue_progress_minute", "queue_progress_5min"), _QUANTITIES),
    "queue_state": _QUEUES,
    "group_state": _QUEUES
    | _names("rocketmq_consumer", "group_status telemetry_complete connections answers_unreadable queues_double_owned")
    | {"rebalance_watch_groups_without_series", "rebalance_watch_proxied_clients"},
    **dict.fromkeys(("anomalies", "alert_controls"), _INCIDENTS),
    "rebalances": {"rocketmq_consumer_rebalance_times"},
    "telemetry": _SOURCES,
    "telemetry_rejected": {"rebalance_watch_rows_rejected_total"},
    "quality_results": _SOURCES | _names("rebalance_watch", "quality_check_success quality_check_timestamp_seconds"),
}
"""The metrics for which each table is needed, beside its own size."""


ONE_OF_EACH_KIND = ("group_state", "queue_state", "anomalies", "telemetry", "quality_results", "operator_actions")
"""Groups, queues, incidents, sources, checks, and a table that no metric but its own size needs."""


@pytest.mark.parametrize(
    "table", [pytest.param(one, marks=() if one in ONE_OF_EACH_KIND else pytest.mark.prove) for one in TABLES]
)
def test_a_table_that_cannot_be_read_costs_only_its_own_metrics(tmp_path, root, scraper, scraped, caplog, table):
    copytree(root / "tables", tmp_path / "tables")
    raise_protocol(tmp_path / "tables" / table, READER["deletionVectors"])
    process = scraper(tmp_path)

    series = process.scrape()

    assert process.scrape().keys() == series.keys()
    [said] = [record.getMessage() for record in caplog.records if record.name.startswith("streaming.serve.metrics")]
    assert said.startswith(f"metrics are missing: The table {table} has the Delta feature deletionVectors, with which")
    readable = "rebalance_watch_tables_readable", frozenset()
    assert (scraped[readable], series.pop(readable)) == (1, 0)
    lost = {name for name, _ in scraped.keys() - series.keys()} - {readable[0]}
    assert lost == NEEDED_FOR.get(table, set()) | _names("rebalance_watch_table", "rows bytes files")
    until_last_event = "rocketmq_consumer_queue_stuck_seconds"
    same = {key for key in series if key[0] != until_last_event and not key[0].startswith("process_")}
    assert {key: series[key] for key in same} == {key: scraped[key] for key in same}
