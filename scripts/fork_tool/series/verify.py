"""`verify`: does every patch fit, and does the series keep its own rules?"""

import re
from collections import Counter
from collections.abc import Container, Iterator
from dataclasses import dataclass, field, replace

from fork_tool.base.checkout import BRANCH
from fork_tool.common.errors import ConflictError, ForkToolError
from fork_tool.common.git import ADDRESS, AUTHOR, Git
from fork_tool.series.contained import known_to, UnusedNames
from fork_tool.series.diffs import FileDiff, parse_diff
from fork_tool.series.from_commits import DIFF_OPTIONS
from fork_tool.series.history import History, read_history
from fork_tool.series.overlay import check_path, list_overlay, problem_of_content, TESTS
from fork_tool.series.part import part_of_stack
from fork_tool.series.patches import Patch, read_patch, SUFFIX, TITLE_MARK
from fork_tool.series.project import Project
from fork_tool.series.scratch import apply_patch, scratch_index
from fork_tool.series.stack import add_overlay, Layer, Stack

APPLIES, FUZZ, CONFLICT, UNREADABLE = "applies", "fuzz", "conflict", "unreadable"
NOT_CHECKED = "not checked"
_KEPT_FILES = {"series", "releases"}
_PYTHON = re.compile(r"\bpython\s+(test/[\w/]+\.py)((?:\s+[A-Z]\w+(?:\.\w+)?)*)")
# Upstream builds one program of each C++ test.
_PROGRAM = re.compile(r"\bbuild/bin/(\w+)")
_SOURCES = ("aten/src/ATen/test/{}.cpp", "aten/src/ATen/test/{}.mm")


@dataclass
class Verdict:
    name: str
    state: str = APPLIES
    hunks: int = 0
    overlay: int = 0
    # The lines that it adds to sources and to tests.
    lines: int = 0
    test_lines: int = 0
    problems: list[str] = field(default_factory=list)
    # The patch whose conflict hides whether this one fits.
    follows: str = ""


@dataclass
class Verification:
    verdicts: list[Verdict] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        return not self.problems and all(verdict.state == APPLIES and not verdict.problems for verdict in self.verdicts)


def verify_series(project: Project) -> Verification:
    """Look at every patch, even after one that is wrong."""
    layout = project.layout
    checkout = project.open_checkout()
    base_modes = _base_modes(checkout.git, checkout.base)
    result = Verification()
    series = project.series()
    claims: Counter[str] = Counter()
    counted: list[Verdict] = []
    uncounted: list[Verdict] = []
    patches: dict[str, Patch] = {}
    for name in series.names:
        verdict = Verdict(name)
        result.verdicts.append(verdict)
        try:
            patch = read_patch(layout.patches, name)
            patch.files()
        except ForkToolError as problem:
            verdict.state = UNREADABLE
            verdict.problems.append(str(problem))
            continue
        (uncounted if patch.counted is None else counted).append(verdict)
        verdict.overlay = len(patch.overlay)
        _check_message(patch, verdict)
        _check_hunks(patch, base_modes, claims, verdict)
        claims.update(patch.overlay)
        claims_hold = _check_claims(patch, base_modes, project, verdict)
        patches[name] = patch if claims_hold else replace(patch, overlay=())
    history = read_history(checkout.git, list(patches.values()), project.overlay_file)
    doubts = _Doubts(history)
    unused = UnusedNames()
    whole = Stack(checkout.base, [])
    with scratch_index(checkout.git, checkout.base) as scratch:
        tree = scratch.text("write-tree")
        for verdict in result.verdicts:
            if verdict.state == UNREADABLE:
                doubts.unreadable = doubts.unreadable or verdict.name
                continue
            patch = patches[verdict.name]
            _check_fit(scratch, patch, verdict, doubts, claims)
            _check_overlay_fit(scratch, patch, history, verdict)
            if verdict.state == APPLIES and not verdict.problems:
                verdict.problems += problems_of_test_plan(scratch, patch)
            before, tree = tree, scratch.text("write-tree")
            commit = checkout.git.commit_tree(project.pin.date, tree, patch.title, (whole.tip,), (AUTHOR, ADDRESS))
            whole.layers.append(Layer(patch, commit))
            changes = parse_diff(scratch.run("diff-tree", "-p", *DIFF_OPTIONS, before, tree).stdout)
            _count_lines(changes, verdict)
            names = unused.of_patch(changes)
            if verdict.state == APPLIES:
                known = known_to(scratch, checkout.base, names)
                verdict.problems += [
                    f"{path} declares {name}, which neither this patch nor an earlier one nor a test uses: leave it to the patch that does."
                    for name, path in names.items()
                    if name not in known
                ]
    if counted:
        for verdict in uncounted:
            verdict.problems.append(
                "its header does not end with the line `Hunks:`, as those of others do, so the file may have been cut: bring it back with git, or `make apply refresh` writes the line."
            )
    _check_files(project, series.names, claims, result)
    if result.good:
        _check_parts(project, checkout.git, whole, result)
    if checkout.unrefreshed:
        result.notes.append(
            f"the branch {BRANCH} in {checkout.shown} holds commits that patches/ does not have; `make refresh` takes them over."
        )
    return result


def _check_parts(project: Project, git: Git, whole: Stack, result: Verification) -> None:
    """Does each patch apply with only those that it needs?"""
    for verdict in result.verdicts:
        try:
            part_of_stack(project, git, whole, verdict.name)
        except ConflictError as problem:
            verdict.problems.append(str(problem))


def _base_modes(git: Git, base: str) -> dict[str, str]:
    modes = {}
    for line in git.names("ls-tree", "-r", "-z", base):
        head, _, path = line.partition("\t")
        modes[path] = head.split(" ", 1)[0]
    return modes


def _check_message(patch: Patch, verdict: Verdict) -> None:
    if not patch.title.startswith(TITLE_MARK) or not patch.title.removeprefix(TITLE_MARK).strip():
        verdict.problems.append(
            f"its title is {patch.title!r}: begin it with {TITLE_MARK.strip()} and say what it does."
        )
    if not patch.body:
        verdict.problems.append("its body is empty: say why it exists, what it does and how it was tested.")
    elif "test plan" not in patch.body.lower():
        verdict.problems.append("its body has no test plan: add a paragraph `Test Plan:` that says how it was tested.")
    if not patch.overlay and not patch.diff:
        verdict.problems.append("it changes nothing: take it out of patches/series.")


def _check_hunks(patch: Patch, base_modes: dict[str, str], claims: Container[str], verdict: Verdict) -> None:
    for file in patch.files():
        verdict.hunks += len(file.hunks)
        for what in file.unfit:
            verdict.problems.append(
                f"{file.path}: the patch {what}; a patch holds only hunks on files that are there, new files go to aten_mps_overlay/."
            )
        if not file.unfit and file.path not in base_modes and file.path not in claims:
            verdict.problems.append(f"{file.path}: neither upstream nor an earlier patch has such a file.")
        for number, hunk in enumerate(file.hunks, start=1):
            if hunk.widest_context > 2 or (hunk.added == 0 and hunk.removed == 0):
                verdict.problems.append(
                    f"{file.path}, hunk {number} ({hunk.header}): more context than git needs; `make apply refresh` trims it."
                )


def _check_claims(patch: Patch, base_modes: dict[str, str], project: Project, verdict: Verdict) -> bool:
    holds = True
    for path, count in Counter(patch.overlay).items():
        try:
            check_path(path, patch.name)
            if count > 1:
                raise ForkToolError(f"It claims the overlay file {path} twice: take one line out.")
            if path in base_modes:
                raise ForkToolError(
                    f"It claims the overlay file {path}, which upstream has: write the change as a hunk."
                )
            file = project.overlay_file(path, patch.name)
            if problem := problem_of_content(file.content):
                verdict.problems.append(f"aten_mps_overlay/{path} {problem}.")
        except ForkToolError as problem:
            verdict.problems.append(str(problem))
            holds = False
    return holds


@dataclass
class _Doubts:
    """What a conflict leaves open: for the patches after it, and on an overlay file for those before it."""

    history: History
    # By file: the patch whose hunks are missing there.
    files: dict[str, str] = field(default_factory=dict)
    unreadable: str = ""

    def about(self, path: str) -> str:
        """The patch that must be fixed before this file can be checked."""
        return self.files.get(path) or self.unreadable


def _check_fit(scratch: Git, patch: Patch, verdict: Verdict, doubts: _Doubts, claims: Container[str]) -> None:
    # File by file, so that one that conflicts hides nothing in the others.
    for file in patch.without(claims).files():
        cause = doubts.about(file.path)
        try:
            offsets = apply_patch(scratch, patch.only([file]))
        except ConflictError as conflict:
            doubts.files.setdefault(file.path, cause or patch.name)
            if not cause:
                _tell_conflict(verdict, str(conflict))
        else:
            if not offsets:
                continue
            if not cause:
                _tell_offsets(verdict, offsets)
        if cause:
            _leave_open(verdict, cause)
    for misfit in doubts.history.misfits:
        if misfit.patch == patch.name and misfit.cause:
            _leave_open(verdict, misfit.cause)
        elif misfit.patch == patch.name:
            _tell_conflict(verdict, misfit.sentence)
    _tell_offsets(verdict, doubts.history.offsets.get(patch.name, []))


def _tell_conflict(verdict: Verdict, sentence: str) -> None:
    verdict.state = CONFLICT
    verdict.problems.append(f"{sentence}.")


def _tell_offsets(verdict: Verdict, offsets: list[str]) -> None:
    if offsets and verdict.state == APPLIES:
        verdict.state = FUZZ
    verdict.problems += [
        f"{offset}; check the new line, then run `make apply refresh` to update the patch." for offset in offsets
    ]


def _leave_open(verdict: Verdict, cause: str) -> None:
    if verdict.state != CONFLICT:
        verdict.state, verdict.follows = NOT_CHECKED, verdict.follows or cause


def _check_overlay_fit(scratch: Git, patch: Patch, history: History, verdict: Verdict) -> None:
    try:
        add_overlay(scratch, patch, history)
    except ForkToolError as problem:
        verdict.problems.append(str(problem))


def _count_lines(changes: list[FileDiff], verdict: Verdict) -> None:
    for file in changes:
        added = sum(hunk.added for hunk in file.hunks)
        if file.path.startswith(TESTS):
            verdict.test_lines += added
        else:
            verdict.lines += added


def _check_files(project: Project, names: list[str], claims: Counter[str], result: Verification) -> None:
    layout = project.layout
    for path in sorted(layout.patches.iterdir()):
        if path.name in _KEPT_FILES or path.name.startswith("."):
            continue
        if path.suffix != SUFFIX:
            result.problems.append(
                f"patches/{path.name} is no patch: patches/ holds `series`, releases/ and {SUFFIX} files only."
            )
        elif path.stem not in names:
            result.problems.append(
                f"patches/{path.name} is not in patches/series: add the line `{path.stem}`, or remove the file."
            )
    for path_in_overlay in list_overlay(layout.overlay):
        if not claims[path_in_overlay]:
            result.problems.append(
                f"aten_mps_overlay/{path_in_overlay} is claimed by no patch: name it below `Overlay:` in the patch it belongs to, or remove it."
            )
    for path_in_overlay, count in sorted(claims.items()):
        owners = [
            verdict.name
            for verdict in result.verdicts
            if verdict.state != UNREADABLE and path_in_overlay in read_patch(layout.patches, verdict.name).overlay
        ]
        if count > 1 and len(owners) > 1:
            result.problems.append(
                f"aten_mps_overlay/{path_in_overlay} is claimed by {' and '.join(owners)}: leave it to one of them."
            )


def problems_of_test_plan(scratch: Git, patch: Patch) -> Iterator[str]:
    """A sentence for each test that the plan names and the index, with this patch and those before it, lacks."""
    plan = patch.body[patch.body.lower().find("test plan") :]
    files = set(scratch.names("ls-files", "-z"))
    for path, cases in _PYTHON.findall(plan):
        if path not in files:
            yield f"its test plan runs {path}, which is not there before a later patch: bring a test of its own."
            continue
        text = scratch.text("show", f":{path}")
        for case in cases.split():
            name = case.partition(".")[0]
            if not re.search(rf"^class {name}\b", text, re.MULTILINE):
                yield f"its test plan runs {name} of {path}, which has no such class."
    for program in _PROGRAM.findall(plan):
        if not files.intersection(source.format(program) for source in _SOURCES):
            yield f"its test plan runs build/bin/{program}, whose source is not there before a later patch."
