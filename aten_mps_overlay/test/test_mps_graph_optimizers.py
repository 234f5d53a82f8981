# Owner(s): ["module: mps"]

"""Cases for optimizers in torch.mps graphs: a replayed step does what the next step of eager would, or step() raised in
the capture."""

import unittest

import torch
from torch.testing._internal.common_optimizers import optim_db
from torch.testing._internal.common_utils import (
    instantiate_parametrized_tests,
    parametrize,
    run_tests,
    TestCase,
)


if not torch.backends.mps.is_available():
    raise unittest.SkipTest("MPS is not available")

EXACT = {"atol": 0, "rtol": 0}

CAPTURABLE = {
    info.optim_cls.__name__: info for info in optim_db if info.has_capturable_arg
}
FUSED = {"SGD": {"momentum": 0.9}, "Adam": {"amsgrad": True}, "AdamW": {}}
ON_THE_HOST = [*CAPTURABLE, "Adagrad"]


class TestOptimizers(TestCase):
    def check_steps(self, kind, options, replays=True):
        """Replayed steps of an optimizer do what those of another one do."""
        torch.manual_seed(0)
        start = [torch.randn(6, 5), torch.randn(3), torch.randn(())]
        steps = [[torch.randn_like(w) for w in start] for _ in range(8)]
        results = []
        for replayed in (False, True) if replays else (False,):
            weights = [torch.nn.Parameter(w.to("mps")) for w in start]
            for weight in weights:
                weight.grad = torch.zeros_like(weight)
            optimizer = getattr(torch.optim, kind)(weights, **options)
            graph = None
            for i, grads in enumerate(steps):
                for weight, grad in zip(weights, grads):
                    weight.grad.copy_(grad)
                if not replayed or i == 0:
                    optimizer.step()
                elif graph is None:
                    graph = torch.mps.MPSGraph()
                    with torch.mps.graph(graph):
                        optimizer.step()
                else:
                    graph.replay()
            values = [w.detach().cpu() for w in weights]
            results.append((values, optimizer.state_dict()["state"]))
        self.assertEqual(results[0], results[-1], **EXACT)
        return results[0][0]

    @parametrize("kind", list(CAPTURABLE))
    @parametrize("foreach", [False, True])
    def test_capturable(self, kind, foreach):
        """Each configuration that upstream tests. Where no graph is, `capturable` changes nothing."""
        for case in CAPTURABLE[kind].optim_inputs_func(device="mps"):
            options = {
                k: v
                for k, v in case.kwargs.items()
                if k not in ("capturable", "differentiable", "foreach")
            }
            # tensors here need capturable=True
            options["lr"] = 0.1
            if kind in ("Adam", "AdamW"):
                options["betas"] = (0.9, 0.99)
            with self.subTest(case=case.desc):
                options["foreach"] = foreach
                values = self.check_steps(kind, {**options, "capturable": True})
                host = self.check_steps(kind, options, replays=False)
                # RAdam's correction of the bias cancels digits on the device
                self.assertEqual(values, host, atol=1e-4, rtol=0)

    @parametrize("foreach", [False, True])
    def test_sgd(self, foreach):
        options = {"momentum": 0.9, "nesterov": True, "foreach": foreach}
        self.check_steps("SGD", {**options, "lr": 0.05})

    @parametrize("kind", list(FUSED))
    def test_fused(self, kind):
        self.check_steps(kind, {**FUSED[kind], "lr": 0.05, "fused": True})

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
