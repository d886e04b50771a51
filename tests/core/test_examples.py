"""The examples in the library's docstrings are correct, and what a package offers can be imported."""

import contextlib
import doctest
import io
import re
import subprocess
import sys
from importlib import import_module

import pytest

import rebalance_model
from tests.docs.source import ROOT

PACKAGES = [*(f"rebalance_model.{name}" for name in ("allocation", "broker", "client", "observe")), "simulation"]

PROGRAMS = re.findall(
    r"^\$ python - <<'END'\n(.*?)^END\n(.*?)^```$", (ROOT / "rebalance_model/README.md").read_text(), re.M | re.S
)


@pytest.mark.parametrize(("program", "printed"), PROGRAMS)
def test_the_programs_of_the_readme_print_what_it_says(program, printed, monkeypatch):
    monkeypatch.chdir(ROOT)
    with contextlib.redirect_stdout(io.StringIO()) as output:
        exec(program, {})
    assert output.getvalue() == printed


@pytest.mark.parametrize("name", PACKAGES)
def test_the_example_of_a_package_is_correct(name):
    failed, attempted = doctest.testmod(import_module(name))
    assert attempted > 0
    assert failed == 0


@pytest.mark.parametrize("name", ["rebalance_model", *PACKAGES])
def test_a_package_offers_what_it_names(name):
    package = import_module(name)
    assert package.__all__
    for offered in package.__all__:
        getattr(package, offered)


@pytest.mark.parametrize("package", [rebalance_model, rebalance_model.observe])
def test_a_name_that_a_package_has_not_is_refused(package):
    with pytest.raises(AttributeError, match=f"module '{package.__name__}' has no attribute 'shrad'"):
        _ = package.shrad


def test_a_package_is_imported_when_it_is_first_used():
    look = "import rebalance_model; print(rebalance_model.allocation.strategy('AVG').name)"
    found = subprocess.run([sys.executable, "-c", look], check=True, capture_output=True, text=True)
    assert found.stdout == "AVG\n"
    assert rebalance_model.__getattr__("client") is import_module("rebalance_model.client")


def test_events_are_imported_without_the_observer():
    """Collectors and readers need no more: 3 ms of the 26 that the observer takes."""
    look = "import sys, rebalance_model.observe.events; print(*(name for name in sys.modules if '.engine' in name))"
    found = subprocess.run([sys.executable, "-c", look], check=True, capture_output=True, text=True)
    assert found.stdout.split() == []
