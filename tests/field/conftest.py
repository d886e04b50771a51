"""In the short form a test takes each report and each source, and each value of its other parameters, but not every
combination of them.
"""

import pytest


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the combinations of the long form: all but the first values together, the second ones together, and so on.

    Of a shorter list the values begin again, until each of the longest has been taken.
    """
    places = []
    for mark in item.iter_markers("parametrize"):
        names, values = mark.args[:2]
        name = names.split(",")[0].strip() if isinstance(names, str) else names[0]
        places.append((item.callspec.indices[name], len(values)))
    turns = range(max((size for _, size in places), default=0))
    if places and not any(all(at == turn % size for at, size in places) for turn in turns):
        item.add_marker(pytest.mark.combination)
        item.add_marker(pytest.mark.prove)
