"""Ports of this machine for servers and ranks of tests, chosen as in engine/ranks/free_port."""

import errno
import pathlib
import random
import socket

FIRST, END = 20000, 65536


def free_port():
    """A port without a listener, outside the kernel's range for outgoing connections, which would sometimes take it before use."""
    first, last = map(int, pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    dice = random.SystemRandom()
    for _ in range(1000):
        port = dice.randrange(FIRST, END)
        if not first <= port <= last and _is_free(port):
            return port
    raise RuntimeError(f"no port from {FIRST} on is free beside {first} to {last}, which the kernel gives to connections")


def _is_free(port):
    for family, address in ((socket.AF_INET, ""), (socket.AF_INET6, "::")):
        try:
            with socket.socket(family) as probe:
                probe.bind((address, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:  # IPv6 may be unavailable
                return False
    return True
