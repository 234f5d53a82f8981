"""scripts/README.md lists the commands as the tool's own help has them."""

from __future__ import annotations

import click
import pytest

from command_table import BEGIN, END, PAGE, table, with_table
from fork_tool.cli import cli


def test_page_is_what_the_tool_says() -> None:
    page = PAGE.read_text("utf-8")
    assert page == with_table(page, cli), "run `.venv/bin/python test/tools/fork_tool/command_table.py`"


def test_every_command_and_option_is_listed() -> None:
    rows = {row.split("`")[1]: row for row in table(cli).splitlines()[2:]}
    assert list(rows) == list(cli.commands)
    # An option without help would be a name and nothing else.
    assert not [row for row in rows.values() if "`: ." in row]
    assert "--sanitizer [address\\|thread]" in rows["test-sanitized"]
    for name, command in cli.commands.items():
        options = [parameter.opts[0] for parameter in command.params if isinstance(parameter, click.Option)]
        assert all(f"`{option}" in rows[name] for option in options), name


@pytest.mark.parametrize("change", ["a command more", "a command less", "another help", "an option more"])
def test_a_stale_page_is_seen(change: str) -> None:
    page = PAGE.read_text("utf-8")
    group = click.Group(commands=dict(cli.commands))
    if change == "a command less":
        del group.commands["verify"]
    else:
        name = "planted" if change == "a command more" else "verify"
        options = [click.Option(["--planted"], help="Planted.")] if change == "an option more" else []
        known = cli.commands["verify"].help if change == "an option more" else "Does what was planted."
        group.commands[name] = click.Command(name, help=known, params=list(options))
    assert with_table(page, group) != page


def test_a_page_without_a_place_is_an_error() -> None:
    with pytest.raises(ValueError, match="no place for the table"):
        with_table(f"{BEGIN}and no end", cli)
    with pytest.raises(ValueError, match="no place for the table"):
        with_table(f"{END}and no beginning", cli)
