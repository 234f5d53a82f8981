"""The commands that start one of the measuring programs on the device, and pass their arguments on to it."""

from __future__ import annotations

import click

from fork_tool.common.program_help import ProgramCommand
from fork_tool.series.project import Project
from fork_tool.suites import runner


@click.command(cls=ProgramCommand, program=("test/programs/demo/run.py",))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_obj
def demo(project: Project, arguments: tuple[str, ...]) -> int:
    """Capture and replay real models, and compare them with eager."""
    return runner.run_demo(project, arguments)


@click.command(cls=ProgramCommand, program=("test/programs/sweep/run.py",))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_obj
def sweep(project: Project, arguments: tuple[str, ...]) -> int:
    """Capture and replay every operator of the OpInfo database."""
    return runner.run_sweep(project, arguments)


@click.command(cls=ProgramCommand, program=("test/properties/orders/run.py",))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_obj
def state(project: Project, arguments: tuple[str, ...]) -> int:
    """Run random programs of captures and replays against eager."""
    return runner.run_state(project, arguments)


@click.command(cls=ProgramCommand, program=("test/programs/benchmark/run.py",))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_obj
def bench(project: Project, arguments: tuple[str, ...]) -> int:
    """Time 100 configurations, eager and replayed."""
    return runner.run_bench(project, arguments)


@click.command(cls=ProgramCommand, program=("test/programs/real_models/run.py",))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_obj
def models(project: Project, arguments: tuple[str, ...]) -> int:
    """Compare captured and compiled library models with eager."""
    return runner.run_models(project, arguments)


@click.command("graph-caching", cls=ProgramCommand, program=("test/programs/graph_caching/run.py",))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_obj
def graph_caching(project: Project, arguments: tuple[str, ...]) -> int:
    """Count hits and misses of the executable cache."""
    return runner.run_graph_caching(project, arguments)


@click.command("fallback-bench", cls=ProgramCommand, program=(runner.FALLBACK_BENCH, "bench"))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_obj
def fallback_bench(project: Project, arguments: tuple[str, ...]) -> int:
    """Measure the cost of operators without an MPS kernel."""
    return runner.run_fallback_bench(project, arguments)


@click.command("fallback-percentage", cls=ProgramCommand, program=(runner.FALLBACK_BENCH, "percentage"))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_obj
def fallback_percentage(project: Project, arguments: tuple[str, ...]) -> int:
    """Report how much of MODULE:FUNCTION falls back to the CPU."""
    return runner.run_fallback_percentage(project, arguments)


@click.command("fallback-sync", cls=ProgramCommand, program=(runner.FALLBACK_BENCH, "sync"))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_obj
def fallback_sync(project: Project, arguments: tuple[str, ...]) -> int:
    """Count operator requests on GitHub again; needs GH_TOKEN."""
    return runner.run_fallback_sync(project, arguments)
