"""The command line as a whole."""

import subprocess
import sys


def test_help_waits_for_no_engine():
    """What takes long to import, a command imports when it runs."""
    slow = {"duckdb", "pyarrow", "deltalake", "pyspark", "nicegui", "fastapi", "pandas", "apprise"}
    code = f"import sys, streaming.cli.main; print(sorted({slow!r} & set(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
