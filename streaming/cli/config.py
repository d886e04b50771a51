"""`rebalance-watch config`: check the configuration before anything starts."""

import tomllib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import msgspec
import typer
from rich.console import Console

from streaming.base.errors import SettingsError, UserError
from streaming.base.lines import print_error
from streaming.base.settings import EffectiveSetting, Settings, effective_settings, load_policy, load_settings
from streaming.cli.grid import Grid, GridColumn
from streaming.cli.options import PolicyOption, TableOrJsonOption
from streaming.cli.output import print_table, screen

app = typer.Typer(help="Check the configuration.", no_args_is_help=True)


class ConfigCheck(msgspec.Struct, frozen=True):
    """The result of a check."""

    ok: bool
    errors: list[str]
    """A sentence for each thing that is wrong."""
    settings: list[EffectiveSetting]
    """Empty if the settings themselves are wrong."""


@app.command()
def check(
    *,
    policy: PolicyOption = None,
    output: TableOrJsonOption = "table",
) -> None:
    """Check settings, policy and alerts file, and show each setting with its source; exit code 2 if one is wrong.

    Nothing is started and no server is asked; `rebalance-watch doctor --servers` does that.
    """
    checked = checked_configuration(policy)
    if output == "json":
        typer.echo(msgspec.json.format(msgspec.json.encode(checked)).decode())
    else:
        _print(checked)
    if not checked.ok:
        raise typer.Exit(2)


def checked_configuration(policy: Path | None) -> ConfigCheck:
    """Read every file of the configuration and return what is wrong with them."""
    errors: list[str] = []

    def holds(read: Callable[[], object]) -> bool:
        try:
            read()
        except UserError as error:
            errors.extend(map(str, error.args if isinstance(error, SettingsError) else (error,)))
            return False
        return True

    settings = load_settings() if holds(load_settings) else None
    thresholds = list(_thresholds(policy)) if holds(partial(load_policy, policy)) and policy else []
    if settings is None:
        return ConfigCheck(ok=False, errors=errors, settings=[])
    holds(partial(_check_alerts, settings))
    holds(partial(_check_access, settings))
    holds(partial(_check_otlp, settings))
    return ConfigCheck(ok=not errors, errors=errors, settings=[*effective_settings(settings), *thresholds])


def _thresholds(policy: Path) -> Iterator[EffectiveSetting]:
    for name, value in tomllib.loads(policy.read_text("utf-8")).items():
        yield EffectiveSetting(f"policy.{name}", value, str(policy))


def _check_alerts(settings: Settings) -> None:
    """Read routes, templates and the secrets of the channels.

    Raises:
        UserError: one of them is wrong.
    """
    from streaming.serve.alerting.channels import open_channel
    from streaming.serve.alerting.config import load_alerts
    from streaming.serve.alerting.render import Texts

    config = load_alerts(settings.alerts.file)
    Texts(config.templates, settings.web.address, language_of=config.language_of)
    for channel in config.channels.values():
        open_channel(channel).close()


def _check_access(settings: Settings) -> None:
    """Check that an address that other machines reach has a token.

    Raises:
        SettingsError: there is none.
    """
    from streaming.serve.web.access import access

    access(settings.web.host, settings.web)


def _check_otlp(settings: Settings) -> None:
    """Check that what is pushed to an OpenTelemetry collector can be.

    Raises:
        SettingsError: its packages are not installed, or its headers or its authority can't be used.
    """
    from streaming.serve.otlp.start import check

    check(settings.otlp)


def _print(checked: ConfigCheck) -> None:
    for sentence in checked.errors:
        print_error(sentence)
    table = Grid([GridColumn("setting"), GridColumn("value"), GridColumn("source")])
    for one in checked.settings:
        table.add(one.name, msgspec.json.encode(one.value).decode(), one.source)
    if checked.settings:
        print_table(table, screen())
    if checked.ok:
        Console().print("ok")
