"""What is known of every kernel, as C++ text at the end of the translation unit."""

from __future__ import annotations

import re
from typing import NamedTuple

from .declarations import Function, Instantiation
from .source import OPENING, SOURCE_NAME
from .words import ADDRESS_SPACES, BUILT_IN_TYPES, Words

_BUILT_IN_INPUTS = frozenset(
    """
    thread_position_in_grid
    thread_position_in_threadgroup
    thread_index_in_threadgroup
    threadgroup_position_in_grid
    threads_per_grid
    threads_per_threadgroup
    dispatch_threads_per_threadgroup
    threadgroups_per_grid
    grid_origin
    grid_size
    thread_index_in_simdgroup
    simdgroup_index_in_threadgroup
    simdgroups_per_threadgroup
    dispatch_simdgroups_per_threadgroup
    threads_per_simdgroup
    thread_execution_width
    thread_index_in_quadgroup
    quadgroup_index_in_threadgroup
    quadgroups_per_threadgroup
    """.split()
)
_HARMLESS_ATTRIBUTES = frozenset(
    "maybe_unused unused unroll likely unlikely nodiscard deprecated fallthrough noreturn always_inline".split()
)
_COLLECTIVE = re.compile(
    r"""threadgroup_barrier | simdgroup_\w+ | make_\w*simdgroup_matrix | simd_vote
      | (?:simd|quad)_(?: sum | product | min | max | and | or | xor | all | any | prefix_\w+ | shuffle\w*
                        | broadcast\w* | ballot | is_first | active_threads_mask )$""",
    re.VERBOSE,
)


class Parameter(NamedTuple):
    """One parameter of a kernel."""

    name: str
    type_text: str
    words: tuple[str, ...]
    source: str
    slot: str  # the index written in its attribute, -1 without


_NO_ALIAS = " __restrict "


class Kernels(Words):
    """The kernels of a translation unit."""

    cooperative = False  # whether some kernel's threads work together

    def collective_names(self) -> set[str]:
        """Every name through which a barrier or a SIMD-group function may be reached."""
        collective = {
            token.text
            for at, token in enumerate(self.tokens)
            if token.kind == "identifier" and at not in self.in_attribute and _COLLECTIVE.match(token.text)
        }
        if not collective:
            return collective
        changed = True
        while changed:
            changed = False
            for declared, used in self.units:
                if not declared <= collective and used & collective:
                    collective |= declared
                    changed = True
        return collective

    def parameters(self, opening: int, closing: int, complete: bool = True) -> list[Parameter]:
        """The parameters of a kernel between its parentheses; instantiations may leave out the attributes."""
        result: list[Parameter] = []
        first = opening + 1
        at = first
        while at <= closing:
            text = self.word(at)
            if at == closing or text == ",":
                if at > first:
                    result.append(self._parameter(first, at - 1, complete))
                first = at + 1
                at += 1
            elif at in self.attributes:
                at = self.attributes[at][0] + 1
            elif text == "<":
                at = self.after_angles(at)
            elif text in OPENING:
                at = self.after_pair(at)
            else:
                at += 1
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
        return Parameter(name, type_text, words, source, index)

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

    def registrations(self) -> str:
        """The text that describes all kernels to the loader."""
        collective = self.collective_names()
        everything = "*" in collective
        parts: list[str] = []
        records: list[str] = []

        def add(
            host_name: str,
            expression: str,
            scope: tuple[str, ...],
            function: Function,
            parameters: list[Parameter],
            line: int,
            extra_names: set[str],
        ) -> None:
            number = len(records)
            has_variables = function.body is not None and any(
                self.edits.get(at, "").startswith("static ") and self.word(at) == "threadgroup"
                for at in range(*function.body)
            )
            # Threadgroup memory makes threads of one threadgroup depend on each other, too.
            cooperative = (
                everything
                or has_variables
                or any(p.source == "threadgroup_memory" for p in parameters)
                or bool((self.identifiers(function.first, function.last) | extra_names) & collective)
            )
            self.cooperative = self.cooperative or cooperative
            sources = "".join(
                f", mps_simulator_shader::Parameter<mps_simulator_shader::Source::{p.source}, {p.slot}>"
                for p in parameters
            )
            names = "".join(f'"{p.name}", ' for p in parameters) + '""'
            prefix = f"mps_simulator_{number}_"
            variables = f"reinterpret_cast<const void*>({expression})" if has_variables else "nullptr"
            body = (
                f"static constexpr const char* {prefix}names[] = {{{names}}}; "
                f"using {prefix}kernel = mps_simulator_shader::Kernel<{expression}{sources}>; "
                f"static constexpr auto {prefix}arguments = {prefix}kernel::arguments({prefix}names); "
                f"static const mps_simulator_shader::abi::Kernel {prefix}record = {prefix}kernel::record<{str(cooperative).lower()}>("
                f'"{host_name}", {prefix}arguments, {function.max_threads}, {variables});'
            )
            opened = "".join(f"namespace {name} {{ " for name in scope)
            parts.append(f'# {line} "{SOURCE_NAME}"\n{opened}{body}{" }" * len(scope)}\n')
            records.append("::".join(("", *scope, f"{prefix}record")))

        entries: list[Function | Instantiation] = [*self.functions, *self.instantiations]
        for entry in sorted(entries, key=lambda item: item.first):
            line = self.tokens[entry.first].line
            if isinstance(entry, Function):
                if not entry.is_kernel or entry.is_template or entry.body is None:
                    continue
                parameters = self.parameters(entry.opening, entry.closing)
                cast = f"void (*)({', '.join(p.type_text for p in parameters)})"
                line = self.tokens[entry.opening].line
                add(entry.host_name, f"static_cast<{cast}>(&{entry.name})", entry.scope, entry, parameters, line, set())
                continue
            function = self.primary(entry)
            parameters = self.parameters(function.opening, function.closing)
            expression = f"&{entry.written_name}"
            if entry.parameters is not None:
                own = self.parameters(*entry.parameters, complete=False)
                cast = f"void (*)({', '.join(p.type_text for p in own)})"
                expression = f"static_cast<{cast}>({expression})"
            used = self.identifiers(entry.first, entry.last)
            add(entry.host_name, expression, entry.scope, function, parameters, line, used)

        count = len(records)
        table = "nullptr"
        parts.append('# 1 "<simulator>"\n')
        if records:
            parts.append(
                f"static const mps_simulator_shader::abi::Kernel mps_simulator_table[] = {{{', '.join(records)}}};\n"
            )
            table = "mps_simulator_table"
        parts.append(
            'extern "C" __attribute__((visibility("default"))) mps_simulator_shader::abi::Library '
            f"mps_simulator_shader_library = {{mps_simulator_shader::abi::kVersion, {count}, {table}, "
            "&mps_simulator_shader_runtime};\n"
        )
        return "".join(parts)
