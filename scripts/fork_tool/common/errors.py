"""What the user is told when something is wrong: one sentence, never a traceback."""


class ForkToolError(Exception):
    """Something that the user can fix; the message says how."""


class ConflictError(ForkToolError):
    """A patch of the series does not fit the tree it is applied to."""
