"""A stable colour per client, and names short enough for a bar.

The eight colours are Paul Tol's "light" scheme, which people with any common colour blindness can tell apart and which
work with dark text; violet and sand stand for its orange and pink, which would compete with the red of problems. With
more clients colours repeat; names are always shown beside them. With many clients colours tell nothing: then none has
one, and the ownership timeline shows what happened to a queue instead.
"""

from collections.abc import Iterable, Mapping
from hashlib import blake2b

COLOURS = 8
"""The number of colours: ``--client-0`` to ``--client-7`` in `static/style.css`."""
CLIENTS_WITH_COLOURS = 12
"""Up to this number of clients each has a colour."""


def colours(clients: Iterable[str]) -> dict[str, int]:
    """Choose a colour for each client by the hash of its name, or the next free one."""
    chosen: dict[str, int] = {}
    for client in sorted(set(clients)):
        start = blake2b(client.encode(), digest_size=2).digest()[0] % COLOURS
        taken = set(chosen.values())
        order = [(start + step) % COLOURS for step in range(COLOURS)]
        chosen[client] = next((colour for colour in order if colour not in taken), start)
    return chosen


def short_names(clients: Iterable[str]) -> Mapping[str, str]:
    """Shorten client ids that share their address: ``10.0.0.5@orders-1`` becomes ``orders-1``."""
    ids = sorted(set(clients))
    addresses = {client.partition("@")[0] for client in ids if "@" in client}
    alike = len(addresses) == 1 and all("@" in client for client in ids)
    return {client: client.partition("@")[2] or client if alike else client for client in ids}
