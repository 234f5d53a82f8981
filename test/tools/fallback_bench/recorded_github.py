"""A server on this machine that gives recorded answers of GitHub's API, in order, and keeps what it was asked."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ANSWERS = Path(__file__).with_name("answers")


@dataclass(frozen=True)
class Answer:
    """One answer; `{api}` in a header stands for the server's own address."""

    file: str = ""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None
    # More than is sent: the connection ends early.
    promised: int | None = None

    @property
    def content(self) -> bytes:
        if self.body is not None:
            return self.body
        return (ANSWERS / f"{self.file}.json").read_bytes() if self.file else b""


def page(file: str, following: str = "") -> Answer:
    """A page of comments, with the link to the one that follows."""
    links = f'<{{api}}{following}>; rel="next", <{{api}}/somewhere>; rel="last"' if following else ""
    return Answer(file, headers={"Link": links} if links else {})


class RecordedGitHub(ThreadingHTTPServer):
    """Gives the answers of a path one after the other, and the last of them for ever."""

    def __init__(self, answers: dict[str, list[Answer]]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers = answers
        self.asked: list[str] = []
        self.tokens: set[str | None] = set()

    @property
    def api(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        server = self.server
        assert isinstance(server, RecordedGitHub)
        server.asked.append(self.path)
        server.tokens.add(self.headers.get("Authorization"))
        answers = server.answers.get(self.path, [Answer(status=404)])
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        content = answer.content
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value.format(api=server.api))
        self.send_header("Content-Length", str(answer.promised or len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_arguments: object) -> None:
        pass


@contextmanager
def recorded(answers: dict[str, list[Answer]]) -> Iterator[RecordedGitHub]:
    """The server, for the length of the block."""
    server = RecordedGitHub(answers)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


def comments_of(issue: int, number: int = 1) -> str:
    """The path of a page of an issue's comments."""
    following = f"&page={number}" if number > 1 else ""
    return f"/repos/pytorch/pytorch/issues/{issue}/comments?per_page=100{following}"
