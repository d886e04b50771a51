"""The site has every document, each of its links has a target, and each command of the documents exists."""

import json
import posixpath
import re
import shlex
import shutil
import subprocess

import pytest
import typer

from rebalance_model.observe.rules.registry import CODES
from streaming.cli.main import app
from tests.docs.pictures import TOUR, picture_name, tour
from tests.docs.references import files
from tests.docs.site import documents, navigation, of_site, pages, write
from tests.docs.source import ROOT
from tests.support.chromium import chromium

_BLOCK = re.compile(r"^```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`(rebalance-watch [^`\n]+)`")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_PLACEHOLDER = re.compile(r"…|\.\.\.|\bCOMMAND\b|<")
REAL_COMMANDS_MIN = 150
USAGE_ERROR = typer.BadParameter.__base__  # of typer's own click


@pytest.fixture(scope="module")
def made():
    return pages(frozenset(TOUR))


def test_the_site_has_every_document_once():
    assert sorted(documents()) == sorted(file for file in files() if file.endswith(".md"))


def test_each_link_of_the_site_has_a_target(made):
    texts, assets = made
    targets = {*texts, *(asset.removeprefix(".") for asset in assets)}
    targets |= {picture_name(name, "streaming") for name in TOUR}
    dead = [
        f"{path}: {target}"
        for path, text in texts.items()
        for target in _LINK.findall(re.sub(r"`[^`\n]+`", "", _BLOCK.sub("", text)))
        if not target.startswith(("http", "mailto", "#"))
        and posixpath.normpath(posixpath.join(posixpath.dirname(path), target.partition("#")[0])) not in targets
    ]
    assert dead == []


def test_a_link_leads_to_the_page_or_brings_the_file():
    assets = set()
    text = "[a](../README.md#x) [b](../conf/alerts.toml) [c](../.github/SECURITY.md) [d](queries) [e](../conf) `[f](x)`"
    site = of_site("streaming/README.md", text, assets)
    assert (
        site
        == "[a](../README.md#x) [b](../conf/alerts.toml) [c](../github/SECURITY.md) d [e](../conf/README.md) `[f](x)`"
    )
    assert assets == {"conf/alerts.toml"}


def test_a_page_begins_with_its_title_and_has_no_escapes_of_github(made):
    texts, _ = made
    text = texts["schemas/reference/queue_state.md"]
    assert text.startswith("# queue_state\n")
    assert "`source_id|key|seq`" in text


def test_chinese_pages_lead_to_rules_in_chinese(made):
    texts, _ = made
    assert "](rules/index.md)" in texts["zh/runbook.md"]
    assert {f"zh/rules/{code}.md" for code in CODES} <= texts.keys()
    assert all(re.search(r"[\u4e00-\u9fff]", texts[f"zh/rules/{code}.md"]) for code in CODES)


def test_the_navigation_has_every_page(made):
    named = re.findall(r"[\w./-]+\.md", str(navigation()))
    assert sorted(named) == sorted(made[0])


def commands(text):
    """Return the commands of ours in a document, as lists of words; those with a placeholder are left out."""
    lines = [line.removeprefix("$ ") for block in _BLOCK.findall(text) for line in block.splitlines()]
    found = [line for line in lines if line.startswith("rebalance-watch ")] + _INLINE.findall(text)
    for line in found:
        if not _PLACEHOLDER.search(line):
            words = shlex.split(line, comments=True)
            end = next((at for at, word in enumerate(words) if word in {"|", "&&", ">", "&", "||", ";"}), len(words))
            yield words[1:end]


def fault_of(words):
    """Return what is wrong with a command: a word that is no command, or an option that it does not have."""
    command, context = typer.main.get_command(app), None
    while True:
        context = command.context_class(command, parent=context, info_name=command.name)
        try:
            _, words, _ = command.make_parser(context).parse_args(list(words))
        except USAGE_ERROR as error:
            return error.format_message()
        if not getattr(command, "commands", None) or not words:
            return None
        name, *words = words
        if name not in command.commands:
            return f"no command {name}"
        command = command.commands[name]


@pytest.mark.parametrize("document", [path for path in documents() if path != "CHANGELOG.md"])
def test_each_command_of_a_document_exists_with_its_options(document):
    text = (ROOT / document).read_text("utf-8")
    assert [(" ".join(words), fault) for words in commands(text) if (fault := fault_of(words))] == []


def test_documents_have_commands_to_look_at():
    assert sum(len(list(commands((ROOT / path).read_text("utf-8")))) for path in documents()) > REAL_COMMANDS_MIN


@pytest.mark.parametrize("line", ["gruop list", "group lsit", "group list --grop a", "up --no-such"])
def test_a_command_that_does_not_exist_is_found(line):
    assert fault_of(line.split())


@pytest.mark.prove
def test_the_site_is_built_with_the_pictures_of_the_tour(tmp_path):
    """After `make docs`, which installs mkdocs, and `make demo`."""
    mkdocs, demo = ROOT / ".venv/docs/bin/mkdocs", ROOT / ".rebalance-watch/demo"
    if not (mkdocs.exists() and (demo / "tables").exists()):
        pytest.skip("needs make demo and make docs")
    shutil.copytree(demo, tmp_path / "demo")
    tour(tmp_path / "demo", tmp_path / "docs")
    write(tmp_path)
    built = subprocess.run(
        [mkdocs, "build", "--quiet", "--strict", "-f", tmp_path / "mkdocs.yml"], capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    site = tmp_path / "site"
    assert all((site / picture_name(name, "streaming")).stat().st_size > 10_000 for name in TOUR)
    index = json.loads((site / "search/search_index.json").read_text("utf-8"))
    assert "毒消息" in "".join(entry["text"] for entry in index["docs"]).replace("\u200b", "")
    pages_of_site = "".join(page.read_text("utf-8") for page in site.rglob("*.html"))
    assert re.findall(r'(?:src|<link[^>]*href)="(https?:[^"]+)"', pages_of_site) == []
    assert found_in_file(site / "index.html", "LOCK_EXPIRED") > 1


def found_in_file(page_file, text):
    """Return how many documents the search finds, in a page that is read as a file."""
    with chromium() as browser:
        page = browser.new_page()
        page.goto(page_file.as_uri())
        page.get_by_role("textbox", name="Search").press_sequentially(text)
        result = page.get_by_text(re.compile(r"\d+ matching documents"))
        result.wait_for(timeout=120_000)
        return int(result.inner_text().split()[0])
