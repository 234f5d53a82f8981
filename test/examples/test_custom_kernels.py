"""The examples of docs/custom-kernels.md do what the page says."""

import gc
import re
import runpy
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch import mps
from torch.utils import cpp_extension

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = (REPOSITORY / "docs" / "custom-kernels.md").read_text()
# The files of the page, by name.
FILES = dict(re.findall(r"<!-- (\S+\.(?:py|mm)) -->\n```[a-z+-]+\n(.*?)```\n", PAGE, re.DOTALL))

Axpy = Callable[[torch.Tensor, torch.Tensor, float], torch.Tensor]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the page's files lie."""
    made = tmp_path_factory.mktemp("custom_kernels")
    for name, text in FILES.items():
        (made / name).write_text(text)
    return made


@pytest.fixture(scope="module")
def extension(folder: Path) -> None:
    """Both operators; building them takes half a minute."""
    sources = [str(path) for path in sorted(folder.glob("*.mm"))]
    cpp_extension.load("custom_kernels", sources, build_directory=str(folder), is_python_module=False)


@pytest.fixture(params=["from_python", "through_the_stream"])
def recorded_axpy(request: pytest.FixtureRequest, folder: Path, extension: None) -> Axpy:
    made = getattr(torch.ops, request.param)
    result: Axpy = (
        made.axpy if request.param != "from_python" else runpy.run_path(str(folder / "from_python.py"))["axpy"]
    )
    return result


@pytest.fixture
def raw_command_buffer(extension: None) -> Axpy:
    return torch.ops.raw_command_buffer.axpy


@pytest.fixture(autouse=True)
def _no_capture_left() -> Iterator[None]:
    yield
    assert not mps.is_current_stream_capturing()


def assert_no_more_than(level: int) -> None:
    """No more memory is allocated, within a while: completion handlers free some after the wait for the GPU."""
    end = time.monotonic() + 5
    while mps.current_allocated_memory() > level and time.monotonic() < end:
        gc.collect()
        mps.synchronize()
    assert mps.current_allocated_memory() <= level


def test_eager(recorded_axpy: Axpy, raw_command_buffer: Axpy) -> None:
    x, y = torch.randn(300), torch.randn(300)
    for axpy in (recorded_axpy, raw_command_buffer) * 3:
        # Kernels of PyTorch's before and after, without a wait between them.
        on_device = y.to("mps")
        result = torch.fmax(axpy(torch.fmax(x.to("mps"), on_device), on_device, 3.0), on_device)
        torch.testing.assert_close(result.cpu(), torch.fmax(3 * torch.fmax(x, y) + y, y))


def test_views_begin_at_their_offset(recorded_axpy: Axpy, raw_command_buffer: Axpy) -> None:
    base = torch.arange(100.0)
    on_device = base.to("mps")
    for axpy in (recorded_axpy, raw_command_buffer):
        result = axpy(on_device[7:17], on_device.view(10, 10)[4], -1.0)
        assert torch.equal(result.cpu(), base[40:50] - base[7:17])


def test_captured(recorded_axpy: Axpy) -> None:
    """3: a kernel that goes through the stream."""
    x, y = torch.randn(2, 50, device="mps"), torch.randn(50, device="mps")
    graph = mps.MPSGraph()
    with mps.graph(graph):
        out = recorded_axpy(x[1], recorded_axpy(y.relu(), y, 2.0), -3.0) + 1
    for _ in range(3):
        x.normal_()
        y.normal_()
        graph.replay()
        eager = recorded_axpy(x[1], recorded_axpy(y.relu(), y, 2.0), -3.0) + 1
        assert torch.equal(out.cpu(), eager.cpu())
        expected = 2 * y.cpu().relu() + y.cpu() - 3 * x.cpu()[1] + 1
        torch.testing.assert_close(out.cpu(), expected)


def test_kernels_from_python_may_go() -> None:
    kernels = mps._compile_shader(
        "kernel void twice(device float* x, uint i [[thread_position_in_grid]]) { x[i] *= 2; }"
    )
    x = torch.ones(5, device="mps")
    graph = mps.MPSGraph()
    with mps.graph(graph):
        kernels.twice(x)
    del kernels
    gc.collect()
    x.fill_(4)
    graph.replay()
    assert torch.equal(x.cpu(), torch.full((5,), 8.0))


def test_moved_storage_raises(recorded_axpy: Axpy) -> None:
    """13: also for tensors that no other operator gets."""
    x, y = torch.ones(9, device="mps"), torch.ones(9, device="mps")
    graph = mps.MPSGraph()
    with mps.graph(graph):
        out = recorded_axpy(x, y, 2.0)
    x.fill_(5)
    graph.replay()
    assert torch.equal(out.cpu(), torch.full((9,), 11.0))
    y.data = torch.zeros(9, device="mps")
    with pytest.raises(RuntimeError, match=r"now has shape \[9\] and another storage of 36 bytes"):
        graph.replay()


def test_function_that_is_no_operator(tmp_path: Path) -> None:
    """3, 13: upstream's own example hands its tensors to the encoder, and to no operator."""
    source = REPOSITORY / "build/pytorch/test/cpp_extensions/mps_extension.mm"
    add = cpp_extension.load("mps_extension", [str(source)], build_directory=str(tmp_path)).get_mps_add_output
    x, y = torch.ones(4, device="mps"), torch.ones(4, device="mps")
    graph = mps.MPSGraph()
    with mps.graph(graph):
        out = add(x, y)
    y.fill_(5)
    graph.replay()
    assert torch.equal(out.cpu(), torch.full((4,), 6.0))
    y.data = torch.full((4,), 9.0, device="mps")
    with pytest.raises(RuntimeError, match=r"the Float tensor of shape \[4\] with a storage of 16 bytes"):
        graph.replay()


@pytest.mark.parametrize("frozen", [False, True])
def test_raw_command_buffer_in_a_capture(raw_command_buffer: Axpy, recorded_axpy: Axpy, frozen: bool) -> None:
    """6: it raises, the capture is dropped, and the next one works."""
    x, y = torch.randn(64, device="mps"), torch.randn(64, device="mps")
    gc.collect()  # tracebacks of earlier tests hold tensors
    mps.synchronize()
    level = mps.current_allocated_memory()
    graph = mps.MPSGraph()
    with pytest.raises(RuntimeError) as raised, mps.graph(graph, freeze_host_reads=frozen):
        before = x * 2
        raw_command_buffer(before, y, 3.0)
    words = str(raised.value).splitlines()[0]
    assert words == quoted_message()
    # nothing is kept, and nothing of it runs
    del before
    raised.value.__traceback__ = None
    del raised
    assert_no_more_than(level)
    with pytest.raises(RuntimeError, match="this graph is empty"):
        graph.replay()
    # eager work and the next capture go on
    torch.testing.assert_close(raw_command_buffer(x, y, 3.0).cpu(), 3 * x.cpu() + y.cpu())
    with mps.graph(graph, freeze_host_reads=frozen):
        out = recorded_axpy(x * 2, y, 3.0)
    x.normal_()
    graph.replay()
    torch.testing.assert_close(out.cpu(), 6 * x.cpu() + y.cpu())


def test_program_runs_as_it_is(folder: Path) -> None:
    out, x, y = runpy.run_path(str(folder / "from_python.py"))["main"]()
    torch.testing.assert_close(out.cpu(), 2 * x.cpu() + y.cpu().relu())


def quoted_message() -> str:
    """What the page says that a capture raises."""
    found = re.search(r"<!-- message -->\n```\n(.*?)\n```", PAGE, re.DOTALL)
    assert found
    return " ".join(found[1].split()).removeprefix("RuntimeError: ")
