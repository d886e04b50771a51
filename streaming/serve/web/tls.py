"""TLS of the dashboard's own port."""

import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

from streaming.base.certificate import load_certificate
from streaming.base.errors import SettingsError, first_line
from streaming.base.sections.web import Web

_RENEWED_WITHIN_SECONDS = 60.0


class ServerTls:
    """The certificate that the port shows.

    A renewed one is shown to new connections without a restart. While its files can't be used, as between the writing
    of the one and of the other, the former one stays.
    """

    def __init__(self, web: Web, warn: Callable[[str], None]) -> None:
        """Read the files.

        Args:
            web: the section with the certificate.
            warn: is called with what is wrong with renewed files, once for each change.

        Raises:
            SettingsError: a file can't be read or used, or the certificate has expired.
        """
        self._web, self._warn = web, warn
        self._written = self._written_now()
        self.context = self._new_context()

    def renew(self) -> None:
        """Read the files again if they have changed."""
        if (written := self._written_now()) == self._written:
            return
        self._written = written
        try:
            self._new_context()  # what can't be used must not replace what can
            load_certificate(self.context, "web", self._web)
        except SettingsError as error:
            self._warn(f"The renewed certificate is not used: {error}")
        except Exception as error:  # noqa: BLE001  whatever it is, the port goes on with the former one
            self._warn(
                f"The renewed certificate is not used ({first_line(error) or type(error).__name__}): write "
                "web.certificate_file and web.key_file again, as PEM with a key of RSA, P-256 or P-384."
            )

    def _new_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        load_certificate(context, "web", self._web)
        return context

    def _written_now(self) -> tuple[int | None, ...]:
        """Return when the files were written, in nanoseconds; None for one that is not there or can't be read."""
        return tuple(map(_written_at, (self._web.certificate_file, self._web.key_file)))


def _written_at(file: str) -> int | None:
    try:
        return Path(file).expanduser().stat().st_mtime_ns
    except OSError:
        return None


@contextmanager
def server_tls(web: Web, warn: Callable[[str], None]) -> Iterator[ServerTls | None]:
    """Yield the TLS of the port, which is renewed until the end of the block; None if the section has no certificate.

    Raises:
        SettingsError: as of `ServerTls`.
    """
    if not (web.certificate_file or web.key_file):
        yield None
        return
    tls, ended = ServerTls(web, warn), Event()

    def look() -> None:
        while not ended.wait(_RENEWED_WITHIN_SECONDS):
            tls.renew()

    looking = Thread(target=look, name="certificate", daemon=True)
    looking.start()
    try:
        yield tls
    finally:
        ended.set()
        looking.join()
