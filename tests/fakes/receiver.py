"""An HTTP server that takes posts, as real as any, and answers as a test says."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from waiting import wait_for


@dataclass
class Post:
    """One request: where to, with which headers, and its document."""

    path: str
    headers: dict[str, str]
    document: Any


@dataclass
class Receiver:
    """`answers`: statuses, one for each post, then 200 for ever. `hangs`: it takes posts and never answers;
    `drips`: it answers with one byte of a header now and then; until the test ends.
    """

    answers: list[int] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    hangs: bool = False
    drips: bool = False
    posts: list[Post] = field(default_factory=list)
    url: str = ""
    over: threading.Event = field(default_factory=threading.Event)

    def wait_for_posts(self, count: int) -> list[Post]:
        """At least so many, within a bound."""
        wait_for(lambda: len(self.posts) >= count, f"post {count}")
        return self.posts

    def documents(self) -> list[Any]:
        return [post.document for post in self.posts]


@contextmanager
def receiving(answers: Sequence[int] = (), **keys: Any) -> Iterator[Receiver]:
    """Such a server, for a while."""
    receiver = Receiver(list(answers), **keys)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(receiver))
    server.daemon_threads = True
    receiver.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        receiver.over.set()
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(receiver: Receiver) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.posts.append(Post(self.path, dict(self.headers), json.loads(body)))
            if receiver.hangs:
                receiver.over.wait()
                return
            if receiver.drips:
                self._drip()
                return
            self.send_response(receiver.answers.pop(0) if receiver.answers else 200)
            for name, value in receiver.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(b"no such label")

        def _drip(self) -> None:
            self.wfile.write(b"HTTP/1.1 200 OK\r\nX: ")
            try:
                while not receiver.over.wait(0.05):
                    self.wfile.write(b"x")
            except OSError:
                return

        def log_message(self, format: str, *args: object) -> None:
            """Nothing."""

    return Handler
