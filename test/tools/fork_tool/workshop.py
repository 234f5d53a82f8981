"""A tiny upstream and a repository around it, so that every test runs in a moment."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner, Result

from fork_tool.base.checkout import BASE_REF
from fork_tool.cli import cli
from fork_tool.common.errors import ForkToolError
from fork_tool.common.git import Git
from fork_tool.machine.machine import Machine
from fork_tool.paths import Layout, own_layout
from fork_tool.series.project import Project

LINUX = Machine("Linux", "x86_64", "Debian", frozenset({"debian"}))
MAC = Machine("Darwin", "arm64")
UPSTREAM = {
    "aten/Stream.mm": "".join(f"line {number}\n" for number in range(1, 21)),
    "aten/Graph.mm": "one\ntwo\nthree\n",
    "torch/mps.py": "import torch\n",
    "torch/empty.py": "",
    "tools/run.sh": "#!/bin/sh\n",
}


def command_git(directory: Path, *words: str) -> str:
    """Run git as a user would."""
    identity = ["-c", "user.name=A User", "-c", "user.email=user@example.invalid", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", *identity, *words], cwd=directory, capture_output=True, check=True)
    return done.stdout.decode("utf-8", "replace").strip()


class Workshop:
    """A repository with a checkout in it, and shorthands for what a user does there."""

    def __init__(self, root: Path, files: dict[str, str | bytes] | None = None):
        self.root = root
        self.layout = Layout(root)
        for directory in (self.layout.patches, self.layout.overlay, self.layout.checkout):
            directory.mkdir(parents=True)
        self.layout.series.write_text("# the order\n")
        self.layout.suites.parent.mkdir()
        shutil.copy(own_layout().suites, self.layout.suites)
        self.checkout = self.layout.checkout
        command_git(self.checkout, "init", "--quiet", "--initial-branch=base")
        self.write(dict(files if files is not None else UPSTREAM))
        command_git(self.checkout, "add", "--all")
        command_git(self.checkout, "commit", "--quiet", "--allow-empty", "--message=upstream")
        self.base = command_git(self.checkout, "rev-parse", "HEAD")
        command_git(self.checkout, "update-ref", BASE_REF, self.base)
        self.write_pin()
        self.project = Project(self.layout)
        self.git = Git(self.checkout)

    def with_python(self) -> Workshop:
        """The same with the tests' interpreter in its environment."""
        self.layout.python.parent.mkdir(parents=True)
        self.layout.python.symlink_to(sys.executable)
        return self

    def write_pin(self, **replaced: str) -> None:
        """The pin file of the tiny upstream."""
        values = {
            "tag": "v0.1",
            "commit": self.base,
            "url": "https://upstream.invalid/upstream.git",
            "name": "upstream_0.1.orig.tar.xz",
            "size": "10",
            "sha256": "0" * 64,
            "tree": "1" * 40,
        } | replaced
        self.layout.pin.write_text(
            f"""
[upstream]
tag = "{values["tag"]}"
commit = "{values["commit"]}"
url = "{values["url"]}"
date = "2025-01-01T00:00:00+00:00"
[debian]
release = "trixie"
pool = "pool/main/u/upstream"
name = "{values["name"]}"
size = {values["size"]}
sha256 = "{values["sha256"]}"
tree = "{values["tree"]}"
[release]
number = 1
[wheel]
name = "torch"
version = "0.1"
[objfw]
release = "trixie"
pool = "pool/main/o/objfw"
packages = []
"""
        )
        self.project = Project(self.layout)

    def write(self, files: dict[str, str | bytes]) -> None:
        """Put files into the checkout."""
        for name, content in files.items():
            path = self.checkout / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())

    def commit(self, message: str, files: dict[str, str | bytes] | None = None, amend: bool = False) -> str:
        """Commit everything in the checkout."""
        self.write(files or {})
        command_git(self.checkout, "add", "--all", "--force")
        command_git(
            self.checkout, "commit", "--quiet", "--allow-empty", *(["--amend"] if amend else []), f"--message={message}"
        )
        return self.head

    @property
    def head(self) -> str:
        return command_git(self.checkout, "rev-parse", "HEAD")

    @property
    def titles(self) -> list[str]:
        """Titles of the commits on top of the base."""
        return command_git(self.checkout, "log", "--reverse", "--format=%s", f"{self.base}..HEAD").splitlines()

    def run(self, *words: str) -> Result:
        """Run the tool in this process."""
        return CliRunner().invoke(cli, list(words), obj=Project(self.layout), standalone_mode=False)

    def good(self, *words: str) -> str:
        """Run the tool; it must succeed."""
        result = self.run(*words)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == 0, result.output
        return result.output

    def error(self, *words: str) -> str:
        """Run the tool; it must fail with one sentence, which is returned."""
        result = self.run(*words)
        assert isinstance(result.exception, ForkToolError), result.output
        return str(result.exception)

    def sources(self) -> dict[str, bytes]:
        """Every byte of the series and the overlay."""
        return {
            path.relative_to(self.root).as_posix(): path.read_bytes()
            for top in (self.layout.patches, self.layout.overlay)
            for path in sorted(top.rglob("*"))
            if path.is_file()
        }

    def state(self) -> dict[str, str]:
        """Everything about the checkout that a refused command must leave alone."""
        return {
            "refs": command_git(self.checkout, "for-each-ref"),
            "head": (self.checkout / ".git" / "HEAD").read_text(),
            "status": command_git(self.checkout, "status", "--porcelain", "--ignored"),
            "content": self._content(),
            "files": "\n".join(
                sorted(
                    str(path.relative_to(self.checkout))
                    for path in self.checkout.rglob("*")
                    if ".git" not in path.parts
                )
            ),
        }

    def _content(self) -> str:
        """What `git stash` would keep, as trees: the id of its commit changes with every second."""
        kept = command_git(self.checkout, "stash", "create")
        return command_git(self.checkout, "rev-parse", f"{kept}^{{tree}}", f"{kept}^2^{{tree}}") if kept else ""

    def patch(self, name: str, text: str) -> None:
        """Write a patch file and list it."""
        (self.layout.patches / f"{name}.patch").write_text(text)
        with self.layout.series.open("a") as stream:
            stream.write(f"{name}\n")

    def overlay(self, name: str, content: str = "new\n") -> None:
        """Write an overlay file."""
        path = self.layout.overlay / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


MESSAGE = "[MPS] Add a recorder\n\nWhy it is there.\n\nTest Plan:\npytest"
HUNK = """diff --git a/aten/Stream.mm b/aten/Stream.mm
--- a/aten/Stream.mm
+++ b/aten/Stream.mm
@@ -4,2 +4,3 @@ line 3
 line 4
+recorded
 line 5
"""
