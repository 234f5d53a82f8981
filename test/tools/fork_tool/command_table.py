"""Writes the table of commands in scripts/README.md from the tool's own help: `.venv/bin/python test/tools/fork_tool/command_table.py`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "scripts" / "README.md"
BEGIN = "<!-- The table is written by `.venv/bin/python test/tools/fork_tool/command_table.py`. -->\n"
END = "<!-- The table's end. -->\n"


def table(group: click.Group) -> str:
    """All commands with their options, in the order in which the tool defines them."""
    lines = ["| command | what it does | options |", "|---|---|---|"]
    for name, command in group.commands.items():
        context = click.Context(command, info_name=name)
        own = [parameter for parameter in command.params if isinstance(parameter, click.Option)]
        records = [option.get_help_record(context) for option in own]
        options = " ".join(f"`{option}`: {_sentence(said)}" for option, said in filter(None, records))
        lines.append(f"| `{name}` | {_cell(_sentence(command.help or ''))} | {_cell(options)} |")
    return "\n".join(lines) + "\n"


def with_table(page: str, group: click.Group) -> str:
    """The page with the table as it is now."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"The page has no place for the table: the lines {BEGIN!r} and {END!r}.")
    return before + begin + "\n" + table(group) + "\n" + end + after


def _sentence(text: str) -> str:
    text = " ".join(text.split()).replace("  ", " ")
    return text if text.endswith((".", "]")) else f"{text}."


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "scripts"))
    from fork_tool.cli import cli

    PAGE.write_text(with_table(PAGE.read_text("utf-8"), cli), "utf-8")
