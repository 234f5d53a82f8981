"""A group of commands whose help lists them under headings."""

from __future__ import annotations

from collections.abc import Iterable

import click


class SectionedGroup(click.Group):
    """Commands are added a section at a time, and shown in that order."""

    def __init__(self, *arguments: object, **options: object):
        super().__init__(*arguments, **options)  # type: ignore[arg-type]
        self.sections: dict[str, list[str]] = {}

    def add_section(self, title: str, commands: Iterable[click.Command]) -> None:
        """Add commands under a heading."""
        names = self.sections.setdefault(title, [])
        for command in commands:
            self.add_command(command)
            names.append(str(command.name))

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names, in the order of the sections."""
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write one list per section, with each command's whole summary."""
        # One width for all lists aligns their second columns.
        width = max(len(name) for name in self.commands)
        for title, names in self.sections.items():
            with formatter.section(title):
                # click's own short help ends long sentences with "...".
                formatter.write_dl([(name.ljust(width), _summary(self.commands[name])) for name in names])


def _summary(command: click.Command) -> str:
    return " ".join((command.help or "").partition("\n\n")[0].split())
