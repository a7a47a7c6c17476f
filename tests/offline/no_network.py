"""No network during tests: refused in this process and in every Python that it starts.

An audit hook sees each connection, datagram and name look-up that goes through Python's `socket`, whoever makes it and
by whatever library, and raises unless it stays on this machine. A hook cannot be removed again. Children get it because
the tests put this folder on PYTHONPATH, where Python finds `sitecustomize` at its start: kernels, ranks, `labsim ...`.

The error is no OSError: code that takes a missing network for an answer must not pass for code that asks for none.

Limits: native code that opens its own sockets is not seen (torch's collectives, which are given 127.0.0.1; Chromium,
which gets `labsim.lab.browser.OFFLINE`), nor is a Python started with -I or -E. A test that must install packages drops
PYTHONPATH from its child's environment, where a reader sees it.
"""

from __future__ import annotations

import ipaddress
import socket
import sys

_HERE = ("localhost", "ip6-localhost", "")
_CONNECTS = ("socket.connect", "socket.sendto", "socket.sendmsg")
_LOOK_UPS = ("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr")
_FLAG = "_labsim_no_network"


class NetworkBlocked(RuntimeError):
    """Something asked for the network during a test."""


def install() -> None:
    """Refuse the network in this process from now on. A second call changes nothing."""
    if not hasattr(sys, _FLAG):
        setattr(sys, _FLAG, True)
        sys.addaudithook(_refuse)


def stays_here(host: object) -> bool:
    """Whether a host is this machine: loopback, no host at all, or its own name."""
    if host is None or not isinstance(host, str | bytes | bytearray):
        return host is None
    name = (host if isinstance(host, str) else host.decode("ascii", "replace")).partition("%")[0].rstrip(".").lower()
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return name in _HERE or name == socket.gethostname().lower()
    return address.is_loopback or address.is_unspecified


def _refuse(event: str, arguments: tuple[object, ...]) -> None:
    if not event.startswith("socket."):
        return
    if event in _LOOK_UPS:
        host = arguments[0]
    elif event in _CONNECTS:
        connection, address = arguments
        if connection.family not in (socket.AF_INET, socket.AF_INET6):
            return  # a Unix socket, or the kernel's own
        host = address[0] if address else None
    else:
        return
    if not stays_here(host):
        raise NetworkBlocked(
            f"{event} to {host!r} during a test: tests use no network. Fetch what a test needs in the set-up "
            "(scripts/setup_env.py), or let it talk to 127.0.0.1."
        )
