"""apply → refresh → apply changes no byte, whatever was edited in between."""

import subprocess
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, HealthCheck, Phase, settings
from hypothesis import strategies as st

from workshop import command_git, Workshop

UPSTREAM_PATHS = ["aten/Stream.mm", "aten/Graph.mm", "torch/empty.py", "a file.txt", "latin.txt"]
NEW_PATHS = ["aten/New.mm", "aten/New.h", "torch/mps/graphs.py", "test/test new.py", "deep/er/file"]
LINES = [
    *("", "x", "line 3", "}", "@@ -1 +1 @@", "diff --git a/x b/x", "--- a/x", "+++ b/x", "index 1..2"),
    *("tail\r", "\\ No newline", "\ttabbed ", "ä", "\x0c", "Overlay:"),
]
TITLES = ["[MPS] Add a thing", "[MPS] Remove it again", "Untitled work", "[MPS] ünïcode", "[MPS]squeezed"]
BODIES = [
    *("", "Why.\n\nTest Plan:\nran it", "Several\n\n\n\nblank lines  \n", "Signed-off-by: A <a@b>"),
    *("Patch of no name\n\n* a list\n* of points", "    indented\n\n  Overlay: in passing"),
]


def some_text(random: Random, longest: int = 12) -> str:
    """A text file that is hard on diffs."""
    return "\n".join(random.choices(LINES, k=random.randrange(longest))) + random.choice(["", "\n"])


class User:
    """Edits, commits, reorders and drops as chance has it, and refreshes now and then."""

    def __init__(self, shop: Workshop, random: Random):
        self.shop = shop
        self.random = random

    def commit(self, body: bool = True) -> None:
        self.shop.commit(f"{self.random.choice(TITLES)}\n\n{self.random.choice(BODIES) if body else ''}")

    def _upstream_lines(self) -> tuple[Path, list[bytes]]:
        file = self.shop.checkout / self.random.choice(UPSTREAM_PATHS)
        return file, file.read_bytes().split(b"\n")

    def _new_files(self) -> list[Path]:
        return [file for file in (self.shop.checkout / path for path in NEW_PATHS) if file.exists()]

    def edit(self) -> None:
        file, lines = self._upstream_lines()
        at = self.random.randrange(len(lines) + 1)
        new = self.random.choices(LINES, k=self.random.randrange(4))
        lines[at : at + self.random.randrange(4)] = [line.encode() for line in new]
        file.write_bytes(b"\n".join(lines))
        self.commit()

    def move_lines(self) -> None:
        file, lines = self._upstream_lines()
        start, to = self.random.randrange(len(lines) + 1), self.random.randrange(len(lines) + 1)
        taken, lines[start : start + 3] = lines[start : start + 3], []
        lines[to:to] = taken
        file.write_bytes(b"\n".join(lines))
        self.commit()

    def write_new_file(self) -> None:
        """Add or edit a file that upstream does not have, perhaps with a hunk in the same commit."""
        path = self.random.choice(NEW_PATHS)
        self.shop.write({path: some_text(self.random)})
        (self.shop.checkout / path).chmod(self.random.choice([0o755, 0o644]))
        if self.random.random() < 0.5:
            self.edit()
        else:
            self.commit()

    def delete_new_file(self) -> None:
        files = self._new_files()
        if files:
            self.random.choice(files).unlink()
            self.commit(body=False)

    def rename_new_file(self) -> None:
        files = self._new_files()
        if files:
            new = self.shop.checkout / self.random.choice(NEW_PATHS)
            new.parent.mkdir(parents=True, exist_ok=True)
            self.random.choice(files).replace(new)
            self.commit()

    def amend(self) -> None:
        """Change the last commit, message kept."""
        if self.shop.head == self.shop.base:
            return
        file = self.random.choice([self.shop.checkout / path for path in UPSTREAM_PATHS] + self._new_files())
        file.write_bytes(file.read_bytes() + b"\n" + self.random.choice(LINES).encode())
        message = command_git(self.shop.checkout, "log", "-1", "--format=%B")
        self.shop.commit(message, amend=True)

    def drop_last(self) -> None:
        if self.shop.head != self.shop.base:
            command_git(self.shop.checkout, "reset", "--quiet", "--hard", "HEAD~1")

    def reverse_last_two(self) -> None:
        """Swap the last two commits where git can."""
        git = self.shop.git
        last, before, tip = git.resolve("HEAD"), git.resolve("HEAD~1"), self.shop.head
        if self.shop.base in (last, before):
            return
        if git.resolve("HEAD~2") == self.shop.base and "Patch: " not in git.text("log", "-1", "--format=%B", "HEAD"):
            # A new commit below all patches could be upstream's, and is refused.
            return
        command_git(self.shop.checkout, "reset", "--quiet", "--hard", "HEAD~2")
        try:
            for commit in (last, before):
                command_git(self.shop.checkout, "cherry-pick", "--allow-empty", "--keep-redundant-commits", str(commit))
        except subprocess.CalledProcessError:
            command_git(self.shop.checkout, "cherry-pick", "--abort")
            command_git(self.shop.checkout, "reset", "--quiet", "--hard", tip)

    def refresh(self) -> None:
        tree = self.shop.git.tree_of("HEAD")
        self.shop.good("refresh")
        assert self.shop.git.tree_of("HEAD") == tree
        assert self.shop.git.tree_of("mps-graph") == tree


ACTIONS = (
    *(User.edit, User.edit, User.move_lines, User.write_new_file, User.write_new_file, User.delete_new_file),
    *(User.rename_new_file, User.amend, User.drop_last, User.reverse_last_two, User.refresh),
)


def hard_files(random: Random) -> dict[str, str | bytes]:
    """An upstream with long, short, empty and oddly encoded files."""
    content: dict[str, str | bytes] = {path: some_text(random) for path in UPSTREAM_PATHS}
    content["aten/Stream.mm"] = "".join(f"line {number % 4}\n" for number in range(30))
    content["torch/empty.py"] = ""
    content["latin.txt"] = "caf\xe9\none\n".encode("latin-1")
    return content


def check_round_trip(shop: Workshop) -> None:
    """What `refresh` writes gives the branch back, byte for byte."""
    tree = shop.git.tree_of("HEAD")
    shop.good("refresh")
    first, tip = shop.sources(), shop.head
    assert "already applied" in shop.good("apply")
    # From nothing but the files: the same commits, the same tree, the same files.
    command_git(shop.checkout, "checkout", "--quiet", "--detach", shop.base)
    command_git(shop.checkout, "branch", "--quiet", "-D", "mps-graph")
    shop.good("apply")
    assert shop.head == tip
    assert shop.git.tree_of("HEAD") == tree
    shop.good("refresh")
    assert shop.sources() == first
    assert command_git(shop.checkout, "status", "--porcelain") == ""


@given(seed=st.integers(0, 2**32))
@settings(
    max_examples=8,
    phases=[Phase.generate],
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize=True,
    database=None,
)
def test_random_edits(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    random = Random(seed)
    shop = Workshop(tmp_path_factory.mktemp("edits") / "repository", hard_files(random))
    shop.good("apply")
    user = User(shop, random)
    for action in random.choices(ACTIONS, k=8):
        action(user)
    check_round_trip(shop)
