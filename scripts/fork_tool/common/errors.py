"""What the user is told when something is wrong: one sentence, never a traceback."""

from __future__ import annotations


class ForkToolError(Exception):
    """A mistake or a lack that the user can mend; the message says how."""


class ConflictError(ForkToolError):
    """An entry of the series does not fit the tree it is applied to."""
