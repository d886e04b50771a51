"""The numbers by which clients and brokers name their releases, and what releases of other languages do not report."""

import pytest

from rebalance_model.dialect import release_of, unreported


@pytest.mark.parametrize(
    ("number", "release"),
    [(-1, None), (0, None), (59, "3.x"), (213, "4.0.0"), (407, "4.9.7"), (475, "5.3.1"), (492, "5.4.0-SNAPSHOT"),
     (611, "5.9.9"), (612, "6.0 or later")],
)  # fmt: skip
def test_a_version_number_is_the_ordinal_of_its_release(number, release):
    assert release_of(number) == release


@pytest.mark.parametrize(
    ("language", "version", "parts"),
    [("JAVA", "V5_4_0", set()), ("", "", set()), ("GO", "v2.1.1", {"CACHED"}), ("GO", "v2.0.0", {"CACHED", "STACKS"}),
     ("GO", "", {"CACHED"}), ("CPP", "V4_6_0", {"IN_LISTENER", "STACKS"}),
     ("DOTNET", "3.1.9706.36000", {"CACHED", "IN_LISTENER", "STACKS"})],
)  # fmt: skip
def test_what_a_client_never_reports_depends_on_its_language_and_version(language, version, parts):
    assert unreported(language, version) == parts
