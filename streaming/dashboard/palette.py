"""One colour a client, the same on every visit; and names short enough for a bar.

The eight colours are Paul Tol's "light" scheme, which people with any common colour blindness can tell apart and which
carries dark text. A ninth client gets a colour again: names stand beside the colours everywhere.
"""

from collections.abc import Iterable, Mapping
from hashlib import blake2b

COLOURS = 8
"""How many there are; ``--client-0`` to ``--client-7`` in `style.css`."""


def colours(clients: Iterable[str]) -> dict[str, int]:
    """A colour for each: the one that its name leads to, or the next that is free while there is one."""
    chosen: dict[str, int] = {}
    for client in sorted(set(clients)):
        start = blake2b(client.encode(), digest_size=2).digest()[0] % COLOURS
        taken = set(chosen.values())
        order = [(start + step) % COLOURS for step in range(COLOURS)]
        chosen[client] = next((colour for colour in order if colour not in taken), start)
    return chosen


def short_names(clients: Iterable[str]) -> Mapping[str, str]:
    """Client ids without the address that all of them share: ``10.0.0.5@orders-1`` is ``orders-1``."""
    ids = sorted(set(clients))
    addresses = {client.partition("@")[0] for client in ids if "@" in client}
    alike = len(addresses) == 1 and all("@" in client for client in ids)
    return {client: client.partition("@")[2] or client if alike else client for client in ids}
