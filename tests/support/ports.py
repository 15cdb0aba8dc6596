"""TCP ports for tests that run beside each other."""
import contextlib
import os
import socket

FIRST, LAST = 25000, 32700  # above those of tests/distributed/rank_pool.cpp, below the system's ephemeral ports
APART = 4


def free_ports(count):
    """Free ports in a row, at most four. The search of each process starts at other ports."""
    places = (LAST - FIRST) // APART
    for i in range(places):
        ports = [FIRST + (os.getpid() + i) % places * APART + number for number in range(count)]
        with contextlib.ExitStack() as sockets, contextlib.suppress(OSError):
            for port in ports:
                sockets.enter_context(socket.socket()).bind(("127.0.0.1", port))
            return ports
    raise OSError(f"there are no {count} free ports in a row")
