"""What kinds of clients never report in an answer to GET_CONSUMER_RUNNING_INFO, though the field is there.

rocketmq-client-go up to 2.1.2 does not fill the number of cached messages: its answer shows 0 for any number of them.
What a kind never reports is unknown, not 0.
"""

from rebalance_model.observe.state import GroupState

WITHOUT_COUNTS = ("GO",)
"""Languages (LanguageCode) whose clients report no number of cached messages."""


def language_of(state: GroupState, client_id: str) -> str:
    """Return the language of a client as a broker lists it; empty if none does."""
    for view in state.views.values():
        for channel in view.info.channel_info_table.values():
            if channel.client_id == client_id and channel.language:
                return channel.language
    return ""


def counts_messages(language: str) -> bool:
    """Return whether a client of this language reports how many messages it has, and 0 means none."""
    return language not in WITHOUT_COUNTS
