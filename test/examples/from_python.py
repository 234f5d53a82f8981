"""A Metal kernel from Python, in a graph."""

import torch

# Older versions of torch have it under a private name.
compile_shader = getattr(torch.mps, "compile_shader", None) or torch.mps._compile_shader

kernels = compile_shader(
    """
    kernel void axpy(device float* out,
                     constant float* x,
                     constant float* y,
                     constant float& a,
                     uint i [[thread_position_in_grid]]) {
      out[i] = a * x[i] + y[i];
    }
    """
)


def axpy(x, y, a):
    """a * x + y for contiguous tensors of one shape; views of a larger tensor are fine."""
    out = torch.empty_like(x)
    kernels.axpy(out, x, y, a)
    return out


def main():
    x, y = torch.randn(1000, device="mps"), torch.randn(1000, device="mps")
    with torch.mps.graph_capture():
        out = axpy(x, y.relu(), 2.0)

    x.normal_()
    y.normal_()
    torch.mps.graph_replay()
    return out, x, y


if __name__ == "__main__":
    out, x, y = main()
    torch.testing.assert_close(out, 2 * x + y.relu())
