"""Where what is kept of the groups lies between batches."""

from typing import Protocol


class GroupStore(Protocol):
    """Where the groups' blobs are kept between batches."""

    def get(self, key: str) -> bytes | None:
        """Return the blob of a group, None where there is none."""
        ...

    def put(self, key: str, blob: bytes) -> None:
        """Keep the blob."""
        ...

    def remove(self, key: str) -> None:
        """Forget the group."""
        ...


class GroupsInMemory(dict[str, bytes]):
    """A `GroupStore` that lasts as long as its process."""

    def put(self, key: str, blob: bytes) -> None:
        """Keep the blob."""
        self[key] = blob

    def remove(self, key: str) -> None:
        """Forget the group."""
        self.pop(key, None)
