"""The sockets of the servers, bound before anything else is started."""

import os
import socket

from streaming.base.errors import UserError


def listen(host: str, port: int, mend: str = "choose another with --port or --host") -> socket.socket:
    """Bind before anything is started, so that a port in use is reported in one sentence.

    Args:
        host: the address.
        port: 0 for any free one.
        mend: what the user can do if that fails.

    Raises:
        UserError: the port is in use or the address does not belong to this machine.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        # Python adds the address to the message of a failed bind; for an unknown name there is no other message.
        why = error.strerror if isinstance(error, socket.gaierror) else os.strerror(error.errno or 0)
        raise UserError(f"Cannot listen on {host} port {port} ({why}): {mend}.") from None


def address(listening: socket.socket, scheme: str = "http") -> str:
    """Return the address for a browser on this machine."""
    host, port = listening.getsockname()[:2]
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
