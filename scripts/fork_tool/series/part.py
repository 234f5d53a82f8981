"""A part of the series on its own: a group, or one patch, with all that it needs and nothing else."""

from collections.abc import Callable

from fork_tool.base.pin import Pin
from fork_tool.common.errors import ConflictError
from fork_tool.common.git import ADDRESS, AUTHOR, Git
from fork_tool.series.merge import merge_patch
from fork_tool.series.patches import Patch
from fork_tool.series.project import Project
from fork_tool.series.stack import Layer, Stack


def part_of_stack(
    project: Project,
    git: Git,
    whole: Stack,
    what: str,
    message: Callable[[Patch], str] = Patch.message,
    author: tuple[str, str] = (AUTHOR, ADDRESS),
) -> Stack:
    """The part as commits on the whole's base, each merged without the patches that it does not need."""
    names = project.series().part(what)
    part = Stack(whole.base, [])
    before = whole.base
    for layer in whole.layers:
        if layer.patch.name in names and part.tip == before:
            part.layers.append(layer)
        elif layer.patch.name in names:
            tree = _merged(git, project.pin, before, layer, part.tip)
            commit = git.commit_tree(project.pin.date, tree, message(layer.patch), (part.tip,), author)
            part.layers.append(Layer(layer.patch, commit))
        before = layer.commit
    return part


def _merged(git: Git, pin: Pin, before: str, layer: Layer, onto: str) -> str:
    """The tree of a patch on another commit than the one before it."""
    merge = merge_patch(git, pin, before, layer.commit, onto, layer.patch.files())
    if merge.clashes:
        clash = merge.clashes[0]
        raise ConflictError(
            f"Patch {layer.patch.name} does not apply without patches that patches/series does not name as its needs: "
            f"{clash.path}{f', {clash.hunk}' if clash.hunk else ''} {clash.sentence}".rstrip()
        )
    return merge.tree
