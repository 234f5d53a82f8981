"""The errors that a program may end with: each names its cause."""

import re

# What a message must say, with the contract's rule that lets it raise.
CAUSES = (
    # 11, 13, 32, 33: a tensor, a number on the host, or a generator is not that of the capture
    r"torch\.mps graph replay: the (storage of a |\.grad of the )?\w+ (CPU )?tensor of shape",
    r"torch\.mps graph capture: the block changed the \w+ tensor of shape",
    r"If it is a graph of torch\.mps, drop or",
    r"torch\.compile\(backend='mpsgraphs'\): .* was traced with a parameter or buffer of shape",
    r"torch\.mps graph replay: a generator that the block drew from is gone",
    # of torch: a thread calls a compiled function while another one traces
    r"using FX to symbolically trace a dynamo-optimized function",
    # 35: optimizers
    r"torch\.mps graph replay: (param_groups\[\d+\]\['\w+'\] of|the state of) \w+ was",
    r"torch\.mps graph replay: \w+ got other parameters",
    r"torch\.mps graph replay: \w+\.step\(\) was captured without the backward pass of",
    r"torch\.mps graph capture: \w+\.step\(\) (counts its steps on the host|made its state)",
    # 4, 5, 36, 43: what a replay could not repeat
    r"torch\.mps graph capture: .*([Ee]vent|[Ss]tream|host read|on the CPU|generator)",
    # 43: torch.where converts a CPU number of another dtype on the CPU
    r"torch\.mps graph capture: aten::where computed a CPU tensor",
    # 40: activations and results that a later call has overwritten
    r"the activations of this call were overwritten before its backward pass",
    r"was used after a later call, which has overwritten it",
    # 41: not what was captured
    r"requires gradients, and its sample did not",
    r"make_graphed_callables: the \w+ has hooks, which replays would not run",
    # 42: autograd
    r"was written to between the forward and the backward pass",
    r"has been modified by an inplace operation",
    r"the backward pass of a graphed callable can't be differentiated",
    r"does not currently support double backward",
)
_ANY = re.compile("|".join(f"(?:{cause})" for cause in CAUSES), re.DOTALL)


def names_a_cause(error: BaseException) -> bool:
    return isinstance(error, (RuntimeError, TypeError)) and _ANY.search(str(error)) is not None
