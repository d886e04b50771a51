"""What a shipper warns about: each sentence once for a spool, and not more than a few."""

from pathlib import Path

import structlog

from streaming.base.limits import SPOOL_WARNINGS

log = structlog.get_logger()


class SpoolWarnings:
    """Remembers what was logged about each spool, and each folder of spools."""

    def __init__(self) -> None:
        self._logged: dict[Path, set[tuple[str, str]]] = {}

    def tell(self, path: Path, what: str, detail: str) -> None:
        """Log a warning about a path, if it is new.

        Args:
            path: the spool, or the folder of spools.
            what: the sentence.
            detail: a name or an error; empty: none.
        """
        logged = self._logged.setdefault(path, set())
        if (what, detail) in logged or len(logged) >= SPOOL_WARNINGS:
            return
        logged.add((what, detail))
        log.warning(what, spool=str(path), **({"detail": detail} if detail else {}))
        if len(logged) == SPOOL_WARNINGS:
            log.warning("further warnings about this spool are not logged until the next start", spool=str(path))

    def forget(self, path: Path) -> None:
        """Forget a spool that is gone."""
        self._logged.pop(path, None)
