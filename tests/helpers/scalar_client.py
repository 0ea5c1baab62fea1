"""A client with one weight, w, whose loss is (w - 4)^2 / 2: what a rule's steps give, by hand."""

from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import torch

TARGET = 4.0


class ScalarClient:
    """A `LocalModel` of one weight that trains by plain gradient descent.

    Args:
        weight: the weight that it receives.
        rate: learning rate of the run.
        given: other attributes, such as `memory` or `payload`.
    """

    is_adapting = False

    def __init__(self, weight, rate, **given):
        self.weights = torch.tensor([weight], dtype=torch.float64)
        self.start, self.learning_rate = self.weights.clone(), rate
        self.memory, self.payload = {}, {}
        vars(self).update(given)

    def train(self, rule, num_steps):
        """Take steps by a rule; return the weight, and the arrays that the rule remembers."""
        hooks = rule.start(self)
        for _ in range(num_steps):
            hooks.step(self, None, None)
        return self.weights.item(), hooks.finish(self, num_steps).memory

    def tensor(self, vector):
        return torch.tensor(np.array(vector))

    def vector(self, tensor):
        return tensor.numpy().copy()

    def snapshot(self):
        return self.weights.clone()

    def load(self, state):
        self.weights.copy_(torch.as_tensor(state))

    @contextmanager
    def substitute(self, state):
        before = self.snapshot()
        self.load(state)
        yield
        self.load(before)

    def logits(self, images):
        return self.weights.clone()

    def loss(self, logits, labels):
        return (logits - TARGET).square() / 2

    def gradient(self, loss):
        return self.weights - TARGET

    def optimizer(self, name, learning_rate=None):
        rate = self.learning_rate if learning_rate is None else learning_rate
        return SimpleNamespace(descend=lambda weights, gradient: weights.sub_(rate * gradient))

    def descend(self, gradient):
        self.weights.sub_(self.learning_rate * gradient)

    def step(self, images, labels, hooks):
        gradient = self.gradient(None)
        hooks.correct(self.weights, gradient)
        self.descend(gradient)
        return self.weights.clone()
