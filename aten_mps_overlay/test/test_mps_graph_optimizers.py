# Owner(s): ["module: mps"]

"""Cases for optimizers in torch.mps graphs: a replayed step does what the next step of eager would, or step() raised in
the capture."""

import unittest

import torch
from torch.testing._internal.common_utils import (
    instantiate_parametrized_tests,
    parametrize,
    run_tests,
    TestCase,
)


if not torch.backends.mps.is_available():
    raise unittest.SkipTest("MPS is not available")

OPTIMIZERS = {
    "SGD": {"momentum": 0.9, "nesterov": True},
    "Adam": {"capturable": True, "amsgrad": True},
    "AdamW": {"capturable": True},
    "Adamax": {"capturable": True},
    "NAdam": {"capturable": True},
    "RAdam": {"capturable": True},
    "Adadelta": {"capturable": True},
    "RMSprop": {"capturable": True, "momentum": 0.5},
    "Rprop": {"capturable": True},
    "ASGD": {"capturable": True},
}
FUSED = {"SGD": {"momentum": 0.9}, "Adam": {"amsgrad": True}, "AdamW": {}}
ON_THE_HOST = [
    "Adam",
    "AdamW",
    "Adamax",
    "NAdam",
    "RAdam",
    "Adadelta",
    "RMSprop",
    "Rprop",
    "ASGD",
    "Adagrad",
]


class TestOptimizers(TestCase):
    def check_steps(self, kind, options):
        torch.manual_seed(0)
        start = torch.randn(6, 5)
        grads = [torch.randn(6, 5) for _ in range(8)]
        results = []
        for captured in (False, True):
            weight = torch.nn.Parameter(start.to("mps"))
            weight.grad = torch.zeros_like(weight)
            optimizer = getattr(torch.optim, kind)([weight], lr=0.05, **options)
            graph = None
            for i, grad in enumerate(grads):
                weight.grad.copy_(grad)
                if not captured or i == 0:
                    optimizer.step()
                elif graph is None:
                    graph = torch.mps.MPSGraph()
                    with torch.mps.graph(graph):
                        optimizer.step()
                else:
                    graph.replay()
            results.append((weight.detach().cpu(), optimizer.state_dict()["state"]))
        self.assertEqual(results[0], results[1], atol=0, rtol=0)

    @parametrize("kind", list(OPTIMIZERS))
    def test_capturable(self, kind):
        self.check_steps(kind, {**OPTIMIZERS[kind], "foreach": False})

    @parametrize("kind", list(OPTIMIZERS))
    def test_capturable_foreach(self, kind):
        self.check_steps(kind, {**OPTIMIZERS[kind], "foreach": True})

    @parametrize("kind", list(FUSED))
    def test_fused(self, kind):
        self.check_steps(kind, {**FUSED[kind], "fused": True})

    @parametrize("kind", ON_THE_HOST)
    @parametrize("first", [False, True])
    def test_steps_counted_on_the_host_raise(self, kind, first):
        """Before anything was changed, and outside of a capture it goes on."""
        weight = torch.nn.Parameter(torch.ones(4, device="mps"))
        optimizer = getattr(torch.optim, kind)([weight], lr=0.1)
        weight.grad = torch.ones_like(weight)
        if not first:
            optimizer.step()
        before = weight.detach().cpu()
        with self.assertRaisesRegex(
            RuntimeError, rf"{kind}\.step\(\) counts its steps on the host"
        ):
            with torch.mps.graph_capture():
                optimizer.step()
        self.assertEqual(weight.cpu(), before)
        optimizer.step()
        self.assertNotEqual(weight.cpu(), before)

    def test_parameters_on_the_cpu(self):
        """They are none of the graph's business."""
        weight = torch.nn.Parameter(torch.ones(4))
        optimizer = torch.optim.Adam([weight], lr=0.1)
        weight.grad = torch.ones_like(weight)
        x = torch.ones(4, device="mps")
        with torch.mps.graph_capture():
            y = x * 2
            optimizer.step()
        x.fill_(3)
        torch.mps.graph_replay()
        self.assertEqual(y.cpu(), torch.full((4,), 6.0))


instantiate_parametrized_tests(TestOptimizers)

if __name__ == "__main__":
    run_tests()
