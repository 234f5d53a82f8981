r"""What a graphed callable asks of a module."""

from typing import Any, Dict, Sequence, Tuple

import torch
from torch.nn.modules import module as _nn_module


# Dicts of a module. A replay calls none of the hooks.
_CONTENTS = ("_parameters", "_buffers", "_modules")
_HOOKS = (
    "_forward_hooks",
    "_forward_pre_hooks",
    "_backward_hooks",
    "_backward_pre_hooks",
)


def state_of(module: torch.nn.Module) -> Tuple[Any, ...]:
    """Dicts of a module with what a replay takes for granted in them, for ``torch._C._mps_areUnchanged()``."""

    def entry(dictionary: Dict[str, Any], names: Sequence[str], is_all: bool) -> Any:
        return (
            dictionary,
            tuple(names),
            tuple(dictionary.get(name) for name in names),
            is_all,
        )

    # the global hooks of all modules; one that is registered already is not called either
    entries = [entry(getattr(_nn_module, "_global" + h), (), True) for h in _HOOKS]
    for m in module.modules():
        attributes = vars(m)
        # such as modes, and the probability of a dropout
        names = ["forward", *(k for k in attributes if k[0] != "_")]
        entries.append(entry(attributes, names, False))
        entries += [entry(attributes[c], list(attributes[c]), True) for c in _CONTENTS]
        if m is not module:  # whose own hooks are called
            entries += [entry(attributes[hooks], (), True) for hooks in _HOOKS]
    return tuple(entries)


def check_module(module: torch.nn.Module) -> None:
    for m in module.modules():
        if any(vars(m)[hooks] for hooks in _HOOKS):
            raise RuntimeError(
                f"make_graphed_callables: the {type(m).__name__} has hooks, which replays would not "
                "run. Remove them, or run the module eagerly."
            )
    for name, buffer in module.named_buffers():
        if buffer.requires_grad:
            raise RuntimeError(
                f"make_graphed_callables: the buffer {name!r} requires gradients. Make it a parameter."
            )
    for name, parameter in module.named_parameters():
        if parameter._backward_hooks:
            raise RuntimeError(
                f"make_graphed_callables: the parameter {name!r} has hooks, which the capture would "
                "run. Add hooks after make_graphed_callables() returns."
            )
        if parameter.device.type != "mps":
            raise RuntimeError(
                f"make_graphed_callables: the parameter {name!r} is on {parameter.device}, not on the MPS device"
            )
    for name, tensor in (*module.named_parameters(), *module.named_buffers()):
        check_plain(tensor, f"{name!r} of the module")
        if tensor.is_inference():
            raise RuntimeError(
                f"make_graphed_callables: {name!r} of the module was created under torch.inference_mode(), so autograd "
                "can't use it. Create the module outside of that mode."
            )


def check_plain(tensor: torch.Tensor, name: str) -> None:
    if torch._C._dispatch_keys(tensor).has(torch._C.DispatchKey.Python):
        raise TypeError(
            f"make_graphed_callables: {name} is of a subclass with __torch_dispatch__, {type(tensor).__name__}, which "
            "has no memory of its own that a replay could read. Pass the tensors that it holds."
        )


def name_of(function: Any) -> str:
    return getattr(function, "__qualname__", type(function).__name__)


def describe(value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return f"a {type(value).__name__}"
    kind = "tensor"
    if type(value) not in (torch.Tensor, torch.nn.Parameter):
        kind = type(value).__name__
    return f"a {value.dtype} {kind} of shape {list(value.shape)} on {value.device.type}"
