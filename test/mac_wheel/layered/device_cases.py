"""Uses of the device, after each of which nothing of the official backend may have run.

They run on the layered build; test_layered.py starts them:

    .venv/bin/python -m mps_simulator --build build/layered -m pytest test/mac_wheel/layered/device_cases.py
"""

# Much of what is tested here has no types.
# mypy: disable-error-code="no-untyped-call,attr-defined,arg-type,unused-ignore"
from __future__ import annotations

import io
import os
import re
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from layered_device import beyond, names_of, VERSION
from torch.utils import cpp_extension

from mps_simulator import _control

# Which functions a case may reach, by its name.
ALLOWED = {"test_attention": VERSION}


@pytest.fixture(autouse=True)
def _nothing_of_the_official_backend(request: pytest.FixtureRequest) -> Iterator[None]:
    _control.forget_functions_run()
    yield
    torch.mps.synchronize()
    reached = beyond(names_of(_control.functions_run()), *ALLOWED.get(request.node.name, ()))
    assert not reached, f"functions of the official backend ran: {reached}"


def same(function: object, *arguments: torch.Tensor) -> None:
    """Compares a function on the device with the same on the CPU."""
    assert callable(function)
    expected = function(*arguments)
    torch.testing.assert_close(function(*(x.to("mps") for x in arguments)).cpu(), expected, rtol=1e-4, atol=1e-4)


def test_the_patched_backend_is_in_charge() -> None:
    from torch import _mps_graph_loader as loader

    assert loader.in_charge() and loader.reason() == "" and loader.trouble() is None
    assert torch.backends.mps.is_available() and torch.backends.mps.is_built()


def test_every_kernel_is_the_patched_backends() -> None:
    official = []
    names = torch._C._dispatch_get_registrations_for_dispatch_key("MPS")
    assert len(names) > 500
    for name in names:
        for line in torch._C._dispatch_dump(name).splitlines():
            # The first line of a key is the kernel in use; those behind it are marked inactive.
            found = re.match(r"MPS(?![\w\[])(.*?): registered at (\S+?):\d+", line)
            if found and "inactive" not in line and re.search(r"pytorch-base/|layered/official/", found[2]):
                official.append(name)
    assert not official, f"their kernels are the official backend's: {official}"


def test_fallback_is_the_patched_backends() -> None:
    fallbacks = {
        line
        for name in torch._C._dispatch_get_all_op_names()[:400]
        for line in torch._C._dispatch_dump_table(name).splitlines()
        if line.startswith("MPS:") and "[backend fallback]" in line
    }
    assert len(fallbacks) == 1 and "build/pytorch/aten/src/ATen/mps/MPSFallback.mm" in fallbacks.pop(), fallbacks


def test_copies() -> None:
    x = torch.randn(4, 6)
    device = x.to("mps")
    assert torch.equal(device.cpu(), x)
    assert torch.equal(device.t().contiguous().cpu(), x.t())
    assert torch.equal(device.to(torch.float16).cpu(), x.half())
    assert torch.equal(torch.empty(4, 6).copy_(device), x)
    assert torch.equal(device.clone()[:, ::2].cpu(), x[:, ::2])


def test_autograd() -> None:
    x = torch.randn(3, 2, 8, 8)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(2, 4, 3), torch.nn.ReLU(), torch.nn.ConvTranspose2d(4, 2, 3), torch.nn.BatchNorm2d(2)
    )
    expected = x.clone().requires_grad_()
    model(expected).square().sum().backward()
    gradients = [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]
    model.zero_grad()
    on_device = x.to("mps").requires_grad_()
    model.to("mps")(on_device).square().sum().backward()
    assert expected.grad is not None and on_device.grad is not None
    torch.testing.assert_close(on_device.grad.cpu(), expected.grad, rtol=1e-3, atol=1e-3)
    for parameter, gradient in zip(model.parameters(), gradients):
        assert parameter.grad is not None
        torch.testing.assert_close(parameter.grad.cpu(), gradient, rtol=1e-2, atol=1e-2)


def test_stubs() -> None:
    x, y = torch.randn(2, 6).unbind()
    for function in (torch.copysign, torch.nextafter, torch.fmax, torch.fmin):
        same(function, x, y)
    same(lambda a, b: torch.cross(a.reshape(2, 3), b.reshape(2, 3), dim=1), x, y)
    same(lambda a: torch.where(a > 0, a, -a), x)
    same(lambda a: a.unfold(0, 2, 2).sum(1), x)
    same(lambda a: torch.special.i1(a), x)
    same(lambda a: a[torch.tensor([2, 0], device=a.device)], x)
    same(lambda a: (a * 4).int() << 1, x)


def test_lstm() -> None:
    lstm = torch.nn.LSTM(3, 4)
    x = torch.randn(5, 2, 3)
    expected = lstm(x)[0]
    torch.testing.assert_close(lstm.to("mps")(x.to("mps"))[0].cpu(), expected, rtol=1e-4, atol=1e-4)


def test_attention() -> None:
    x = torch.randn(1, 2, 4, 8)
    same(lambda a: F.scaled_dot_product_attention(a, a, a), x)
    same(lambda a: F.scaled_dot_product_attention(a.transpose(1, 2), a.transpose(1, 2), a.transpose(1, 2)), x)


def test_random_numbers_and_generators() -> None:
    torch.manual_seed(3)
    first = torch.rand(4, device="mps")
    torch.manual_seed(3)
    assert torch.equal(torch.rand(4, device="mps"), first)
    for generator in (torch.Generator("mps"), torch.Generator(device=torch.device("mps"))):
        generator.manual_seed(3)
        assert torch.equal(torch.rand(4, device="mps", generator=generator), first)
        state = generator.get_state()
        later = torch.rand(4, device="mps", generator=generator)
        generator.set_state(state)
        assert torch.equal(torch.rand(4, device="mps", generator=generator), later)
    with pytest.raises(RuntimeError):
        torch.Generator("xla")
    assert torch.Generator().device.type == "cpu"
    assert torch.mps.get_rng_state().numel() > 0


def test_generator_in_torchscript() -> None:
    @torch.jit.script
    def draw(device: torch.device) -> torch.Tensor:
        generator = torch.Generator(device=device)
        generator.manual_seed(5)
        return torch.rand([3], generator=generator, device=device)

    generator = torch.Generator("mps").manual_seed(5)
    assert torch.equal(draw(torch.device("mps")), torch.rand(3, device="mps", generator=generator))
    assert torch.equal(draw(torch.device("cpu")), torch.rand(3, generator=torch.Generator().manual_seed(5)))


def test_storages() -> None:
    assert torch.UntypedStorage(16, device="mps").device.type == "mps"
    assert torch.UntypedStorage(16).device.type == "cpu"
    tensor = torch.empty(0, device="mps").set_(torch.UntypedStorage(16, device="mps"), 0, (4,)).float().fill_(2)
    assert tensor.sum().item() == 8
    assert torch.ones(2, device="mps").resize_(64).device.type == "mps"


def test_save_and_load() -> None:
    x = torch.randn(4, 3)
    buffer = io.BytesIO()
    torch.save({"x": x.to("mps"), "cpu": x}, buffer)
    buffer.seek(0)
    loaded = torch.load(buffer)
    assert loaded["x"].device.type == "mps" and torch.equal(loaded["x"].cpu(), x)
    buffer.seek(0)
    assert torch.equal(torch.load(buffer, map_location="cpu")["x"], x)
    buffer.seek(0)
    assert torch.load(buffer, map_location="mps")["cpu"].device.type == "mps"


def test_pinned_memory() -> None:
    x = torch.randn(4)
    assert not x.is_pinned()
    # As 2.6.0 on a Mac, whose backend asks for a CPU's storage and gets the device's.
    with pytest.raises(
        RuntimeError, match='storage of a tensor on device "cpu" to a storage on different device "mps:0"'
    ):
        x.pin_memory()
    with pytest.raises(RuntimeError, match="only dense CPU tensors can be pinned"):
        x.to("mps").pin_memory()
    assert not x.is_pinned("mps")


def test_memory() -> None:
    before = torch.mps.current_allocated_memory()
    x = torch.empty(1 << 20, device="mps")
    assert torch.mps.current_allocated_memory() >= before + x.numel()
    assert torch.mps.driver_allocated_memory() > 0 and torch.mps.recommended_max_memory() > 0
    torch.mps.set_per_process_memory_fraction(1.0)
    del x
    torch.mps.empty_cache()


def test_profilers() -> None:
    with torch.mps.profiler.profile(mode="event"):
        torch.ones(4, device="mps").add_(1)
    with torch.profiler.profile(profile_memory=True) as profile:
        torch.ones(4, device="mps").add_(1)
    assert any(event.key == "aten::add_" for event in profile.key_averages())


def test_kernels_from_python() -> None:
    library = torch.mps._compile_shader if hasattr(torch.mps, "_compile_shader") else torch._C._mps_compileShader
    shader = library("kernel void twice(device float* x, uint i [[thread_position_in_grid]]) { x[i] *= 2; }")
    x = torch.ones(4, device="mps")
    shader.twice(x)
    assert x.sum().item() == 8


def test_refused_operator_has_the_patched_backends_message() -> None:
    with pytest.raises(NotImplementedError, match="not currently implemented|missing kernel"):
        torch.special.airy_ai(torch.ones(2, device="mps"))


def test_operator_that_falls_back() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x = torch.randn(3, 3)
        torch.testing.assert_close(torch.linalg.svd(x.to("mps")).S.cpu(), torch.linalg.svd(x).S)
        y = torch.zeros(2, device="mps")
        graph = torch.mps.MPSGraph()
        with pytest.raises(RuntimeError, match="falls back to the CPU"), torch.mps.graph(graph):
            torch.linalg.svd(y.expand(2, 2))


def test_extension(tmp_path: Path) -> None:
    source = Path(__file__).parent / "extension.mm"
    cpp_extension.load("layered_extension", [str(source)], build_directory=str(tmp_path), is_python_module=False)
    x = torch.full((4,), 3.0, device="mps")
    assert torch.equal(
        torch.ops.layered_extension.fill_by_blit(x).cpu().view(torch.uint8), torch.full((16,), 7, dtype=torch.uint8)
    )


def test_fork() -> None:
    torch.ones(2, device="mps").sum().item()
    child = os.fork()
    if child == 0:
        # The device can't be used here; what stays on the CPU can.
        ok = torch._C._mps_is_in_bad_fork() and torch.ones(2).sum().item() == 2
        os._exit(0 if ok else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert not torch._C._mps_is_in_bad_fork()
