"""In the short form a test takes each report and each source, and each value of its other parameters, but not every
combination of them.
"""

import pytest

from tests.support.combinations import is_in_short_form


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the combinations of the long form."""
    marks = [mark.args[:2] for mark in item.iter_markers("parametrize")]
    if marks and not is_in_short_form(item.callspec.params, marks):
        item.add_marker(pytest.mark.combination)
        item.add_marker(pytest.mark.prove)
