"""A port of this machine's loopback that serves this user alone.

MLflow asks nobody for a password, and a program that may ask it reads and writes all files of the user who
started it: an experiment's artifacts may lie in any folder. So it listens in a folder that only this user can
enter, and what connects to the port is passed on to it here if Linux says that it is this user's, or root's.
"""

import asyncio
import os
import socket
import struct
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Thread
from typing import TypeAlias

TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
"""All connections of this machine, with their users."""
CHUNK = 1 << 16
REFUSED = "403 Forbidden", "this is the MLflow of another user of this machine: start `fedgrid ui` yourself"
STARTING = "503 Service Unavailable", "MLflow is starting: load this page again"

Address: TypeAlias = tuple[str, int]
"""Of IPv4, with its port."""


def is_known() -> bool:
    """Return whether the system says whose a connection is."""
    return TABLES[0].exists()


def user_of(client: Address, server: Address) -> int | None:
    """Return the user whose process holds the client's end of a connection; None if no process does."""
    (host, port), (server_host, server_port) = client, server
    for prefix in ("", "0000000000000000FFFF0000"):  # IPv4, and the same within IPv6
        ends = [f"{prefix}{_hex(host)}:{port:04X}", f"{prefix}{_hex(server_host)}:{server_port:04X}"]
        for line in TABLES[bool(prefix)].read_text().splitlines()[1:]:
            fields = line.split()
            # One that its process has closed has no inode, and root for its user.
            if fields[1:3] == ends and fields[9] != "0":
                return int(fields[7])
    return None


def _hex(host: str) -> str:
    return f"{struct.unpack('=I', socket.inet_aton(host))[0]:08X}"


@contextmanager
def passed_on(listener: socket.socket, to: Path) -> Iterator[None]:
    """Pass on what this user's processes send to a bound socket to the Unix socket `to`, and back."""
    started: Future[Callable[[], object]] = Future()
    thread = Thread(target=lambda: asyncio.run(_serve(listener, to, started)), name="fedgrid ui", daemon=True)
    thread.start()
    end = started.result()
    try:
        yield
    finally:
        end()
        thread.join()


async def _serve(listener: socket.socket, to: Path, started: "Future[Callable[[], object]]") -> None:
    """Serve until the function is called that `started` gets."""
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    try:
        await asyncio.start_server(partial(_connected, to), sock=listener)
    except OSError as error:
        started.set_exception(error)
        return
    started.set_result(lambda: loop.call_soon_threadsafe(ended.set))
    await ended.wait()


async def _connected(to: Path, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Serve one connection; an end that goes away ends it."""
    with closing(writer), suppress(OSError):
        if user_of(writer.get_extra_info("peername"), writer.get_extra_info("sockname")) not in (
            os.getuid(),
            0,
        ):
            return await _answer(reader, writer, *REFUSED)
        try:
            behind, before = await asyncio.open_unix_connection(to)
        except OSError:
            return await _answer(reader, writer, *STARTING)
        with closing(before):
            await asyncio.gather(_copy(reader, before), _copy(behind, writer))


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, status: str, text: str) -> None:
    await reader.read(CHUNK)  # What is not read would reset the connection before the answer is.
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {len(text) + 1}\r\n"
    writer.write(f"{head}Connection: close\r\n\r\n{text}\n".encode())
    await writer.drain()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(CHUNK):
        writer.write(data)
        await writer.drain()
    writer.write_eof()
