"""The storage of the groups' states between batches."""

from collections.abc import Iterator
from typing import Protocol

KEY_PREFIX = "progress "
"""Prefix of a group's own key (cluster/group): the key of its progress in the store."""


def key_of_state(key: str) -> str:
    """Return the key of a group's state in the store: its own, unless its cluster's name begins like `KEY_PREFIX`."""
    return f"/{key}" if key.startswith(KEY_PREFIX) else key


class GroupStore(Protocol):
    """Store the groups' blobs between batches."""

    def get(self, key: str) -> bytes | None:
        """Return the blob of a group; None if there is none."""
        ...

    def put(self, key: str, blob: bytes) -> None:
        """Store the blob of a group."""
        ...

    def remove(self, key: str) -> None:
        """Remove the blob of a group."""
        ...

    def __iter__(self) -> Iterator[str]:
        """Yield the keys of all blobs."""
        ...


class GroupsInMemory(dict[str, bytes]):
    """A `GroupStore` that exists as long as its process."""

    def put(self, key: str, blob: bytes) -> None:
        """Store the blob of a group."""
        self[key] = blob

    def remove(self, key: str) -> None:
        """Remove the blob of a group."""
        self.pop(key, None)
