"""The errors that a program may end with: each names its cause."""

from __future__ import annotations

import re

# What a message must say, with the contract's rule that lets it raise.
CAUSES = (
    # 40: activations and results that a later call has overwritten
    r"the activations of this call were overwritten before its backward pass",
    r"was used after a later call, which has overwritten it",
    # 41: not what was captured
    r"make_graphed_callables: the callable was captured with .* and is called with",
    r"requires gradients, and its sample did not",
    # 42: autograd
    r"was written to between the forward and the backward pass",
    r"has been modified by an inplace operation",
    r"the backward pass of a graphed callable can't be differentiated",
    r"does not currently support double backward",
)
_ANY = re.compile("|".join(f"(?:{cause})" for cause in CAUSES), re.DOTALL)


def names_a_cause(error: BaseException) -> bool:
    return isinstance(error, (RuntimeError, TypeError)) and _ANY.search(str(error)) is not None
