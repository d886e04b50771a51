"""The notebook of `.readme` runs over the demo's tables, and has the outputs of such a run."""

import json
import subprocess
import sys

import pytest

from streaming.queries.group_at import find_group
from streaming.queries.groups import groups
from streaming.queries.incidents import incidents
from streaming.queries.ownership import owners
from streaming.queries.rebalances import rebalance_totals
from streaming.tables import ReadModel
from tests.docs.source import ROOT

STORED = ROOT / ".readme/notebook.ipynb"
FIFTY = 1_795_276_200_000
"""2026-11-21 15:50 UTC."""


def outputs(path):
    """Return what each cell of code shows, in each of its forms, without the cells that show nothing."""
    cells = json.loads(path.read_text("utf-8"))["cells"]
    shown = [one["data"] for cell in cells for one in cell.get("outputs", ())]
    return [{form: "".join(lines) for form, lines in data.items()} for data in shown]


@pytest.fixture(scope="module")
def run_outputs(demo_run, tmp_path_factory):
    """Return what the cells show, by form, after a run over the demo's tables."""
    to = tmp_path_factory.mktemp("notebook") / "executed.ipynb"
    command = [sys.executable, "-m", "tests.docs.notebook", str(demo_run.root), str(to)]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert ran.returncode == 0, ran.stderr
    return outputs(to)


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_the_stored_outputs_are_those_of_a_run(run_outputs):
    assert outputs(STORED) == run_outputs


@pytest.mark.spark
def test_its_answers_are_those_of_the_questions(run_outputs, demo_run):
    _, stuck, owned_text, _, costliest, *_ = (one["text/plain"] for one in run_outputs)
    with ReadModel(demo_run.root / "tables") as model:
        assert [group.group for group in groups(model)] == ["orders-group", "audit-group"]
        group_at = find_group(model, "orders-group", at=FIFTY)
        owned = [(str(one.queue_id), one.client_id) for one in owners(model, group_at, "Orders")]
        assert [tuple(line.split()[1:3]) for line in owned_text.splitlines()[1:]] == owned
        found = [one for one in incidents(model) if one.code == "ORDERED_QUEUE_STUCK"]
        assert sorted(line.split()[1] for line in stuck.splitlines()[1:]) == sorted(one.subject for one in found)
        totals = rebalance_totals(model, find_group(model, "orders-group"))
        assert costliest.splitlines()[1].split()[1] == (totals.costliest or "")[:8]
