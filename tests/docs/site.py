"""Writes the site of the documents into build/: the repository's Markdown, ordered by reader, for mkdocs (`make docs`).

python -m tests.docs.site      writes build/docs and build/mkdocs.yml

Pages keep their place in the repository, so links among them stay as they are; a link to another file brings the file
along, and one to a folder without a README loses its target. Folders that begin with a dot, which mkdocs leaves out,
lose the dot.
"""

import json
import posixpath
import re
import shutil
import sys
from pathlib import PurePosixPath

from schemas.tables import TABLES
from streaming.base.language import gettext, in_language
from streaming.queries.rule_text import rule_codes, rule_text
from tests.docs.pages import BEGIN, RULE_PAGES, rule_page
from tests.docs.pictures import TOUR, picture_name
from tests.docs.source import ROOT, prose, table

RULES = "rebalance_model/observe/rules/README.md"
NAV = {
    "Start": ["README.md", "streaming/TUTORIAL.md", "streaming/TOUR.md", "streaming/FAQ.md"],
    "Operate": [
        "streaming/RUNBOOK.md", "streaming/serve/alerting/README.md", "streaming/cli/README.md",
        "streaming/collect/README.md", "streaming/collect/broker_hook/README.md", "streaming/pipeline/README.md",
        "streaming/serve/README.md", "streaming/serve/web/README.md", "streaming/serve/mcp/README.md",
        "streaming/serve/otlp/README.md", "streaming/POP.md", "streaming/lab/README.md", "conf/README.md",
        "conf/SECURED.md", "conf/STORAGE.md", "checkpoints/README.md", "checkpoints/QUALITY.md",
        "streaming/base/LIMITS.md", ".github/SECURITY.md", "CHANGELOG.md",
    ],
    "Rules": [RULES, *(f"{RULE_PAGES.relative_to(ROOT).as_posix()}/{code}.md" for code in rule_codes())],
    "Tables and SQL": [
        "schemas/README.md", "schemas/BUILDING.md", *(f"schemas/reference/{name}.md" for name in TABLES),
        "schemas/reference/events.md",
    ],
    "Develop": [
        "rebalance_model/README.md", "streaming/README.md", "streaming/serve/dashboard/README.md",
        ".github/CONTRIBUTING.md", "tests/README.md", "tests/FAULTS.md", "tests/field/REPORTS.md",
        "tests/PROVED.md", "tests/MUTATIONS.md",
        "tests/instruments/bench/FIGURES.md", "tests/collect/wire/clients/README.md",
    ],
    "中文": ["streaming/TUTORIAL.zh.md", "streaming/RUNBOOK.zh.md"],
}  # fmt: skip
"""The documents by reader, in the order of the navigation."""

WORKER = "iframe-worker.js"
"""The script by which the search works in pages that are read as files."""
_CHINESE = {"streaming/TUTORIAL.zh.md": "zh/index.md", "streaming/RUNBOOK.zh.md": "zh/runbook.md"}
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_CODE = re.compile(r"(^```.*?^```$|`[^`\n]+`)", re.MULTILINE | re.DOTALL)


def documents():
    """Return every document of the navigation, as a path from the top of the repository."""
    return [path for paths in NAV.values() for path in paths]


def site_path(path):
    """Return where a file of the repository is in the site."""
    return _CHINESE.get(path) or "/".join(part.removeprefix(".") for part in PurePosixPath(path).parts)


def of_site(path, text, assets):
    """Return a document's text with its links as they are in the site; add the other files that it links to."""
    parts = _CODE.split(text)  # every second one is code
    parts[::2] = [_LINK.sub(lambda link: f"]({_target(path, link[1], assets)})", part) for part in parts[::2]]
    parts[1::2] = [
        part.replace("\\|", "|") for part in parts[1::2]
    ]  # GitHub wants it in a table, Python-Markdown does not
    return (
        _without_dead_links("".join(parts)).removeprefix(BEGIN).lstrip()
    )  # a page's title is the heading it begins with


def _target(path, target, assets):
    """Return a link's target in the site; nothing if the site has none."""
    if target.startswith(("http:", "https:", "mailto:", "#")):
        return target
    file, hash_sign, section = target.partition("#")
    to = posixpath.normpath(posixpath.join(posixpath.dirname(path), file))
    if (ROOT / to).is_dir():
        to = posixpath.join(to, "README.md")
    if not (ROOT / to).exists():
        return ""
    if to not in documents():
        assets.add(to)
    to = _in_chinese(to) if path in _CHINESE else site_path(to)
    return posixpath.relpath(to, posixpath.dirname(site_path(path)) or ".") + hash_sign + section


def _in_chinese(to):
    """Return where a Chinese page leads: to the page in Chinese if there is one."""
    if to == RULES:
        return "zh/rules/index.md"
    if to.startswith(f"{RULE_PAGES.relative_to(ROOT).as_posix()}/"):
        return f"zh/rules/{PurePosixPath(to).name}"
    return site_path(to)


def _without_dead_links(text):
    return re.sub(r"\[([^\]\n]+)\]\(\)", r"\1", text)


def chinese_rules():
    """Return the Chinese pages of the rules, by their path in the site."""
    with in_language("zh"):
        made = {f"zh/rules/{code}.md": "\n".join(rule_page(code)) for code in rule_codes()}
        rows = [[f"[{code}]({code}.md)", prose(gettext(rule_text(code).summary))] for code in rule_codes()]
        heading = gettext("What it means")
    made["zh/rules/index.md"] = "\n".join(["# 规则", "", *table(["规则", heading], rows)])
    return made


def pages(pictures=frozenset()):
    """Return every page of the site by its path there, and the files that pages link to.

    Args:
        pictures: those of the tour that are there, by name; the others are left out.
    """
    assets, made = set(), {}
    for path in documents():
        text = (ROOT / path).read_text("utf-8")
        for name in TOUR:
            shown = f"![{name}]({picture_name(name)})" if name in pictures else ""
            text = text.replace(f"<!-- picture: {name} -->", shown)
        made[site_path(path)] = of_site(path, text, assets)
    return made | chinese_rules(), assets


def navigation():
    """Return the navigation as mkdocs reads it; a page's title is its first heading."""
    nav = [{reader: [site_path(path) for path in paths]} for reader, paths in NAV.items()]
    chinese = ["zh/rules/index.md", *(f"zh/rules/{code}.md" for code in rule_codes())]
    nav[-1]["中文"].append({"规则": chinese})
    return nav


def write(build):
    """Write the site's pages into ``docs`` of a folder, and the settings of mkdocs beside them."""
    docs = build / "docs"
    pictures = {name for name in TOUR if (docs / picture_name(name, "streaming")).exists()}
    made, assets = pages(pictures)
    for path, text in made.items():
        (docs / path).parent.mkdir(parents=True, exist_ok=True)
        (docs / path).write_text(text, "utf-8")
    for asset in assets:
        to = docs / site_path(asset)
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / asset, to)
    (docs / "assets").mkdir(exist_ok=True)
    shutil.copy(ROOT / "tests/docs" / WORKER, docs / "assets")
    settings = {
        "INHERIT": str(ROOT / "tests/docs/site.yml"), "docs_dir": str(docs), "site_dir": str(build / "site"),
        "nav": navigation(),
    }  # fmt: skip
    (build / "mkdocs.yml").write_text(json.dumps(settings, ensure_ascii=False), "utf-8")
    missing = sorted(TOUR.keys() - pictures)
    if missing:
        sys.stdout.write(f"Without the pictures {', '.join(missing)}: make demo, then make docs, takes them.\n")


if __name__ == "__main__":
    write(ROOT / "build")
