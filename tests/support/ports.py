"""Ports of this machine for servers and ranks of tests, as engine/ranks/free_port chooses them."""

import errno
import pathlib
import random
import socket

FIRST, END = 20000, 65536


def free_port():
    """One that nobody listens at, and that the kernel gives to no connection: with such a one, what is to listen there would now and then find it taken."""
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
            if error.errno == errno.EADDRINUSE:  # there may be no IPv6 here
                return False
    return True
