"""A small program to try the percentage on: one step of fitting a Gaussian process on MPS."""

import torch


def gaussian_process(points: int = 64) -> float:
    """The negative log likelihood of some points; its Cholesky decomposition has no MPS kernel in the base."""
    x = torch.linspace(0, 1, points, device="mps")[:, None]
    y = torch.sin(6 * x)
    scale = torch.tensor(0.2, device="mps", requires_grad=True)
    covariance = torch.exp(-((x - x.mT) ** 2) / scale**2) + 0.1 * torch.eye(points, device="mps")
    factor = torch.linalg.cholesky(covariance)
    white = torch.linalg.solve_triangular(factor, y, upper=False)
    loss = (white**2).sum() / 2 + factor.diagonal().log().sum()
    loss.backward()
    return float(loss.detach())
