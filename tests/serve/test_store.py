"""The tables of a long-running process: it waits for tables that do not exist yet, not for damaged ones."""

import pytest

from streaming.base.errors import NotReadyError, UserError
from streaming.serve.store import Store
from tests.support.tables import make_tables


def test_the_store_waits_until_every_table_exists(tmp_path):
    make_tables(tmp_path)
    (tmp_path / "anomalies").rename(tmp_path / "later")
    store = Store(tmp_path)
    with pytest.raises(NotReadyError, match=r"There are no tables in .* yet"):
        store.model()

    (tmp_path / "later").rename(tmp_path / "anomalies")
    assert store.refresh()

    store.model().close()


def test_the_store_does_not_wait_for_a_damaged_table(tmp_path):
    make_tables(tmp_path)
    for commit in (tmp_path / "anomalies" / "_delta_log").glob("*.json"):
        commit.write_text('{"commitInfo":')

    with pytest.raises(UserError, match="The Delta log of the table anomalies"):
        Store(tmp_path)
