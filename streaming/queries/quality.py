"""The results of the quality gates: of the archive's last batch, and of the last check of the tables."""

from streaming.base.statements import statements_of
from streaming.queries.results import QualityCheck
from streaming.tables.reader import ReadModel

_SQL = statements_of(__name__)


def quality(model: ReadModel) -> list[QualityCheck]:
    """List the last result of each check: the failed ones first."""
    return [QualityCheck(**row) for row in model.rows(_SQL["last_results"])]
