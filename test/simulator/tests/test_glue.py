"""Tests of what the wheel was compiled without, and of what upstream does with it.

glue/README.md lists the former. Where a Mac with 2.6.0 raises, so must this.
"""

# Much of what is tested here has no types.
# mypy: disable-error-code="no-untyped-call,attr-defined,arg-type,unused-ignore"
from __future__ import annotations

import io
import re
import warnings
from functools import partial
from pathlib import Path
from typing import Any, TYPE_CHECKING

import pytest
import torch
import torch.nn.functional as F
from test_package import run
from torch.utils._python_dispatch import TorchDispatchMode

import mps_simulator
from mps_simulator._build import read_build

if TYPE_CHECKING:
    from collections.abc import Callable

SIMULATOR = Path(__file__).resolve().parents[1]


class _Operators(TorchDispatchMode):
    """Notes the operators that reach the device, below autograd."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(function.overloadpacket.__name__)
        return function(*args, **(kwargs or {}))


def operators(function: Callable[[], object]) -> list[str]:
    recorded = _Operators()
    with recorded:
        function()
    return recorded.names


# The table of glue/README.md.


def table() -> list[list[str]]:
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in (SIMULATOR / "glue/README.md").read_text().splitlines()
        if line.startswith("| `")
    ]
    assert rows
    return rows


def test_table_lists_every_place() -> None:
    checkout = read_build().checkout
    own = re.compile(r"aten/src/ATen/(native/)?mps/|aten/src/ATen/test/|torch/csrc/mps/")
    condition = re.compile(r"^\s*#\s*(if|ifdef|elif)\b.*\bUSE_MPS\b", re.MULTILINE)
    found = {}
    for top in ("aten/src", "c10", "torch/csrc"):
        for pattern in ("*.cpp", "*.h", "*.mm", "*.inc"):
            for path in (checkout / top).rglob(pattern):
                name = path.relative_to(checkout).as_posix()
                places = len(condition.findall(path.read_text(errors="replace")))
                if places and not own.match(name):
                    found[name] = places
    assert {row[0].strip("`"): int(row[1]) for row in table()} == found


def test_table_names_tests_that_exist() -> None:
    source = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    for row in table():
        tests = re.findall(r"`(test_\w+)`", row[4])
        assert tests
        for name in tests:
            assert f"def {name}(" in source, name


# Each row of it.


def test_stubs_find_their_kernels() -> None:
    x, y = torch.randn(2, 16)
    for function in (torch.copysign, torch.nextafter, torch.fmax, torch.fmin):
        assert torch.equal(function(x.to("mps"), y.to("mps")).cpu(), function(x, y))
    # A stub for which the backend registers nothing.
    with pytest.raises(RuntimeError, match="missing kernel for mps|not implemented|not currently implemented"):
        torch.ops.aten.special_airy_ai(x.to("mps"))


def test_convolution_is_chosen_by_name() -> None:
    def choice(device: str, transposed: bool) -> str:
        x, weight = torch.randn(1, 2, 5, 5, device=device), torch.randn(2, 2, 3, 3, device=device)
        select = torch._C._select_conv_backend
        return str(select(x, weight, None, (1, 1), (0, 0), (1, 1), transposed, (0, 0), 1)).rstrip(",")

    assert choice("mps", False) == "_ConvBackend.Mps"
    assert choice("mps", True) == "_ConvBackend.MpsTranspose"
    assert choice("cpu", False) not in ("_ConvBackend.Mps", "_ConvBackend.Overrideable")


def test_convolution_checks_types() -> None:
    x, weight = torch.randn(1, 2, 5, 5, device="mps"), torch.randn(2, 2, 3, 3, device="mps").half()
    for function in (F.conv2d, F.conv_transpose2d):
        with pytest.raises(RuntimeError, match=r"Input type \(MPSFloatType\) and weight type \(MPSHalfType\)"):
            function(x, weight)


FUSED = "_scaled_dot_product_attention_math_for_mps"


def test_attention_is_fused_where_upstream_fuses_it() -> None:
    attention: Any = F.scaled_dot_product_attention
    q, k, v = torch.randn(3, 1, 2, 4, 8)
    on_device = [x.to("mps") for x in (q, k, v)]
    mask = torch.rand(4, 4) > 0.3
    mask[:, 0] = True
    assert FUSED in operators(lambda: attention(*on_device, attn_mask=mask.to("mps")))
    for is_causal in (False, True):
        assert FUSED in operators(lambda causal=is_causal: attention(*on_device, is_causal=causal))  # type: ignore[misc]
        torch.testing.assert_close(
            attention(*on_device, is_causal=is_causal).cpu(), attention(q, k, v, is_causal=is_causal)
        )
    torch.testing.assert_close(
        attention(*on_device, attn_mask=mask.to("mps")).cpu(), attention(q, k, v, attn_mask=mask)
    )
    learned = on_device[0].clone().requires_grad_()
    with torch.no_grad():
        assert FUSED in operators(lambda: attention(learned, *on_device[1:]))
    # What is differentiated or dropped out is not, nor is the operator by its name.
    assert FUSED not in operators(lambda: attention(learned, *on_device[1:]))
    assert FUSED not in operators(lambda: attention(*on_device, dropout_p=0.5))
    assert FUSED not in operators(lambda: torch.ops.aten._scaled_dot_product_attention_math(*on_device))
    strided = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in on_device]
    assert FUSED in operators(lambda: attention(*strided))


def test_attention_before_macos_15_wants_contiguous_memory() -> None:
    code = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import mps_simulator; mps_simulator.install()
import torch
from test_glue import FUSED, operators
x = torch.randn(1, 2, 4, 8, device="mps")
y = x.transpose(1, 2).contiguous().transpose(1, 2)
attention = torch.nn.functional.scaled_dot_product_attention
print(FUSED in operators(lambda: attention(x, x, x)), FUSED in operators(lambda: attention(y, y, y)))
"""
    result = run("-c", code, environment={"MPS_SIMULATOR_MACOS": "14.5"})
    assert result.stdout.strip() == "True False", result.stderr


def test_transformer_has_no_fast_path_of_its_own() -> None:
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    x = torch.randn(2, 5, 8)
    with torch.inference_mode():
        expected = layer(x)
        layer.to("mps")
        torch.testing.assert_close(layer(x.to("mps")).cpu(), expected)
        assert "_transformer_encoder_layer_fwd" not in operators(lambda: layer(x.to("mps")))
    heads = torch.nn.MultiheadAttention(8, 2).to("mps")
    y = x.to("mps")
    with pytest.raises(NotImplementedError, match="'MPS' (backend|device)|not currently implemented for the MPS"):
        projections = (heads.in_proj_weight, heads.in_proj_bias, heads.out_proj.weight, heads.out_proj.bias)
        torch._native_multi_head_attention(y, y, y, 8, 2, *projections)


def test_copies() -> None:
    x = torch.randn(4, 6)
    device = x.to("mps")
    assert torch.equal(device.t().cpu(), x.t())
    assert torch.equal(device[:, ::2].to(torch.float16).cpu(), x[:, ::2].half())
    assert torch.equal(torch.zeros(4, 6, device="mps").copy_(x[0]).cpu(), x[0].expand(4, 6))
    host = torch.zeros(4, 6).copy_(device, non_blocking=True)
    torch.mps.synchronize()
    assert torch.equal(host, x)
    with pytest.raises(RuntimeError, match="must match the size|expanded size"):
        device.copy_(torch.zeros(5, 6))
    with warnings.catch_warnings():
        # Upstream leaves before it warns that the imaginary part is lost.
        warnings.simplefilter("error")
        torch.zeros(2, device="mps").copy_(torch.ones(2))


def test_lstm_is_the_backends() -> None:
    lstm = torch.nn.LSTM(3, 4, num_layers=2)
    x = torch.randn(5, 2, 3)
    expected, (hidden, cell) = lstm(x)
    lstm.to("mps")
    result, states = lstm(x.to("mps"))
    torch.testing.assert_close(result.cpu(), expected)
    torch.testing.assert_close(states[0].cpu(), hidden)
    torch.testing.assert_close(states[1].cpu(), cell)
    assert "_lstm_mps" in operators(lambda: lstm(x.to("mps")))


def _seeded(seed: int) -> torch.Tensor:
    generator = torch.Generator(device="mps", seed=seed)  # type: ignore[call-arg]
    return torch.rand(8, device="mps", generator=generator)


def _seeded_later() -> torch.Tensor:
    generator = torch.Generator(device="mps")
    generator.manual_seed(5)
    return torch.rand(8, device="mps", generator=generator)


def _host_generator() -> torch.Tensor:
    generator = torch.Generator(device="cpu")
    generator.manual_seed(5)
    return torch.rand(8, generator=generator)


def test_generator_in_torchscript() -> None:
    seeded = torch.jit.script(_seeded)
    eager = torch.rand(8, device="mps", generator=torch.Generator("mps").manual_seed(3))
    assert torch.equal(seeded(3), eager)
    assert not torch.equal(seeded(3), seeded(4))
    assert torch.equal(torch.jit.script(_seeded_later)(), _seeded_later())
    assert torch.equal(torch.jit.script(_host_generator)(), _host_generator())


# What upstream makes of it in Python.


def test_pinned_memory_is_refused_as_upstream_refuses_it() -> None:
    # https://github.com/pytorch/pytorch/issues/86060
    refusal = 'storage of a tensor on device "cpu" to a storage on different device "mps:0"'
    x = torch.randn(4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        for pin in (x.pin_memory, lambda: x.pin_memory("mps"), lambda: x.untyped_storage().pin_memory("mps")):
            with pytest.raises(RuntimeError, match=refusal):
                pin()
        assert not x.is_pinned("mps")
    with pytest.raises(RuntimeError, match="only dense CPU tensors can be pinned"):
        x.to("mps").pin_memory()
    assert not x.is_pinned() and not x.to("mps").is_pinned()
    load: Any = partial(torch.utils.data.DataLoader, torch.arange(4.0), batch_size=2, pin_memory=True)
    assert [batch.tolist() for batch in load()] == [[0.0, 1.0], [2.0, 3.0]]
    with pytest.raises(RuntimeError, match=refusal):
        list(load(pin_memory_device="mps"))


def test_profiler_emits_signposts() -> None:
    x = torch.randn(4, 5, device="mps")
    mps_simulator.reset_signposts()
    (x + 1).cpu()
    assert mps_simulator.signposts() == []
    with torch.mps.profiler.profile(mode="interval,event", wait_until_completed=True):
        (x @ x.t()).cpu()
    found = mps_simulator.signposts()
    begun = [str(post["id"]) for post in found if post["type"] == "begin"]
    assert begun and sorted(begun) == sorted(str(post["id"]) for post in found if post["type"] == "end")
    assert any(post["type"] == "event" and "mm" in str(post["message"]) for post in found), found
    mps_simulator.reset_signposts()
    (x + 1).cpu()
    assert mps_simulator.signposts() == []


def test_profiler_refuses() -> None:
    with pytest.raises(RuntimeError, match="Invalid Signpost trace mode: nonsense"):
        torch.mps.profiler.start("nonsense")
    torch.mps.profiler.start()
    try:
        with pytest.raises(RuntimeError, match="Tracing Signposts is already enabled"):
            torch.mps.profiler.start()
    finally:
        torch.mps.profiler.stop()


def through_file(value: Any, *, zipped: bool = True, **options: Any) -> Any:
    file = io.BytesIO()
    torch.save(value, file, _use_new_zipfile_serialization=zipped)
    file.seek(0)
    return torch.load(file, weights_only=True, **options)


def test_files_move_between_devices() -> None:
    host = torch.arange(6.0)
    device = host.to("mps")
    for place in ("mps", "mps:0", torch.device("mps"), {"cpu": "mps"}):
        for zipped in (True, False):
            loaded = through_file(host, zipped=zipped, map_location=place)
            assert loaded.device.type == "mps" and torch.equal(loaded.cpu(), host)
    assert through_file(device, zipped=False).device.type == "mps"
    assert torch.equal(through_file(device, map_location="cpu"), host)
    # Views of one storage are views of one storage again.
    loaded = through_file({"all": device, "some": device[2:4]})
    loaded["all"][2] = 50
    assert loaded["some"].tolist() == [50.0, 3.0]
    storage = through_file(device.untyped_storage())
    assert storage.device.type == "mps" and storage.cpu().tolist() == device.cpu().untyped_storage().tolist()
    script = torch.jit.script(torch.nn.Linear(3, 2))
    file = io.BytesIO()
    torch.jit.save(script, file)
    file.seek(0)
    moved = torch.jit.load(file, map_location="mps")
    assert moved.weight.device.type == "mps"
    x = torch.randn(4, 3)
    torch.testing.assert_close(moved(x.to("mps")).cpu(), script(x))
    optimizer = torch.optim.Adam([torch.nn.Parameter(torch.ones(3, device="mps"))])
    optimizer.param_groups[0]["params"][0].grad = torch.ones(3, device="mps")
    optimizer.step()
    state = through_file(optimizer.state_dict(), map_location="mps")["state"][0]
    assert state["exp_avg"].device.type == "mps"


def test_memory_is_not_shared_between_processes() -> None:
    with pytest.raises(RuntimeError, match="_share_fd_: only available on CPU"):
        torch.ones(2, device="mps").share_memory_()


def test_inductor_has_no_backend() -> None:
    # https://github.com/pytorch/pytorch/issues/125254
    def double(x: torch.Tensor) -> torch.Tensor:
        return x.sin() * 2

    x = torch.randn(3, device="mps")
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="the default backend does not support MPS"):
        torch.compile(double)(x)
    torch._dynamo.reset()
    with torch._dynamo.config.patch(suppress_errors=True):
        torch.testing.assert_close(torch.compile(double)(x), double(x))


def test_gradient_scaler_wants_double() -> None:
    model = torch.nn.Linear(3, 2).to("mps")
    optimizer = torch.optim.SGD(model.parameters())
    scaler = torch.amp.GradScaler("mps")
    assert scaler.is_enabled()
    scaler.scale(model(torch.randn(4, 3, device="mps")).sum()).backward()
    assert model.bias.grad is not None and model.bias.grad.tolist() == [4 * 65536.0] * 2
    with pytest.raises(TypeError, match="MPS framework doesn't support float64"):
        scaler.step(optimizer)


def test_dlpack_has_no_mps() -> None:
    x = torch.ones(2, device="mps")
    with pytest.raises(RuntimeError, match="Cannot pack tensors on mps:0"):
        torch.utils.dlpack.to_dlpack(x)
    with pytest.raises(ValueError, match="Unknown device type mps for Dlpack"):
        torch.from_dlpack(x)


WAIT_WITH_LOCK = """
import torch
from torch._dispatch.python import enable_python_dispatcher

conv = torch.nn.Conv2d(3, 4, 3, device="mps")
x = torch.randn(2, 3, 8, 8, device="mps", requires_grad=True)
with torch.autograd.detect_anomaly(check_nan=False):
    conv(x).sum().backward()
    with enable_python_dispatcher():
        result = torch.empty(x.shape).copy_(x.grad)
torch.testing.assert_close(result, torch.autograd.grad(conv.cpu()(y := x.detach().cpu().requires_grad_()).sum(), y)[0])
print("equal")
"""


def test_gradient_takes_no_lock_of_python() -> None:
    """A caller may hold the lock while it waits for the GPU, and anomaly mode gives each node a Python stack."""
    result = run("-c", WAIT_WITH_LOCK, environment={"MPS_SIMULATOR": "1"})
    assert result.stdout == "equal\n", result.stderr
