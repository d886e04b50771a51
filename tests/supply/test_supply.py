"""The bill of materials has what is installed; an audit never calls unknown what nobody was asked about."""

import json
import tomllib
from pathlib import Path

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from tests.supply.audit import verdict
from tests.supply.parts import jars, packages
from tests.supply.sbom import sbom

ROOT = Path(__file__).parents[2]


def test_the_bill_is_valid_and_has_every_package_and_jar_with_hashes():
    text = sbom()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    parts = {part["bom-ref"]: part for part in json.loads(text)["components"]}
    assert len(parts) == len(packages()) + len(jars())
    spark = next(part for ref, part in parts.items() if ref.startswith("pkg:pypi/pyspark@"))
    assert spark["licenses"]
    assert spark["properties"]
    delta = next(part for ref, part in parts.items() if ref.startswith("spark/delta-spark"))
    assert (delta["group"], delta["scope"], len(delta["hashes"][0]["content"])) == ("io.delta", "required", 64)


def test_the_packages_are_those_of_the_program_and_not_the_developers():
    names = {package.name for package in packages()}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert names >= {"pyspark", "delta-spark", "kafka-python", "great-expectations", "deltalake", "numpy"}
    assert not names & {"pytest", "ruff", "mypy", "pip-audit", "rebalance-watch"}
    assert len(names) > len(project["dependencies"])


def test_every_jar_of_the_job_has_its_coordinates():
    assert all(jar.group and jar.version for jar in jars() if jar.jar_set == "spark")
    assert all(jar.version for jar in jars())
    assert {jar.jar_set for jar in jars()} == {"spark", "kafka", "rocketmq", "rocketmq_proxy", "s3a"}


def report(*packages):
    return {"dependencies": list(packages)}


ASKED = {"name": "one", "version": "1.0", "vulns": []}
BAD = {"name": "two", "version": "2.0", "vulns": [{"id": "CVE-2026-1", "fix_versions": ["2.1"]}]}
SILENT = {"name": "three", "skip_reason": "Dependency not found on PyPI and could not be audited: three (3.0)"}


def test_an_audit_without_answers_is_no_audit_without_findings():
    lines, code = verdict(report(ASKED, SILENT), 6)
    assert code == 3
    assert lines[0] == "Packages: 1 of 2 audited; known vulnerabilities: 0."
    assert "could not be audited: three (3.0)" in lines[1]
    assert lines[2].startswith("Not audited: 6 jars")
    assert verdict(report(), 6).code == 3


def test_a_known_vulnerability_fails_the_audit_and_names_the_fix():
    lines, code = verdict(report(ASKED, BAD, SILENT), 6)
    assert code == 1
    assert lines[0] == "two 2.0: CVE-2026-1, mended in 2.1"
    assert lines[1] == "Packages: 2 of 3 audited; known vulnerabilities: 1."
    assert verdict(report(ASKED), 6).code == 0
