# Owner(s): ["module: mps"]

"""Functions that graphs call, and objects that they keep."""

import gc
import unittest
import weakref

from test_mps_graph import GraphTestCase

import torch
from torch.testing._internal.common_utils import run_tests


if not torch.backends.mps.is_available():
    raise unittest.SkipTest("MPS is not available")


class TestHooks(GraphTestCase):
    def setUp(self):
        super().setUp()
        self.called = []

    def note(self, name):
        def hook(graph):
            self.called.append(name)
            self.assertIs(graph, self.graph)

        return hook

    def new_graph(self, **options):
        self.graph = torch.mps.Graph(**options)
        register = {
            "end": self.graph.register_capture_end_hook,
            "instantiate": self.graph.register_post_instantiate_hook,
            "before": self.graph.register_replay_start_hook,
            "after": self.graph.register_replay_end_hook,
        }
        return {name: add(self.note(name)) for name, add in register.items()}

    def take(self):
        called, self.called = self.called, []
        return called

    def test_order(self):
        """A hook that is removed is not called any more; those that stay hold for the next capture too."""
        handles = self.new_graph()
        x = torch.ones(4, device="mps")
        with torch.mps.graph(self.graph):
            x * 2
            self.assertEqual(self.take(), [])
        self.assertEqual(self.take(), ["end", "instantiate"])
        self.graph.replay()
        self.assertEqual(self.take(), ["before", "after"])
        handles["before"].remove()
        self.graph.replay()
        self.assertEqual(self.take(), ["after"])
        self.graph.reset()
        with torch.mps.graph(self.graph):
            x * 3
        self.graph.replay()
        self.assertEqual(self.take(), ["end", "instantiate", "after"])
        for handle in handles.values():
            handle.remove()
        self.graph.replay()
        self.assertEqual(self.take(), [])

    def test_kept_graph(self):
        """The first replay instantiates, unless the program has."""
        x = torch.ones(4, device="mps")
        for instantiations in 0, 2:
            self.new_graph(keep_graph=True)
            with torch.mps.graph(self.graph):
                y = x * 2
            self.assertEqual(self.take(), ["end"])
            for _ in range(instantiations):
                self.graph.instantiate()
            self.assertEqual(self.take(), ["instantiate"] * instantiations)
            x.fill_(3)
            y.fill_(-1)
            self.graph.replay()
            first = [] if instantiations else ["instantiate"]
            self.assertEqual(self.take(), ["before", *first, "after"])
            self.assertEqual(y.cpu(), torch.full((4,), 6.0))
            self.graph.replay()
            self.assertEqual(self.take(), ["before", "after"])

    def test_hooks_at_replay_may_use_the_tensors(self):
        """The first writes the input of the replay, the other one reads its result."""
        x = torch.zeros(4, device="mps")
        graph = torch.mps.Graph()
        with torch.mps.graph(graph):
            y = x + 1
        inputs, results = iter([1.0, 5.0]), []
        graph.register_replay_start_hook(lambda _: x.fill_(next(inputs)))
        graph.register_replay_end_hook(lambda _: results.append(y.tolist()))
        for _ in range(2):
            y.fill_(-1)
            graph.replay()
        self.assertEqual(results, [[2.0] * 4, [6.0] * 4])

    def test_replay_raises(self):
        """The last hook is called nevertheless, so that each start has an end."""
        self.new_graph()
        x = torch.ones(4, device="mps")
        with torch.mps.graph(self.graph):
            y = x * 2
        self.take()
        x.resize_(8)
        y.fill_(-1)
        with self.assertRaisesRegex(RuntimeError, "now has shape"):
            self.graph.replay()
        self.assertEqual(self.take(), ["before", "after"])
        self.assertEqual(y.cpu(), torch.full((4,), -1.0))

    def test_hook_raises(self):
        """At the start, nothing is submitted. At the end of a capture, the graph is empty, like after its block raised."""

        def refuse(_):
            raise ValueError("not now")

        x = torch.ones(4, device="mps")
        graph = torch.mps.Graph()
        with torch.mps.graph(graph):
            y = x * 2
        handle = graph.register_replay_start_hook(refuse)
        x.fill_(3)
        y.fill_(-1)
        with self.assertRaisesRegex(ValueError, "not now"):
            graph.replay()
        self.assertEqual(y.cpu(), torch.full((4,), -1.0))
        handle.remove()
        graph.replay()
        self.assertEqual(y.cpu(), torch.full((4,), 6.0))
        graph.reset()
        graph.register_capture_end_hook(refuse)
        with self.assertRaisesRegex(ValueError, "not now"):
            with torch.mps.graph(graph):
                y = x * 2
        with self.assertRaisesRegex(RuntimeError, "is empty.*not now"):
            graph.replay()

    def test_block_raises(self):
        """No capture has ended."""
        self.new_graph()
        with self.assertRaises(KeyError):
            with torch.mps.graph(self.graph):
                raise KeyError
        self.assertEqual(self.take(), [])

    def test_replay_inside_a_capture(self):
        """The inner replay calls the hooks once, and replays of the outer graph do not."""
        self.new_graph()
        x = torch.ones(4, device="mps")
        with torch.mps.graph(self.graph):
            y = x * 2
        self.take()
        outer = torch.mps.Graph()
        with torch.mps.graph(outer):
            self.graph.replay()
            z = y + 1
        self.assertEqual(self.take(), ["before", "after"])
        x.fill_(3)
        z.fill_(-1)
        outer.replay()
        self.assertEqual(z.cpu(), torch.full((4,), 7.0))
        self.assertEqual(self.take(), [])

    def test_retained_objects(self):
        """Until reset() or the end of the graph, and through other captures' failures."""

        class Buffer:
            pass

        x = torch.ones(4, device="mps")
        for end in "reset", "del":
            graph, buffer = torch.mps.Graph(), Buffer()
            kept = weakref.ref(buffer)
            with torch.mps.graph(graph):
                graph.retain_object(buffer)
                x * 2
            del buffer
            graph.replay()
            gc.collect()
            self.assertIsNotNone(kept())
            if end == "reset":
                graph.reset()
            else:
                del graph
            gc.collect()
            self.assertIsNone(kept())

    def test_not_callable(self):
        graph = torch.mps.Graph()
        for register in (
            graph.register_capture_end_hook,
            graph.register_post_instantiate_hook,
            graph.register_replay_start_hook,
            graph.register_replay_end_hook,
        ):
            with self.assertRaisesRegex(TypeError, "hook must be callable, got int"):
                register(3)


if __name__ == "__main__":
    run_tests()
