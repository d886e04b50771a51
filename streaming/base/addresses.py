"""Addresses of servers, host:port, as a person or a server wrote them."""

import re
from collections.abc import Collection
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import NamedTuple, TypeAlias

Ip: TypeAlias = IPv4Address | IPv6Address

_HOST = re.compile(r"[^\s\x00-\x20\x7f/@:\[\]]{1,253}")
_PORT = re.compile(r"[0-9]{1,5}", re.ASCII)
_PORT_MAX = 65_535
_SENDER_CHARACTERS = 64


class Address(NamedTuple):
    """The address at which a server listens."""

    host: str
    port: int


def address_of(text: str) -> Address:
    """Return an address; an IPv6 host is in brackets.

    Raises:
        ValueError: it is none that a connection can be opened to; the sentence shows it.
    """
    host, colon, port = text.rpartition(":")
    if not colon or not _PORT.fullmatch(port) or not 0 < int(port) <= _PORT_MAX or not _is_host(host):
        raise ValueError(f"{text[:100]!r} is not host:port")
    return Address(host.strip("[]"), int(port))


def addresses_of(text: str) -> tuple[str, ...]:
    """Return each address of RocketMQ's own form of a list, ``a:9876;b:9876``."""
    return tuple(one.strip() for one in text.split(";") if one.strip())


def is_local(ip: Ip) -> bool:
    """Return whether an address leads to this machine: loopback, or unspecified, which connects to it."""
    mapped = ip.ipv4_mapped if isinstance(ip, IPv6Address) else None
    one = mapped or ip
    return one.is_loopback or one.is_unspecified


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a server that listens at a name or an address."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def sender_of(address: str) -> str:
    """Return what one sender has of addresses, by which it is counted and limited.

    That is an address of IPv4, but all of this machine's own (127.0.0.0/8), and 64 bits of IPv6, where any sender has
    2^64. A text of a proxy that is no address is cut.
    """
    try:
        ip = ip_of(address)
    except ValueError:
        return address[:_SENDER_CHARACTERS]
    ip = (ip.ipv4_mapped or ip) if isinstance(ip, IPv6Address) else ip
    if ip.is_loopback:
        return "loopback"
    return str(ip) if isinstance(ip, IPv4Address) else str(ip_network((int(ip) >> 64 << 64, 64)))


def is_among(address: str, networks: Collection[IPv4Network | IPv6Network]) -> bool:
    """Return whether a numeric address is in one of the networks."""
    try:
        ip = ip_of(address)
    except ValueError:
        return False
    ip = (ip.ipv4_mapped or ip) if isinstance(ip, IPv6Address) else ip
    return any(ip in network for network in networks)


def ip_of(host: str) -> Ip:
    """Return a numeric address, without its zone.

    Raises:
        ValueError: it is none.
    """
    return ip_address(host.partition("%")[0])


def _is_host(host: str) -> bool:
    try:
        if host.startswith("[") and host.endswith("]"):
            IPv6Address(host[1:-1])
            return True
        host.encode("idna")  # as the resolver does: each label has 1 to 63 characters
    except ValueError:  # UnicodeError, too
        return False
    return _HOST.fullmatch(host) is not None
