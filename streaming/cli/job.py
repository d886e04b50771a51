"""`rebalance-watch job`: what the streaming job needs on other machines."""

from pathlib import Path
from typing import Annotated

import typer

from streaming.base.settings import load_settings

app = typer.Typer(help="Prepare the streaming job for a Spark cluster.", no_args_is_help=True)


@app.command()
def pack(
    file: Annotated[
        Path | None, typer.Argument(help="Archive to write; default: environment.tar.gz below the runtime root.")
    ] = None,
) -> None:
    """Pack the Python packages for Spark's executors into an archive (job.environment).

    The nodes then need only Spark and a Python of the same minor version as here. Pack again after each upgrade.
    """
    from streaming.pipeline.environment import pack as write

    settings = load_settings()
    archive = write(file or settings.runtime.root / "environment.tar.gz")
    typer.echo(f"{archive} ({archive.stat().st_size / (1 << 20):,.0f} MiB)")
    typer.echo("Use it with this setting:")
    typer.echo(f'[job]\nenvironment = "{archive.resolve()}"')
