"""A small model's stand-in chooses the tool of a task: it sees only names, descriptions and parameters."""

import asyncio
import math
import re
from collections import Counter

import pytest

from streaming.base.settings import Settings
from streaming.serve.mcp.questions import question_server


def _words(text: str) -> list[str]:
    """The stems of the words of three letters and more."""
    return [re.sub(r"(ies|ing|ed|es|s|e)$", "", word)[:7] for word in re.findall(r"[a-z]{3,}", text.lower())]


@pytest.fixture(scope="module")
def choose():
    """The first tool by BM25, the usual ranking of texts for words; the name counts twice."""
    tools = asyncio.run(question_server(Settings(), None, None).list_tools())
    texts = {one.name: Counter(_words(f"{2 * (one.name.replace('_', ' ') + ' ')}{one.description}")) for one in tools}
    mean = sum(map(Counter.total, texts.values())) / len(texts)

    def score(name: str, task: str) -> float:
        words = texts[name]
        least = 1.2 * (0.25 + 0.75 * words.total() / mean)
        return sum(rarity(word) * words[word] * 2.2 / (words[word] + least) for word in set(_words(task)))

    def rarity(word: str) -> float:
        having = sum(word in words for words in texts.values())
        return math.log(1 + (len(texts) - having + 0.5) / (having + 0.5))

    return lambda task: max(texts, key=lambda name: score(name, task))


@pytest.mark.parametrize(
    ("task", "tool"),
    [
        ("Which consumer groups are unhealthy right now?", "list_groups"),
        ("Give me the health, lag and members of one group, orders-group.", "show_group"),
        ("How did the lag of orders-group change over the last two hours?", "show_lag"),
        ("Which incidents are open?", "list_incidents"),
        ("Show the evidence and the next step of incident e60e6be2.", "show_incident"),
        ("What does the code LOCK_EXPIRED mean?", "explain_rule"),
        ("Why is queue Orders@broker-a:3 stuck?", "show_queue"),
        ("Who owned Orders@broker-a:3 at 15:57?", "who_owned"),
        ("Which was the costliest of the rebalances of orders-group?", "list_rebalances"),
        ("What happens if a client leaves the group?", "what_if"),
        ("In which order do I restart all members so that the fewest queues move?", "plan_rolling_restart"),
        ("Which clients have an old version or a late heartbeat?", "list_clients"),
    ],
)
def test_a_task_leads_to_its_tool(choose, task, tool):
    assert choose(task) == tool
