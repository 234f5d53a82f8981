# Owner(s): ["module: mps"]

"""Cases for optimizers in torch.mps graphs: a replayed step does what the next step of eager would, or step() raised in
the capture."""

import copy
import unittest

import numpy as np

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


WHOLE_STEPS = {
    "SGD": {"momentum": 0.9},
    **{kind: {"capturable": True} for kind in ("Adam", "AdamW", "NAdam", "RAdam")},
    **{kind: {"capturable": True} for kind in ("Adamax", "ASGD", "Rprop")},
}


class WholeStep:
    """Forward and backward of two micro-batches, loss scale, clipping, optimizer and average of the weights."""

    def __init__(self, kind, rate):
        torch.manual_seed(0)
        layers = torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2)
        self.model = torch.nn.Sequential(*layers).to("mps")
        self.weights = list(self.model.parameters())
        self.average = [w.detach().clone() for w in self.weights]
        self.data = torch.zeros(2, 16, 6, device="mps")
        self.target = torch.zeros(2, 16, 2, device="mps")
        self.scale = torch.tensor(1024.0, device="mps")
        self.finite_steps = torch.zeros((), device="mps")
        options = WHOLE_STEPS[kind]
        self.optimizer = getattr(torch.optim, kind)(self.weights, lr=rate, **options)

    def state(self):
        state = [t for s in self.optimizer.state.values() for t in s.values()]
        return [*self.weights, *(t for t in state if t is not None)]

    def __call__(self):
        self.optimizer.zero_grad()
        for x, y in zip(self.data, self.target):
            with torch.autocast("mps", torch.float16):
                loss = (self.model(x) - y).square().mean() / 2
            (loss * self.scale).backward()
        grads = [w.grad for w in self.weights]
        torch._foreach_div_(grads, self.scale)
        finite = torch.stack([g.isfinite().all() for g in grads]).all()
        torch.nn.utils.clip_grad_norm_(self.weights, 1.0)
        before = [t.detach().clone() for t in self.state()]
        self.optimizer.step()
        with torch.no_grad():
            for t, old in zip(self.state(), before):
                t.copy_(torch.where(finite, t, old))
            torch._foreach_lerp_(self.average, self.weights, 0.1)
        self.finite_steps.add_(1).mul_(finite)
        grows = (self.finite_steps + 1) % 20 == 0
        self.scale.mul_(torch.where(finite, 1.0 + grows, 0.5))
        return loss.detach(), finite


class TestOptimizers(TestCase):
    @parametrize("kind", list(WHOLE_STEPS))
    def test_whole_step(self, kind):
        """One graph for all of a training step, against 200 steps of eager; some overflow."""
        rate = 1e-2 if kind == "SGD" else torch.tensor(1e-2, device="mps")
        steps = [WholeStep(kind, rate) for _ in range(2)]
        for step in steps:
            step()  # the optimizer makes its state
        graph = torch.mps.Graph()
        with torch.mps.graph(graph):
            loss, finite = steps[0]()
        steps[1]()
        overflows = 0
        for i in range(200):
            data, target = torch.randn(2, 16, 6), torch.randn(2, 16, 2)
            for step in steps:
                step.data.copy_(data)
                step.target.copy_(target)
                if i == 5:
                    step.scale.fill_(2.0**24)
            if kind != "SGD":
                rate.fill_(1e-2 * 0.99**i)
            graph.replay()
            self.assertEqual((loss, finite), steps[1](), **EXACT)
            overflows += not finite.item()
        self.assertIn(overflows, range(1, 50))
        ends = ([*s.state(), *s.average, s.scale, s.finite_steps] for s in steps)
        self.assertEqual(*ends, **EXACT)

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

    @parametrize(
        "change", ["in_place", "new", "new_and_kept", "none", "another", "state"]
    )
    def test_gradients_of_a_step_alone(self, change):
        """A graph without a backward pass reads the gradients that it was captured with."""
        weights = [torch.nn.Parameter(torch.ones(4, device="mps")) for _ in range(2)]
        optimizer = torch.optim.Adam(weights, lr=0.1, capturable=True)
        weights[0].grad = torch.ones(4, device="mps")
        optimizer.step()
        graph = torch.mps.Graph()
        with torch.mps.graph(graph):
            optimizer.step()
        kept = weights[0].grad if change == "new_and_kept" else None
        if change == "in_place":
            weights[0].grad.fill_(-2)
        elif change == "another":
            weights[1].grad = torch.ones(4, device="mps")
        elif change == "state":
            optimizer.state.clear()
        else:
            optimizer.zero_grad()
            if change != "none":
                (weights[0] * 3).sum().backward()
        if change == "in_place":
            twin = copy.deepcopy(optimizer)
            copied = twin.param_groups[0]["params"][0]
            copied.grad = weights[0].grad.clone()
            graph.replay()
            twin.step()
            self.assertEqual(weights[0].cpu(), copied.cpu(), **EXACT)
        else:
            with self.assertRaisesRegex(
                RuntimeError,
                "state of Adam was replaced or cleared"
                if change == "state"
                else r"Adam.step\(\) was captured without the backward pass.*shape \[4\]",
            ):
                graph.replay()
        del kept

    @parametrize("is_kept", [False, True])
    def test_optimizer_that_is_gone(self, is_kept):
        """The program goes on with a new one, whose step is another."""
        weight = torch.nn.Parameter(torch.ones(4, device="mps"))
        weight.grad = torch.ones(4, device="mps")
        optimizer = torch.optim.Adam([weight], lr=0.1, capturable=True)
        optimizer.step()
        graph = torch.mps.Graph()
        with torch.mps.graph(graph):
            optimizer.step()
        if is_kept:
            graph.retain_object(optimizer)
            twin = copy.deepcopy(optimizer)
            copied = twin.param_groups[0]["params"][0]
        optimizer = torch.optim.Adam([weight], lr=0.001, capturable=True)
        if not is_kept:
            with self.assertRaisesRegex(RuntimeError, "optimizer .* is gone"):
                graph.replay()
            return
        weight.grad.fill_(-2)
        copied.grad = weight.grad.clone()
        graph.replay()
        twin.step()
        self.assertEqual(weight.cpu(), copied.cpu(), **EXACT)

    @parametrize("change", ["replaced", "added", "removed", "first_gradient"])
    def test_other_parameters(self, change):
        weights = [torch.nn.Parameter(torch.ones(4, device="mps")) for _ in range(2)]
        optimizer = torch.optim.SGD(weights[:1], lr=0.1)
        x = torch.ones(4, device="mps")
        graph = torch.mps.Graph()
        with torch.mps.graph(graph):
            y = x * 2
            if change != "first_gradient":
                (weights[0] * x).sum().backward()
            optimizer.step()
        if change == "first_gradient":
            weights[0].grad = torch.ones(4, device="mps")
        else:
            others = {"replaced": weights[1:], "added": weights, "removed": []}
            optimizer.param_groups[0]["params"] = others[change]
        with self.assertRaisesRegex(RuntimeError, "got other parameters|its .grad is"):
            graph.replay()
        self.assertEqual(y.cpu(), torch.full((4,), 2.0))

    def test_numbers_that_mean_the_same(self):
        weight = torch.nn.Parameter(torch.ones(4, device="mps"))
        weight.grad = torch.ones(4, device="mps")
        optimizer = torch.optim.SGD([weight], lr=0.5)
        torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 1.0)
        graph = torch.mps.Graph()
        with torch.mps.graph(graph):
            optimizer.step()
        group = optimizer.param_groups[0]
        group.update(lr=np.float64(0.5), initial_lr=3.0)
        weight.grad.fill_(2)
        graph.replay()
        self.assertEqual(weight.cpu(), torch.full((4,), -0.5))
        group["lr"] = np.float64(0.25)
        with self.assertRaisesRegex(RuntimeError, r"\['lr'\] of SGD was 0.5"):
            graph.replay()

    def test_gradient_that_another_pass_makes(self):
        """The block makes that of one parameter only. Eager's next step would update the other one, too."""
        weights = [torch.nn.Parameter(torch.ones(4, device="mps")) for _ in range(2)]
        optimizer = torch.optim.SGD(weights, lr=0.5)
        x = torch.ones(4, device="mps")
        graph = torch.mps.Graph()
        with torch.mps.graph(graph):
            weights[0].grad = None
            (weights[0] * x).sum().backward()
            optimizer.step()
        x.fill_(2)
        graph.replay()
        self.assertEqual(weights[0].cpu(), torch.full((4,), -0.5), **EXACT)
        (weights[1] * x).sum().backward()
        with self.assertRaisesRegex(RuntimeError, "without the backward pass of"):
            graph.replay()
        self.assertEqual(weights[0].cpu(), torch.full((4,), -0.5), **EXACT)

    @parametrize("has_gradient", [False, True])
    def test_parameters_of_two_devices(self, has_gradient):
        weights = [torch.nn.Parameter(torch.ones(4, device=d)) for d in ("mps", "cpu")]
        optimizer = torch.optim.SGD(weights, lr=0.5)
        gradient = weights[0].grad = torch.ones(4, device="mps")
        graph = torch.mps.Graph()
        if not has_gradient:
            with torch.mps.graph(graph):
                optimizer.step()
            gradient.fill_(2)
            graph.replay()
            self.assertEqual(weights[0].cpu(), torch.full((4,), -0.5), **EXACT)
        weights[1].grad = torch.ones(4)
        with self.assertRaisesRegex(
            RuntimeError,
            "parameters of the MPS device and of others"
            if has_gradient
            else "without the backward pass of",
        ):
            if has_gradient:
                with torch.mps.graph(graph):
                    optimizer.step()
            else:
                graph.replay()
        self.assertEqual(weights[1].detach(), torch.ones(4), **EXACT)

    def test_way_out_of_steps_counted_on_the_host(self):
        """Only options that the optimizer has are named."""
        for kind, words in (
            ("Adam", r"capturable=True \(or fused=True\), or call step\(\)"),
            ("NAdam", r"capturable=True, or call step\(\)"),
            ("Adafactor", r"same step\. Call step\(\)"),
        ):
            weight = torch.nn.Parameter(torch.ones(4, 4, device="mps"))
            weight.grad = torch.ones_like(weight)
            optimizer = getattr(torch.optim, kind)([weight])
            optimizer.step()
            with self.assertRaisesRegex(RuntimeError, words):
                with torch.mps.graph_capture():
                    optimizer.step()

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

    def test_replay_asks_the_program(self):
        """But only if a step was captured; what it raises stops the replay."""
        asked = []

        class Asked(torch.mps.Graph):
            def _replay_with_program(self):
                asked.append("before")
                if self.fails:
                    raise ValueError("not now")
                self._submit()
                asked.append("after")

        x = torch.ones(4, device="mps")
        for asks in False, True:
            graph = Asked()
            graph.fails = False
            with torch.mps.graph(graph):
                y = x * 2
            graph._set_asks_program(asks)
            x.fill_(3)
            graph.replay()
            self.assertEqual(y.cpu(), torch.full((4,), 6.0))
        self.assertEqual(asked, ["before", "after"])
        graph.fails = True
        x.fill_(4)
        with self.assertRaisesRegex(ValueError, "not now"):
            graph.replay()
        self.assertEqual(y.cpu(), torch.full((4,), 6.0))
        self.assertEqual(asked, ["before", "after", "before"])


instantiate_parametrized_tests(TestOptimizers)

if __name__ == "__main__":
    run_tests()
