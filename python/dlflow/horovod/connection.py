"""Messages between a rank and the coordinator: length-prefixed JSON over TCP."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import threading
from typing import Any, List, Tuple

_LENGTH = struct.Struct("!I")
_LARGEST = 1 << 28  # longer messages are not from a rank


def listen(port: int, backlog: int) -> socket.socket:
    """Listens on all addresses of this machine; port 0 selects a free one."""
    if socket.has_dualstack_ipv6():
        return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=backlog)
    return socket.create_server(("", port), backlog=backlog)


class Connection:
    """One end. Any thread may send; one thread receives."""

    def __init__(self, end: socket.socket):
        self.socket = end
        self._sending = threading.Lock()
        self._received = bytearray()
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # A lost node is noticed after 4 seconds.
        end.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in ((socket.TCP_KEEPIDLE, 1), (socket.TCP_KEEPINTVL, 1), (socket.TCP_KEEPCNT, 3),
                              (socket.TCP_USER_TIMEOUT, 4000)):
            end.setsockopt(socket.IPPROTO_TCP, option, value)

    def send(self, message: Any) -> None:
        """Raises OSError if the other end is gone."""
        text = json.dumps(message, separators=(",", ":")).encode()
        with self._sending:
            self.socket.sendall(_LENGTH.pack(len(text)) + text)

    def receive(self) -> Tuple[List[Any], bool]:
        """Waits for bytes; returns the complete messages, and whether the other end is still there."""
        try:
            data = self.socket.recv(1 << 18)
        except OSError:
            data = b""
        self._received += data
        messages, place = [], 0
        while len(self._received) - place >= _LENGTH.size:
            length, = _LENGTH.unpack_from(self._received, place)
            if length > _LARGEST:
                return messages, False
            begin = place + _LENGTH.size
            if len(self._received) < begin + length:
                break
            messages.append(json.loads(self._received[begin:begin + length]))
            place = begin + length
        del self._received[:place]
        return messages, bool(data)

    def end_sending(self) -> None:
        with contextlib.suppress(OSError):  # the other end closed first
            self.socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self.socket.close()
