"""A port of this machine's loopback that serves this user alone, and no pages of other sites.

MLflow asks nobody for a password, and a program that may ask it reads and writes all files of the user who
started it: an experiment's artifacts may lie in any folder. So it listens in a folder that only this user can
enter. What connects to the port is passed on to it here if Linux says that it is this user's, or root's, and
if the request names this port's address as its host, and as its origin if it has one: a browser sends others
for a page of another site, also after DNS rebinding.
"""

import asyncio
import os
import socket
import struct
from collections.abc import Callable, Coroutine, Iterator, Mapping
from concurrent.futures import Future
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Thread
from typing import TypeAlias

TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
"""All connections of this machine, with their users."""
HOSTS = ("127.0.0.1", "localhost")
"""Names of the loopback in addresses; those of a request come with the port."""
CHUNK = 1 << 16
END_OF_HEAD = b"\r\n\r\n"
LONGEST_HEAD = 1 << 16
"""Bytes of a request before its body."""
REFUSED = "403 Forbidden", "this is the MLflow of another user of this machine: start `fedgrid ui` yourself"
OTHER_SITE = "403 Forbidden", "this request is for another host or from another site: open http://{} itself"
STARTING = "503 Service Unavailable", "MLflow is starting: load this page again"

Address: TypeAlias = tuple[str, int]
"""Of IPv4, with its port."""
Pages: TypeAlias = Mapping[str, str]
"""Path of an address -> the page that is there, in the place of what MLflow has."""
Connected: TypeAlias = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[None, None, None]]


def is_own(client: Address, server: Address) -> bool:
    """Return whether a connection is this user's or root's, or the system does not tell users apart."""
    return not TABLES[0].exists() or user_of(client, server) in (os.getuid(), 0)


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
def pass_on(listener: socket.socket, to: Path, pages: Pages) -> Iterator[None]:
    """Pass on what this user's processes send to a bound socket to the Unix socket `to`, and back.

    Requests for one of `pages`, which may be more later, are answered here.
    """
    started: Future[Callable[[], object]] = Future()
    serving = _serve(listener, partial(_connected, to, pages), started)
    thread = Thread(target=asyncio.run, args=(serving,), name="fedgrid ui", daemon=True)
    thread.start()
    end = started.result()
    try:
        yield
    finally:
        end()
        thread.join()


async def _serve(
    listener: socket.socket, connected: Connected, started: "Future[Callable[[], object]]"
) -> None:
    """Serve until the function is called that `started` gets."""
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    try:
        await asyncio.start_server(connected, sock=listener, limit=LONGEST_HEAD)
    except OSError as error:
        started.set_exception(error)
        return
    started.set_result(lambda: loop.call_soon_threadsafe(ended.set))
    await ended.wait()


async def _connected(
    to: Path, pages: Pages, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Serve one connection, which carries one request; an end that goes away ends it."""
    with closing(writer), suppress(OSError):
        own_address = writer.get_extra_info("sockname")
        if not is_own(writer.get_extra_info("peername"), own_address):
            await reader.read(CHUNK)  # What is not read would reset the connection before the answer is.
            return await _answer(writer, *REFUSED)
        port = own_address[1]
        try:
            head = checked_head(await reader.readuntil(END_OF_HEAD), port)
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
            status, text = OTHER_SITE
            return await _answer(writer, status, text.format(f"{HOSTS[0]}:{port}"))
        if (page := pages.get(head.decode("latin-1").split(" ")[1])) is not None:
            return await _answer(writer, "200 OK", page, "text/html")
        try:
            behind, before = await asyncio.open_unix_connection(to)
        except OSError:
            return await _answer(writer, *STARTING)
        with closing(before):
            before.write(head)
            await asyncio.gather(_copy(reader, before), _copy(behind, writer))


def checked_head(head: bytes, port: int) -> bytes:
    """Return the head of a request with `Connection: close`: no second request follows unchecked.

    Raises:
        ValueError: it names another host than this machine's loopback at `port`, or another origin.
    """
    line, *fields = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    names = [name.lower() for name, _, _ in (field.partition(":") for field in fields)]
    values = [value.strip().lower() for _, _, value in (field.partition(":") for field in fields)]
    hosts = [f"{host}:{port}" for host in HOSTS]
    named = [value for name, value in zip(names, values, strict=True) if name == "host"]
    origins = {value for name, value in zip(names, values, strict=True) if name == "origin"}
    if len(named) != 1 or named[0] not in hosts or not origins <= {f"http://{host}" for host in hosts}:
        raise ValueError("another host or origin")
    if "\n" in "".join([line, *fields]) or any(not name or name != name.strip() for name in names):
        raise ValueError("no HTTP")
    fields_kept = [
        field for field, name in zip(fields, names, strict=True) if name not in ("connection", "upgrade")
    ]
    return "\r\n".join([line, *fields_kept, "Connection: close", "", ""]).encode("latin-1")


async def _answer(writer: asyncio.StreamWriter, status: str, text: str, kind: str = "text/plain") -> None:
    body = f"{text}\n".encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
    writer.write(f"{head}Connection: close\r\n\r\n".encode() + body)
    await writer.drain()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(CHUNK):
        writer.write(data)
        await writer.drain()
    writer.write_eof()
