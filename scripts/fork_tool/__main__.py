"""`python -m fork_tool`."""

from fork_tool.cli import main

main()
