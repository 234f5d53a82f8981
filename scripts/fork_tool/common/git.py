"""A thin wrapper of the git command: the user's settings do not change its results."""

import os
import subprocess
from pathlib import Path

from fork_tool.common.errors import ForkToolError
from fork_tool.common.processes import uninterrupted

AUTHOR = "MPS graph series"
ADDRESS = "series@mps-graph.invalid"

# Settings of the user's that would change what we write or run.
_SETTINGS = (
    "core.quotePath=false",
    "core.hooksPath=/dev/null",
    "core.attributesFile=/dev/null",
    "core.autocrlf=false",
    "core.safecrlf=false",
    "apply.whitespace=nowarn",
    "apply.ignoreWhitespace=no",
    "diff.suppressBlankEmpty=false",
    "diff.autoRefreshIndex=false",
    "advice.detachedHead=false",
    "gc.auto=0",
)

# Variables of git's that say how to reach things, not what to work on.
_KEPT = ("GIT_SSL_", "GIT_SSH", "GIT_PROXY_", "GIT_CONFIG_")


class GitError(ForkToolError):
    """git failed; `stderr` is what it printed."""

    def __init__(self, words: tuple[str, ...], stderr: str):
        said = [line for line in stderr.strip().splitlines() if line.strip()]
        telling = next(
            (line for line in said if line.startswith(("fatal:", "error:"))), said[0] if said else "no message"
        )
        super().__init__(f"`git {words[0]}` failed: {telling}")
        self.stderr = stderr


class Git:
    """Runs git in one directory, optionally on an index of its own."""

    def __init__(self, directory: Path, index: Path | None = None):
        self.directory = directory
        self.index = index

    def environment(self) -> dict[str, str]:
        """The caller's environment without what would point git elsewhere."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith("GIT_") or key.startswith(_KEPT)}
        kept |= {
            "LC_ALL": "C",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_ATTR_NOSYSTEM": "1",
            # Reading a checkout must write nothing to it, not even a refreshed index.
            "GIT_OPTIONAL_LOCKS": "0",
            # A directory that is no repository must not be taken for a part of ours.
            "GIT_CEILING_DIRECTORIES": str(self.directory.resolve().parent),
        }
        if self.index is not None:
            kept["GIT_INDEX_FILE"] = str(self.index)
        return kept

    def run(
        self,
        *words: str,
        data: bytes | None = None,
        check: bool = True,
        extra: dict[str, str] | None = None,
        timeout: float | None = None,
    ) -> subprocess.CompletedProcess[bytes]:
        """Run one git command; Ctrl-C reaches this process first, not git."""
        command = ["git"]
        for setting in _SETTINGS:
            command += ["-c", setting]
        command += words
        try:
            done = subprocess.run(
                command,
                cwd=self.directory,
                input=data,
                stdin=None if data is not None else subprocess.DEVNULL,
                capture_output=True,
                env=self.environment() | (extra or {}),
                start_new_session=True,
                timeout=timeout,
            )
        except FileNotFoundError:
            if not self.directory.is_dir():
                raise ForkToolError(f"{self.directory} is not there: run `make fetch`.") from None
            raise ForkToolError("git is not installed: run `make setup`.") from None
        if check and done.returncode:
            raise GitError(words, done.stderr.decode("utf-8", "replace"))
        return done

    def whole(self, *words: str, data: bytes | None = None) -> None:
        """Run a command that changes files or refs; Ctrl-C waits until it is done."""
        with uninterrupted():
            self.run(*words, data=data)

    def text(self, *words: str, data: bytes | None = None) -> str:
        return self.run(*words, data=data).stdout.decode("utf-8", "surrogateescape").rstrip("\n")

    def names(self, *words: str) -> list[str]:
        """The fields of a command's NUL-separated output."""
        fields = self.run(*words).stdout.decode("utf-8", "surrogateescape").split("\0")
        return fields[:-1] if fields and not fields[-1] else fields

    def succeeds(self, *words: str) -> bool:
        """Whether a command that answers by its exit status succeeded."""
        return self.run(*words, check=False).returncode == 0

    def resolve(self, name: str) -> str | None:
        done = self.run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}", check=False)
        return done.stdout.decode().strip() if done.returncode == 0 else None

    def tree_of(self, commit: str) -> str:
        return self.text("rev-parse", "--verify", f"{commit}^{{tree}}")

    def commit_tree(
        self, date: str, tree: str, message: str, parents: tuple[str, ...], author: tuple[str, str] = (AUTHOR, ADDRESS)
    ) -> str:
        """Make a commit that depends on its arguments and nothing else; the author is a name and an address."""
        words = ["-c", "i18n.commitEncoding=utf-8", "commit-tree", "--no-gpg-sign", tree]
        for parent in parents:
            words += ["-p", parent]
        identity = {
            f"GIT_{role}_{part}": value
            for role in ("AUTHOR", "COMMITTER")
            for part, value in (("NAME", author[0]), ("EMAIL", author[1]), ("DATE", date))
        }
        done = self.run(*words, "-F", "-", data=message.encode("utf-8"), extra=identity)
        return done.stdout.decode().strip()
