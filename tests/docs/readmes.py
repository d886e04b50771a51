"""READMEs with generated parts, each between two comments that name it; and the words that people have written."""

import re

from tests.docs.parts import PARTS
from tests.docs.references import files
from tests.docs.source import ROOT

BEGIN, END = "<!-- generated: {name}; python -m tests.docs -->\n", "<!-- end: {name} -->\n"
RECORDS = frozenset({"CHANGELOG.md", "tests/PROVED.md", "tests/instruments/bench/FIGURES.md"})
"""Documents that grow with each release, proof and bench."""


def current(readme):
    """Return a README's text with its generated parts as they should be."""
    text = readme.read_text("utf-8")
    for name, made in PARTS[readme].items():
        begin, end = BEGIN.format(name=name), END.format(name=name)
        head, found, rest = text.partition(begin)
        _, ended, tail = rest.partition(end)
        if not (found and ended):
            raise ValueError(f"{readme} has no part {name}: write {begin.strip()} and {end.strip()} into it")
        text = head + begin + "\n" + "\n".join(made()) + "\n\n" + end + tail
    return text


def by_hand(text):
    """Return what people have written in a README: without its generated parts and its blocks of code."""
    text = re.sub(r"<!-- generated: .*?<!-- end: \w+ -->", "", text, flags=re.DOTALL)
    text = re.sub(r"<!-- ([\w ]+): python .*?<!-- /\1 -->", "", text, flags=re.DOTALL)
    return re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)


def words_by_document():
    """Return how many words people have written in each document; records of runs and of changes are left out."""
    documents = sorted(file for file in files() if file.endswith(".md") and file not in RECORDS)
    return {file: len(by_hand((ROOT / file).read_text("utf-8")).split()) for file in documents}
