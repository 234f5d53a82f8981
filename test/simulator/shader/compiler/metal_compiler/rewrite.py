"""Turns preprocessed Metal source into C++ that clang compiles on top of the simulator's Metal library.

Nothing is moved: what C++ does not know is blanked out or replaced by words of the same length, so that the
compiler's messages name the user's lines and columns. What was blanked out (attributes, explicit instantiations of
kernels) comes back as a list of kernel registrations at the end of the text.
"""

from __future__ import annotations

from typing import NamedTuple

from .kernels import Kernels


class Rewriter(Kernels):
    """All steps, in their order."""

    def rewritten(self) -> str:
        """The C++ text."""
        self.collect_attributes()
        self.parse_scope(0, len(self.tokens), (), False)
        self.rewrite_words()
        self.drop_duplicates()
        tail = self.registrations()
        pieces: list[str] = []
        position = 0
        for at in sorted(self.edits):
            token = self.tokens[at]
            pieces.append(self.text[position : token.start])
            pieces.append(self.edits[at])
            position = token.end
        pieces.append(self.text[position:])
        return "".join(pieces) + "\n" + tail


class Rewritten(NamedTuple):
    """C++ text, and where its columns differ from the user's."""

    text: str
    insertions: dict[int, list[int]]
    cooperative: bool  # some kernel's threads work together

    def column(self, line: int, column: int) -> int:
        """The user's column for one that the compiler names."""
        for inserted in sorted(self.insertions.get(line, [])):
            if column > inserted:
                column -= 1
        return column


def rewrite(text: str, version: int) -> Rewritten:
    """Metal source, preprocessed, as C++."""
    rewriter = Rewriter(text, version)
    result = rewriter.rewritten()
    return Rewritten(result, rewriter.insertions, rewriter.cooperative)
