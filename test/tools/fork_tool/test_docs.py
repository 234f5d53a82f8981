"""Links, tests, patches and commands that pages name are there, and those about the series are run in a scratch clone."""

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import click
import pytest

from fork_tool.cli import cli
from fork_tool.common.help import ProgramCommand
from fork_tool.paths import own_layout
from fork_tool.series.order import parse_series
from moving import put, resolve, upstream_elsewhere
from workshop import command_git, Workshop

ROOT = own_layout().root
PATCHES_PAGE = ROOT / "docs" / "patches.md"
PAGES = sorted(
    path
    for folder in (".", "docs", "patches", "scripts", "test")
    for path in (ROOT / folder).glob("**/*.md" if folder != "." else "*.md")
)
LINK = re.compile(r"\]\((?!https?:)([^)#]+)(#[^)]*)?\)")
TEST = re.compile(r"`(?:[A-Z]\w+\.)?(test_\w+)`")


def anchors(page: Path) -> set[str]:
    """What headings are called in links."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    prose = re.sub(r"^ *```.*?^ *```", "", page.read_text(), flags=re.M | re.S)
    for target, anchor in LINK.findall(prose):
        found = (page.parent / target).resolve()
        assert found.exists(), target
        assert not anchor or anchor[1:] in anchors(found), target + anchor


def test_named_tests_exist() -> None:
    sources = [*(ROOT / "aten_mps_overlay" / "test").glob("*.py"), *(ROOT / "test").rglob("test_*.py")]
    known = set(re.findall(r"def (test_\w+)", "\n".join(path.read_text() for path in sources)))
    known |= {path.stem for path in sources}
    named = set(TEST.findall(PATCHES_PAGE.read_text()))
    assert len(named) > 5
    assert named - known == set()


def test_the_table_of_patches_agrees_with_both_series() -> None:
    layout = own_layout()
    release = layout.patches / "releases" / "2.13"
    kept = parse_series((release / "series").read_text("utf-8"), "series").names

    def on_release(name: str) -> str:
        if name not in kept:
            return "dropped"
        return "separate hunks" if (release / "patches" / f"{name}.patch").exists() else "as it is"

    rows = re.findall(r"^\| \[`([^`]+)`\]\([^)]+\) \| .* \| ([^|]*) \| [^|]*\|$", PATCHES_PAGE.read_text("utf-8"), re.M)
    names = parse_series(layout.series.read_text("utf-8"), "patches/series").names
    assert rows == [(name, on_release(name)) for name in names]


INLINE = re.compile(r"`([^`]+)`")
STARTS = ("make ", "git ", "scripts/mpsfork ")
# The commands for an edit of the series, on PATCHES_PAGE.
SERIES = ("make fetch", "make apply", "git commit --fixup", "git rebase -i --autosquash", "make refresh", "make verify")


def commands(page: Path) -> list[str]:
    """All command lines of a page, inline and in blocks, without what is only a placeholder."""
    text = page.read_text()
    blocks = re.findall(r"^ *```\w*\n(.*?)^ *```", text, re.M | re.S)
    lines = [line.partition("  #")[0].strip() for block in blocks for line in block.splitlines()]
    prose = re.sub(r"^ *```.*?^ *```", "", text, flags=re.M | re.S)
    lines += [" ".join(found.split()) for found in INLINE.findall(prose)]
    parts = [part.strip() for line in lines for part in re.split("&&|;", line)]
    return [part for part in parts if part.startswith(STARTS) and "…" not in part]


def word_lists(page: Path, start: str) -> list[list[str]]:
    return [shlex.split(line) for line in commands(page) if line.startswith(start)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_targets_and_their_variables_are_there(page: Path) -> None:
    makefile = (ROOT / "Makefile").read_text()
    for words in word_lists(page, "make "):
        if words[1] == "COMMAND":
            continue
        targets = [word for word in words[1:] if "=" not in word]
        done = subprocess.run(["make", "-n", *words[1:]], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (words, done.stderr)
        for target in targets:
            recipe = re.search(rf"^{target}:.*\n((?:\t.*\n|ifeq.*\n|else\n|endif\n)*)", makefile, re.M)
            assert recipe, words
            used = recipe[1] + (
                "".join(re.findall(r"^BENCH_OPTIONS = .*", makefile, re.M)) if "BENCH" in recipe[1] else ""
            )
            for variable in (word.partition("=")[0] for word in words[1:] if "=" in word):
                assert f"$({variable})" in used, words


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_and_their_options_are_there(page: Path) -> None:
    for words in word_lists(page, "scripts/mpsfork "):
        if words[1] == "COMMAND":
            continue
        if words[1].startswith("-"):
            known = {name for parameter in cli.params for name in parameter.opts}
            assert words[1] in known | {"--help"}, words
            continue
        command = cli.commands[words[1]]
        known = {name for parameter in command.params for name in parameter.opts}
        options = [word for word in words[2:] if word.startswith("--")]
        assert isinstance(command, ProgramCommand) or set(options) <= known | {"--help"}, words
        assert isinstance(command, click.Command)


class Clone:
    """A clone of this repository in which a user follows a page."""

    def __init__(self, shop: Workshop):
        self.root = shop.root
        self.checkout = shop.checkout
        shutil.copytree(ROOT / "scripts", self.root / "scripts", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "Makefile", self.root)
        (self.root / ".venv").symlink_to(own_layout().environment.resolve())
        (self.root / ".gitignore").write_text("/build/\n/.venv\n__pycache__/\n/scripts/\n/upstream/\n")
        command_git(self.root, "init", "--quiet")
        command_git(self.root, "add", "--all")
        command_git(self.root, "commit", "--quiet", "--message=all")

    def run(self, line: str, where: Path | None = None, fails: bool = False) -> str:
        """A line of the page, by a shell, as it stands there."""
        identity = {
            f"GIT_{role}_{part}": f"u@{part}.invalid" for role in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")
        }
        done = subprocess.run(
            line,
            shell=True,
            cwd=where or self.root,
            env=os.environ | identity,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode != 0) == fails, done.stdout + done.stderr
        return done.stdout + done.stderr


@pytest.fixture
def clone(shop: Workshop) -> Clone:
    return Clone(shop)


def test_page_about_the_patches_can_be_followed(shop: Workshop, clone: Clone) -> None:
    remote = upstream_elsewhere(shop, put("aten/Stream.mm", "stream 4\n", "stream four\n"))
    base = command_git(remote, "rev-parse", "HEAD")
    command_git(clone.root, "commit", "--quiet", "--all", "--message=another address")
    run_here: list[str] = []

    def follow(line: str, where: Path | None = None, fails: bool = False) -> str:
        assert line in commands(PATCHES_PAGE)
        run_here.append(line)
        return clone.run(line, where, fails)

    assert "recorder does not fit" in follow("scripts/mpsfork drift --against main", fails=True)
    for end in ("make rebase ABORT=1", "make rebase CONTINUE=1"):
        assert "The patch recorder does not fit" in follow("make rebase ONTO=main", fails=True)
        resolve(shop.layout.rebase_checkout / "aten/Stream.mm", "stream four\nrecorded\nmiddle\nlast\n")
        follow("git add", shop.layout.rebase_checkout) if end.endswith("ABORT=1") else command_git(
            shop.layout.rebase_checkout, "add", "aten/Stream.mm"
        )
        follow(end)
    assert command_git(shop.checkout, "rev-parse", "HEAD~4") == base
    assert "All 4 patches apply" in follow("make verify")
    follow('make export GHSTACK=1 AUTHOR="Name <mail@example.org>"')
    follow("git checkout mps-graph-ghstack", shop.checkout)
    assert command_git(shop.checkout, "log", "-1", "--format=%an <%ae>") == "Name <mail@example.org>"
    follow("make export")
    line = follow_elsewhere = "git am --keep-non-patch build/export/*.patch"
    assert line in commands(PATCHES_PAGE)
    run_here.append(line)
    command_git(remote, "checkout", "--quiet", "main")
    clone.run(follow_elsewhere.replace("build/export", str(shop.layout.export)), remote)
    titles = command_git(remote, "log", "--format=%s", "-4").splitlines()
    assert titles == [f"[MPS] Add {name}" for name in ("python", "pool", "cache", "recorder")]
    # They need a Mac, an account of ghstack's or hours.
    elsewhere = {"lint-overlay", "test-patches", "test-release", "test-as-release", "fetch --checkout DIR"}
    assert set(commands(PATCHES_PAGE)) - set(run_here) - set(SERIES) == {
        f"scripts/mpsfork {words}" for words in elsewhere
    }


def test_an_edit_of_the_series_can_be_followed(shop: Workshop, clone: Clone) -> None:
    assert set(SERIES) <= set(commands(PATCHES_PAGE))
    fetch, apply, fixup, autosquash, refresh, verify = SERIES
    for line in (fetch, apply):
        clone.run(line)
    put("aten/Graph.mm", "cached 10\n", "cached ten\n")(shop.checkout)
    cache = command_git(shop.checkout, "log", "--format=%h", "--grep=Add cache")
    clone.run(f"{fixup} {cache} --all", shop.checkout)
    clone.run(f"GIT_SEQUENCE_EDITOR=true {autosquash} {shop.base}", shop.checkout)
    for line in (refresh, verify):
        clone.run(line)
    assert "+cached ten" in (shop.layout.patches / "cache.patch").read_text()
