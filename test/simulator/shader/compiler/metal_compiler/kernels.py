"""What is known of every kernel, as C++ text at the end of the translation unit."""

from __future__ import annotations

import itertools
import re
import string
from typing import NamedTuple

from .declarations import Function, Instantiation
from .source import SOURCE_NAME
from .words import ADDRESS_SPACES, BUILT_IN_TYPES, Words

_BUILT_IN_INPUTS = frozenset(
    "thread_position_in_grid thread_position_in_threadgroup thread_index_in_threadgroup threadgroup_position_in_grid"
    " threads_per_grid threads_per_threadgroup thread_index_in_simdgroup simdgroup_index_in_threadgroup".split()
)
_HARMLESS_ATTRIBUTES = frozenset(
    "maybe_unused unused unroll likely unlikely nodiscard deprecated fallthrough noreturn always_inline".split()
)
_COLLECTIVE = re.compile(
    r"threadgroup_barrier|simdgroup_\w+|make_\w*simdgroup_matrix|simd_(?:sum|product|min|max|shuffle\w*|broadcast)$"
)


# One line, so that the compiler's messages about a kernel name the line of the user's that the marker in front states.
_RECORD = " ".join(
    """
    static constexpr const char* mps_simulator_$number_names[] = {$names""};
    using mps_simulator_$number_kernel = mps_simulator_shader::Kernel<$expression$sources>;
    static constexpr auto mps_simulator_$number_arguments =
        mps_simulator_$number_kernel::arguments(mps_simulator_$number_names);
    static const mps_simulator_shader::abi::Kernel mps_simulator_$number_record =
        mps_simulator_$number_kernel::record<$cooperative>(
            "$host_name", mps_simulator_$number_arguments, $max_threads, $variables);
    """.replace("$number", "${number}").split()
)
_LIBRARY = """# 1 "<simulator>"
$table
extern "C" __attribute__((visibility("default"))) mps_simulator_shader::abi::Library mps_simulator_shader_library =
    {mps_simulator_shader::abi::kVersion, $count, $records, &mps_simulator_shader_runtime};
"""
_NO_ALIAS = " __restrict "


class Parameter(NamedTuple):
    """One parameter of a kernel."""

    name: str
    type_text: str
    words: tuple[str, ...]
    source: str
    slot: str  # the index written in its attribute, -1 without
    constant: bool  # in that address space


def _cast(parameters: list[Parameter], expression: str) -> str:
    """The expression as a function with these parameters, which chooses one of several of the name."""
    return f"static_cast<void (*)({', '.join(p.type_text for p in parameters)})>({expression})"


class Kernels(Words):
    """The kernels of a translation unit."""

    cooperative = False  # whether some kernel's threads work together
    collective: set[str] = set()  # the names of `collective_names`

    def collective_names(self) -> set[str]:
        """Every name through which a barrier or a SIMD-group function may be reached."""
        collective = {
            token.text
            for at, token in enumerate(self.tokens)
            if token.kind == "identifier" and at not in self.in_attribute and _COLLECTIVE.match(token.text)
        }
        size = -1
        while len(collective) > max(size, 0):
            size = len(collective)
            for declared, used in self.units:
                if used & collective:
                    collective |= declared
        return collective

    def parameters(self, opening: int, closing: int, complete: bool = True) -> list[Parameter]:
        """The parameters of a kernel between its parentheses; instantiations may leave out the attributes."""
        commas = [at for at in self.outside(opening + 1, closing) if self.word(at) == ","]
        places = itertools.pairwise([opening, *commas, closing])
        result = [self._parameter(before + 1, after - 1, complete) for before, after in places if after > before + 1]
        if len(result) == 1 and result[0].type_text == "void":
            return []
        return result

    def _parameter(self, first: int, last: int, complete: bool) -> Parameter:
        plain = [at for at in range(first, last + 1) if at not in self.in_attribute]
        words = tuple(self.word(at) for at in plain)
        outside: list[str] = []
        star = -1
        at = first
        while at <= last:
            if at in self.attributes:
                at = self.attributes[at][0] + 1
            elif self.word(at) == "<":
                at = self.after_angles(at)
            else:
                outside.append(self.word(at))
                star = at if self.word(at) == "*" else star
                at += 1
        name = outside[-1] if len(outside) > 1 and re.fullmatch(r"[A-Za-z_]\w*", outside[-1]) else ""
        if name in BUILT_IN_TYPES:
            name = ""
        source = "none"
        index = "-1"
        for attribute in self.attributes_between(first, last):
            if attribute.name in ("buffer", "threadgroup"):
                source = "buffer" if attribute.name == "buffer" else "threadgroup_memory"
                index = f"({attribute.argument})"
            elif attribute.name in _BUILT_IN_INPUTS:
                source = attribute.name
            elif attribute.name not in _HARMLESS_ATTRIBUTES:
                raise self.fail(
                    attribute.token, f"the simulator does not support the attribute '{attribute.name}' on a parameter"
                )
        if source == "none" and ("*" in outside or "&" in outside):
            if "threadgroup" in outside:
                source = "threadgroup_memory"
            elif "device" in outside or "constant" in outside:
                source = "buffer"
        if complete and source == "none" and "*" not in outside and "&" not in outside and words != ("void",):
            raise self.fail(
                self.tokens[first],
                f"the parameter '{name or ' '.join(words)}' of a kernel needs an attribute such as "
                "[[thread_position_in_grid]], or must be a pointer or reference to device, constant or threadgroup "
                "memory",
            )
        if source == "buffer" and star >= 0:
            self._forbid_aliases(star)
        type_text = " ".join(
            "const" if word == "constant" else word
            for word in words
            if word not in ADDRESS_SPACES or word == "constant"
        )
        return Parameter(name, type_text, words, source, index, "constant" in outside)

    def _forbid_aliases(self, star: int) -> None:
        """Lets the compiler take the buffers of a kernel for distinct, as Metal's compiler does.

        Kernels that run in place rely on it: one that stores a real part and reads the imaginary part of the same
        element afterwards must have read both before.
        """
        if star in self.edits:
            return
        token = self.tokens[star]
        self.edits[star] = "*" + _NO_ALIAS
        self.insertions.setdefault(token.line, []).extend([token.column + 1] * len(_NO_ALIAS))

    def primary(self, instantiation: Instantiation) -> Function:
        """The template that an instantiation is of."""
        candidates = [
            function for function in self.functions if function.is_kernel and function.name == instantiation.name
        ]
        if instantiation.parameters is not None:
            wanted = self.parameters(*instantiation.parameters, complete=False)
            fitting = [f for f in candidates if len(self.parameters(f.opening, f.closing)) == len(wanted)]

            def likeness(function: Function) -> int:
                own = self.parameters(function.opening, function.closing)
                return sum(len(set(a.words) & set(b.words)) for a, b in zip(own, wanted))

            candidates = sorted(fitting, key=likeness, reverse=True)
        if not candidates:
            raise self.fail(
                self.tokens[instantiation.first],
                f"explicit instantiation of '{instantiation.name}' does not refer to a kernel template",
            )
        return candidates[0]

    def _is_cooperative(self, function: Function, parameters: list[Parameter], names: set[str]) -> bool:
        """Whether a kernel's threads depend on each other: through threadgroup memory, or a name that leads to a barrier."""
        return (
            "*" in self.collective
            or self._has_variables(function)
            or any(p.source == "threadgroup_memory" for p in parameters)
            or bool((self.identifiers(function.first, function.last) | names) & self.collective)
        )

    def _has_variables(self, function: Function) -> bool:
        """Whether a function has variables in threadgroup memory."""
        return function.body is not None and any(
            self.word(at) == "threadgroup" and self.edits.get(at, "").startswith("static ")
            for at in range(*function.body)
        )

    def _registration(self, entry: Function | Instantiation, number: int) -> str:
        """The text that describes a kernel; nothing for what is none."""
        line = self.tokens[entry.first].line
        names: set[str] = set()
        if isinstance(entry, Function):
            if not entry.is_kernel or entry.is_template or entry.body is None:
                return ""
            function = entry
            line = self.tokens[entry.opening].line
            parameters = self.parameters(entry.opening, entry.closing)
            expression = _cast(parameters, f"&{entry.name}")
        else:
            function = self.primary(entry)
            parameters = self.parameters(function.opening, function.closing)
            expression = f"&{entry.written_name}"
            if entry.parameters is not None:
                expression = _cast(self.parameters(*entry.parameters, complete=False), expression)
            names = self.identifiers(entry.first, entry.last)
        cooperative = self._is_cooperative(function, parameters, names)
        self.cooperative = self.cooperative or cooperative
        record = string.Template(_RECORD).substitute(
            number=number,
            names="".join(f'"{p.name}", ' for p in parameters),
            expression=expression,
            sources="".join(
                f", mps_simulator_shader::Parameter<mps_simulator_shader::Source::{p.source}, {p.slot}, "
                f"{str(p.constant).lower()}>"
                for p in parameters
            ),
            cooperative=str(cooperative).lower(),
            host_name=entry.host_name,
            max_threads=function.max_threads,
            variables=f"reinterpret_cast<const void*>({expression})" if self._has_variables(function) else "nullptr",
        )
        opened = "".join(f"namespace {name} {{ " for name in entry.scope)
        return f'# {line} "{SOURCE_NAME}"\n{opened}{record}{" }" * len(entry.scope)}\n'

    def registrations(self) -> str:
        """The text that describes all kernels to the loader."""
        self.collective = self.collective_names()
        texts: list[str] = []
        records: list[str] = []
        entries: list[Function | Instantiation] = [*self.functions, *self.instantiations]
        for entry in sorted(entries, key=lambda item: item.first):
            number = len(records)
            if text := self._registration(entry, number):
                texts.append(text)
                records.append("::".join(("", *entry.scope, f"mps_simulator_{number}_record")))
        table = f"static const mps_simulator_shader::abi::Kernel mps_simulator_table[] = {{{', '.join(records)}}};"
        end = string.Template(_LIBRARY).substitute(
            table=table if records else "",
            count=len(records),
            records="mps_simulator_table" if records else "nullptr",
        )
        return "".join(texts) + end
