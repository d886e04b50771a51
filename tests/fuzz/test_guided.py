"""Coverage guides mutants (`guided`): what an input reaches is where the next ones begin."""

import re
import subprocess
import sys

import pytest

RUNS = {
    "events": 20_000,
    "answers": 200_000,
    "frames": 100_000,
    "alerts": 20_000,
    "policy": 20_000,
    "recording": 20_000,
}


@pytest.mark.prove
@pytest.mark.parametrize(("target", "runs"), RUNS.items())
def test_inputs_that_coverage_guides_are_used_or_refused(tmp_path, target, runs, record_property):
    pytest.importorskip("atheris", reason="`make prove` installs it where it has a wheel: on Linux, x86-64")
    options = [f"-runs={runs}", "-seed=1"]
    ran = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.guided", target, tmp_path / "found", *options],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-4_000:]
    [(done, figures)] = re.findall(r"#(\d+)\s+DONE\s+(.*)", ran.stderr)
    assert int(done) >= runs
    record_property("inputs", f"{int(done):,}; {figures}")
