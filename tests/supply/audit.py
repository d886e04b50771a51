"""Ask for known vulnerabilities of the pinned packages, and say of how many there was no answer: `make audit`.

pip-audit ends with "No known vulnerabilities found" also where its service knows none of the packages.
"""

import json
import subprocess
import sys
from typing import Any, NamedTuple

from streaming.base.settings import conf_file
from tests.supply.parts import jars

FOUND, NOT_ASKED = 1, 3


class Verdict(NamedTuple):
    """The result of an audit, and its exit code."""

    lines: list[str]
    code: int


def verdict(report: dict[str, Any], jars_count: int) -> Verdict:
    """Judge a report of pip-audit (``--format json``).

    Args:
        report: the report.
        jars_count: the jars, for which no service is asked.

    Returns:
        Lines for people; the code is 1 if vulnerabilities are known, 3 if none are but not all packages were asked for.
    """
    answered = [one for one in report["dependencies"] if "skip_reason" not in one]
    silent = [one for one in report["dependencies"] if "skip_reason" in one]
    lines = [
        f"{one['name']} {one['version']}: {found['id']}, mended in {', '.join(found['fix_versions']) or 'no release'}"
        for one in answered
        for found in one["vulns"]
    ]
    code = FOUND if lines else NOT_ASKED if silent or not answered else 0
    asked = f"{len(answered)} of {len(answered) + len(silent)}"
    lines.append(f"Packages: {asked} audited; known vulnerabilities: {len(lines)}.")
    if silent:
        lines.append(f"Not audited: {len(silent)} packages, nothing is known of them. {silent[0]['skip_reason']}.")
    lines.append(f"Not audited: {jars_count} jars (conf/jars.sha256); `make sbom` lists them for a scanner of jars.")
    return Verdict(lines, code)


def main() -> int:
    """Run pip-audit on the pinned packages and print the verdict."""
    command = [sys.executable, "-m", "pip_audit", "--requirement", str(conf_file("constraints.txt"))]
    options = ["--disable-pip", "--require-hashes", "--format", "json", "--progress-spinner", "off"]
    ran = subprocess.run(command + options, capture_output=True, text=True, check=False)
    try:
        report = json.loads(ran.stdout)
    except json.JSONDecodeError:
        print(f"Not audited: pip-audit has no report. {ran.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
        return NOT_ASKED
    judged = verdict(report, len(jars()))
    print("\n".join(judged.lines))
    return judged.code


if __name__ == "__main__":
    sys.exit(main())
