"""A small S3 server on loopback, in memory, that fails as it is told: enough of S3 for what Arrow sends.

It knows objects, ranges, listings, multipart uploads, deletions and `If-None-Match: *`. It checks no
signature.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import md5
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from re import findall
from secrets import token_hex
from threading import Event, Lock, Thread
from time import time
from urllib.parse import parse_qs, unquote, urlsplit
from wsgiref.handlers import format_date_time
from xml.sax.saxutils import escape, unescape

BUCKET = "bucket"


@dataclass
class Content:
    """The objects and uploads of a server, and what goes wrong with requests."""

    objects: dict[str, tuple[bytes, float]] = field(default_factory=dict)
    uploads: dict[str, dict[int, bytes]] = field(default_factory=dict)
    requests: int = 0
    fault: Callable[[int, str], str] = lambda number, method: ""
    """From the number of a request and its method: "503", "silence", "truncated", or "" for none."""
    silence: float = 60.0
    """Seconds without an answer."""
    faults: int = 0
    lock: Lock = field(default_factory=Lock)
    ended: Event = field(default_factory=Event)


def handler(content: Content) -> type[BaseHTTPRequestHandler]:
    """Return the handler of requests."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def handle_one_request(self) -> None:
            try:
                super().handle_one_request()
            except ConnectionError:  # The client gave up.
                self.close_connection = True

        def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
            self.send_response(status)
            for name, value in {"Content_Length": str(len(body)), **headers}.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def error(self, status: int, code: str) -> None:
            self.answer(status, f"<Error><Code>{code}</Code><Message>{code}</Message></Error>".encode())

        def result(self, name: str, text: str) -> None:
            self.answer(200, f"<{name}Result>{text}</{name}Result>".encode())

        def parsed(self) -> tuple[str, dict[str, list[str]]]:
            parts = urlsplit(self.path)
            key = unquote(parts.path).removeprefix(f"/{BUCKET}").lstrip("/")
            return key, parse_qs(parts.query, keep_blank_values=True)

        def body(self) -> bytes:
            data = self.received()
            if "aws-chunked" not in self.headers.get("Content-Encoding", ""):
                return data
            plain = b""
            while data:
                size, _, data = data.partition(b"\r\n")
                length = int(size.split(b";")[0], 16)
                if not length:
                    break
                plain, data = plain + data[:length], data[length + 2 :]
            return plain

        def received(self) -> bytes:
            if self.headers.get("Transfer-Encoding", "") != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length", 0)))
            data = b""
            while length := int(self.rfile.readline(), 16):
                data += self.rfile.read(length)
                self.rfile.readline()
            self.rfile.readline()
            return data

        def disturbed(self) -> bool:
            """Fail as told; return whether the request ends here."""
            with content.lock:
                content.requests += 1
                kind = content.fault(content.requests, self.command)
                content.faults += bool(kind)
            if kind == "503":
                self.body()
                self.error(503, "SlowDown")
            elif kind == "silence":
                content.ended.wait(content.silence)
                self.close_connection = True
            elif kind == "truncated":
                # Half of an upload arrives, or half of a download is sent; then the connection breaks.
                self.rfile.read(int(self.headers.get("Content-Length", 1)) // 2)
                self.close_connection = True
                self.connection.close()
            return bool(kind)

        def do_HEAD(self) -> None:
            if not self.disturbed():
                self.get()

        def do_GET(self) -> None:
            if not self.disturbed():
                self.get()

        def get(self) -> None:
            key, query = self.parsed()
            if not key:
                self.listing(query) if self.command == "GET" else self.answer(200)
                return
            found = content.objects.get(key)
            if found is None:
                self.error(404, "NoSuchKey")
                return
            data, changed = found
            headers = {"Last_Modified": format_date_time(changed), "ETag": f'"{md5(data).hexdigest()}"'}
            asked = self.headers.get("Range", "").removeprefix("bytes=")
            if asked and data:
                first, _, last = asked.partition("-")
                end = min(len(data) - 1, int(last or len(data) - 1))
                place = f"bytes {first}-{end}/{len(data)}"
                self.answer(206, data[int(first) : end + 1], Content_Range=place, **headers)
            elif self.command == "HEAD":
                self.answer(200, b"", **{"Content_Length": str(len(data))}, **headers)
            else:
                self.answer(200, data, **headers)

        def listing(self, query: dict[str, list[str]]) -> None:
            prefix, delimiter = query.get("prefix", [""])[0], query.get("delimiter", [""])[0]
            rows, folders = [], set()
            with content.lock:
                found = sorted(
                    (key, *value) for key, value in content.objects.items() if key.startswith(prefix)
                )
            for key, data, changed in found:
                rest = key.removeprefix(prefix)
                if delimiter and delimiter in rest:
                    folders.add(prefix + rest.partition(delimiter)[0] + delimiter)
                else:
                    rows.append(
                        f"<Contents><Key>{escape(key)}</Key><Size>{len(data)}</Size><LastModified>{iso(changed)}"
                        f'</LastModified><ETag>"{md5(data).hexdigest()}"</ETag></Contents>'
                    )
            rows += [f"<CommonPrefixes><Prefix>{escape(each)}</Prefix></CommonPrefixes>" for each in folders]
            count = f"<KeyCount>{len(rows)}</KeyCount><IsTruncated>false</IsTruncated>"
            self.result("ListBucket", count + "".join(rows))

        def do_PUT(self) -> None:
            if self.disturbed():
                return
            key, query = self.parsed()
            data = self.body()
            tag = f'"{md5(data).hexdigest()}"'
            if "uploadId" in query:
                content.uploads[query["uploadId"][0]][int(query["partNumber"][0])] = data
            elif key and not self.stored(key, data):
                return
            self.answer(200, ETag=tag)

        def stored(self, key: str, data: bytes) -> bool:
            """Store an object, unless the request says that there must be none."""
            with content.lock:
                is_new = key not in content.objects
                if is_new or self.headers.get("If-None-Match") != "*":
                    content.objects[key] = data, time()
                    return True
            self.error(412, "PreconditionFailed")
            return False

        def do_POST(self) -> None:
            if self.disturbed():
                return
            key, query = self.parsed()
            data = self.body()
            if "uploads" in query:
                name = token_hex(8)
                content.uploads[name] = {}
                text = f"<UploadId>{name}</UploadId><Key>{escape(key)}</Key>"
                self.answer(
                    200, f"<InitiateMultipartUploadResult>{text}</InitiateMultipartUploadResult>".encode()
                )
            elif "uploadId" in query:
                parts = content.uploads.get(query["uploadId"][0])
                if parts is None:
                    self.error(404, "NoSuchUpload")
                    return
                if not self.stored(key, b"".join(parts[number] for number in sorted(parts))):
                    return
                text = f"<Key>{escape(key)}</Key><ETag>&quot;1&quot;</ETag>"
                self.answer(
                    200, f"<CompleteMultipartUploadResult>{text}</CompleteMultipartUploadResult>".encode()
                )
            else:
                with content.lock:
                    for each in findall(r"<Key>(.*?)</Key>", data.decode()):
                        content.objects.pop(unescape(each), None)
                self.result("Delete", "")

        def do_DELETE(self) -> None:
            if self.disturbed():
                return
            key, query = self.parsed()
            with content.lock:
                if "uploadId" in query:
                    content.uploads.pop(query["uploadId"][0], None)
                else:
                    content.objects.pop(key, None)
            self.answer(204)

    return Handler


def iso(seconds: float) -> str:
    """Return a time as S3 lists it."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")


@contextmanager
def serving(content: Content) -> Iterator[str]:
    """Serve on loopback; provide the URI of a folder in the bucket."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler(content))
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        place = f"127.0.0.1%3A{server.server_port}"
        yield f"s3://key:secret@{BUCKET}/runs?scheme=http&endpoint_override={place}&region=us-east-1"
    finally:
        content.ended.set()
        server.shutdown()
        server.server_close()
        thread.join()
