"""A server on this machine that gives recorded answers of GitHub's API, in order, and keeps what it was asked."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_MISSING = "NotImplementedError: The operator 'aten::{}' is not currently implemented for the MPS device."


def comment(
    number: int, author: str | None, body: str | None, thumbs: int = 0, role: str = "NONE"
) -> dict[str, object]:
    """A comment with those of GitHub's fields that are read."""
    return {
        "html_url": f"https://github.com/pytorch/pytorch/issues/{141287 if number == 12 else 77764}#issuecomment-{number}",
        "user": author and {"login": author},
        "author_association": role,
        "body": body,
        "reactions": {"+1": thumbs, "-1": 0},
    }


# Made up: by issue and page, or by what went wrong.
ANSWERS: dict[str, object] = {
    "77764-1": [
        comment(1, "ada", "My solver needs `aten::linalg_qr.out`, please.", 3),
        comment(2, "bert", f"```\n{_MISSING.format('linalg_eig')}\n```\nWould be nice."),
        comment(3, "carl", "Both aten::mode and aten::linalg_qr are missing here.", role="CONTRIBUTOR"),
        comment(4, "keeper", "aten::mode is on its way in the next release.", 9, "MEMBER"),
        comment(5, "dora", "Thank you all!"),
    ],
    "77764-2": [
        comment(6, "ada", "Asking again for aten::linalg_qr.", 5),
        comment(7, "emil", "> please add aten::angle\n\nMe too."),
        comment(8, "ghost", None),
        comment(9, "fred", "Is aten::no_such_operator planned?"),
        comment(10, None, "aten::kthvalue.values and again aten::kthvalue, for quantiles."),
        comment(11, "gina", "aten::kthvalue for me as well."),
    ],
    "141287-1": [comment(12, "hugo", f"~~~\nTraceback\n aten::add at line 3\n{_MISSING.format('linalg_qr.out')}")],
    "limit": {"message": "API rate limit exceeded for user ID 1."},
    "forbidden": {"message": "Resource not accessible by personal access token"},
    "empty": [],
    "no comment": [{"message": "hello"}],
}


@dataclass(frozen=True)
class Answer:
    """One answer; `{api}` in a header stands for the server's own address."""

    name: str = ""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


def page(name: str, following: str = "") -> Answer:
    links = f'<{{api}}{following}>; rel="next", <{{api}}/somewhere>; rel="last"' if following else ""
    return Answer(name, headers={"Link": links} if links else {})


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
        content = json.dumps(ANSWERS[answer.name]).encode() if answer.name else b""
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value.format(api=server.api))
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_arguments: object) -> None:
        pass


@contextmanager
def recorded(answers: dict[str, list[Answer]]) -> Iterator[RecordedGitHub]:
    server = RecordedGitHub(answers)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


def comments_of(issue: int, number: int = 1) -> str:
    following = f"&page={number}" if number > 1 else ""
    return f"/repos/pytorch/pytorch/issues/{issue}/comments?per_page=100{following}"
