"""A plugin of small torch modules of many kinds, for images of 1x8x8 pixels: some train, some are refused."""

import random
from collections import deque
from copy import deepcopy
from functools import partial

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils import parametrizations, parametrize
from torch.utils.checkpoint import checkpoint

from fedgrid import ModelEntry

WIDTH, CLASSES = 8, 3
seen_anywhere: list[torch.Tensor] = []


def around(*inner):
    """Return layers between a first and a last linear one."""
    return nn.Sequential(nn.Flatten(), nn.Linear(64, WIDTH), *inner, nn.Linear(WIDTH, CLASSES))


def convolved(*inner):
    return nn.Sequential(nn.Conv2d(1, WIDTH, 3, 2), *inner, nn.ReLU(), nn.Flatten(), nn.Linear(9 * WIDTH, 3))


class Hidden(nn.Module):
    """Between the first and the last layer: `change(self, values)`, with attributes from `prepare(self)`."""

    def __init__(self, change, prepare=lambda self: None):
        super().__init__()
        self.first, self.last = nn.Linear(64, WIDTH), nn.Linear(WIDTH, CLASSES)
        prepare(self)
        self.change = change

    def forward(self, images):
        return self.last(self.change(self, self.first(images.flatten(1)).relu()))


class Rows(nn.Module):
    """A layer for sequences, which gets images as eight rows of eight numbers."""

    def __init__(self, layer, pick=lambda output: output):
        super().__init__()
        self.layer, self.pick, self.last = layer, pick, nn.Linear(WIDTH, CLASSES)

    def forward(self, images):
        return self.last(self.pick(self.layer(images[:, 0])).mean(1))


class Attention(nn.MultiheadAttention):
    def forward(self, rows):  # type: ignore[override]
        output, self.last_weights = super().forward(rows, rows, rows)
        return output


class Tokens(nn.Module):
    def __init__(self, embedding):
        super().__init__()
        self.embedding, self.last = embedding, nn.Linear(WIDTH, CLASSES)

    def forward(self, images):
        return self.last(self.embedding((images.flatten(1) * 15).long()).mean(1))


class StillNorm(nn.BatchNorm1d):
    """Its `train` returns nothing, as one that is written in a hurry does."""

    def train(self, mode=True):
        super().train(False)


class Frozen(nn.Module):
    def __init__(self, normed):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(64, WIDTH), nn.BatchNorm1d(WIDTH), nn.ReLU())
        self.backbone.requires_grad_(normed)
        self.backbone.eval()
        self.last = nn.Linear(WIDTH, CLASSES)

    def forward(self, images):
        return self.last(self.backbone(images.flatten(1)))


class Tied(nn.Module):
    """Two square layers with one matrix, by way of `tie(first, second)`."""

    def __init__(self, tie):
        super().__init__()
        self.one, self.two, self.last = nn.Linear(64, 64), nn.Linear(64, 64), nn.Linear(64, CLASSES)
        tie(self)

    def forward(self, images):
        return self.last(self.two(self.one(images.flatten(1)).relu()).relu())


class OtherMatrix(nn.Module):
    """A parametrisation: another layer's matrix, whatever is given."""

    def __init__(self, other):
        super().__init__()
        self.other = other

    def forward(self, weight):
        return self.other.weight + 0 * weight


class Changing(nn.Linear):
    """Changes what it is given."""

    def forward(self, images):
        return super().forward(images.flatten(1).mul_(2).sub_(1))


class WithSecondHead(nn.Linear):
    def forward(self, images):
        outputs = super().forward(images.flatten(1))
        return (outputs, outputs) if self.training else outputs


class ActNorm(nn.Module):
    """Scales by the first batch's deviation."""

    def __init__(self):
        super().__init__()
        self.scale, self.is_set = nn.Parameter(torch.ones(WIDTH)), False

    def forward(self, values):
        if self.training and not self.is_set:
            self.scale.data.copy_(1 / (values.detach().std(0) + 0.1))
            self.is_set = True
        return values * self.scale


def dropped_by_numpy(self, values):
    if not self.training:
        return values
    return values * torch.from_numpy(np.random.rand(*values.shape) > 0.5).float()  # noqa: NPY002


def layer_dropped(self, values):
    return values if self.training and random.random() < 0.5 else self.more(values)


def noised(self, values):
    return values + 0.1 * torch.randn_like(values) if self.training else values


def drawn_by_all(self, values):
    return dropped_by_numpy(self, noised(self, values)) * (random.random() if self.training else 1)


def more(self):
    self.more = nn.Linear(WIDTH, WIDTH)


def counter(self):
    self.calls = 0


def counted(self, values):
    self.calls += 1
    return values


def moved_by_gradient(self, values):
    """Take a step of gradient descent on the features, as energy models do, in tests too."""
    with torch.enable_grad():
        features = values.detach().requires_grad_(True)
        energy = self.last(features).logsumexp(1).sum()
        (gradient,) = torch.autograd.grad(energy, features, create_graph=self.training)
    return values - 0.1 * gradient


def buffer_counter(self):
    self.register_buffer("calls", torch.zeros((), dtype=torch.int64))


def counted_in_buffer(self, values):
    self.calls += 1
    return values


def stashed(self, values):
    self.features = values
    return values + 0 * self.features.mean()


def cached(self, values):
    if self.table is None or len(self.table) < len(values):
        self.table = torch.arange(len(values))[:, None] / 100
    return values + self.table[: len(values)]


def buffered(self):
    self.register_buffer("mean", torch.zeros(WIDTH))


def centred(self, values):
    if self.training:
        self.mean += 0.1 * (values.detach().mean(0) - self.mean)
    return values - self.mean


def centred_in_new_buffer(self, values):
    if self.training:
        self.mean = 0.9 * self.mean + 0.1 * values.detach().mean(0)
    return values - self.mean


def queue(self):
    self.register_buffer("queue", torch.zeros(16, WIDTH))
    self.register_buffer("place", torch.zeros(()))


def queued(self, values):
    if self.training:
        for row in values.detach():
            self.queue[int(self.place)] = row
            self.place.copy_((self.place + 1) % 16)
    return values + 0.1 * (values @ self.queue.T).softmax(1) @ self.queue


def constants(self):
    self.register_buffer("order", torch.arange(WIDTH - 1, -1, -1))
    self.register_buffer("table", torch.rand(WIDTH), persistent=False)
    self.more = nn.Linear(WIDTH, WIDTH).requires_grad_(False)


def computed_twice(self, values):
    def again(inner):
        return functional.dropout(self.more(inner), 0.5, self.training)

    return checkpoint(again, values, use_reentrant=False)


def tied_parameter(self):
    self.two.weight = self.one.weight


def tied_module(self):
    self.two = self.one


def tied_parametrisation(self):
    parametrize.register_parametrization(self.two, "weight", OtherMatrix(self.one))


TRAINS = {
    "dropout": lambda: around(nn.Dropout(0.5)),
    "dropout-by-numpy": lambda: Hidden(dropped_by_numpy),
    "layer-drop": lambda: Hidden(layer_dropped, more),
    "all-generators": lambda: Hidden(drawn_by_all),
    "checkpoint": lambda: Hidden(computed_twice, more),
    "batch-norm": lambda: around(nn.BatchNorm1d(WIDTH)),
    "batch-norm-of-channels": lambda: convolved(nn.BatchNorm2d(WIDTH)),
    "batch-norm-by-counts": lambda: around(nn.BatchNorm1d(WIDTH, momentum=None)),
    "batch-norm-without-statistics": lambda: around(nn.BatchNorm1d(WIDTH, track_running_stats=False)),
    "batch-norm-that-stays": lambda: around(StillNorm(WIDTH)),
    "backbone-in-eval": lambda: Frozen(True),
    "frozen-backbone-in-eval": lambda: Frozen(False),
    "layer-norm": lambda: around(nn.LayerNorm(WIDTH)),
    "spectral-norm": lambda: around(parametrizations.spectral_norm(nn.Linear(WIDTH, WIDTH))),
    "spectral-norm-by-a-hook": lambda: around(nn.utils.spectral_norm(nn.Linear(WIDTH, WIDTH))),
    "inputs-changed": lambda: Changing(64, CLASSES),
    "scripted-batch-norm": lambda: torch.jit.script(around(nn.BatchNorm1d(WIDTH), nn.Dropout(0.5))),
    "gradient-in-forward": lambda: Hidden(moved_by_gradient),
    "counter-in-a-buffer": lambda: Hidden(counted_in_buffer, buffer_counter),
    "tied-parameter": lambda: Tied(tied_parameter),
    "tied-module": lambda: Tied(tied_module),
    "tied-parametrisation": lambda: Tied(tied_parametrisation),
    "lstm-with-dropout": lambda: Rows(
        nn.LSTM(8, WIDTH, 2, batch_first=True, dropout=0.5), lambda output: output[0]
    ),
    "attention": lambda: Rows(Attention(8, 2, dropout=0.2, batch_first=True)),
    "embedding-of-most-norm": lambda: Tokens(nn.Embedding(16, WIDTH, max_norm=1.0)),
    "constants": lambda: Hidden(lambda self, x: self.more(x[:, self.order]) + self.table, constants),
    "mean-in-a-buffer": lambda: Hidden(centred, buffered),
    "mean-in-a-new-buffer": lambda: Hidden(centred_in_new_buffer, buffered),
    "queue-in-buffers": lambda: Hidden(queued, queue),
    "calls-counted": lambda: Hidden(counted, counter),
    "features-at-hand": lambda: Hidden(stashed),
    "table-made-when-needed": lambda: Hidden(cached, lambda self: setattr(self, "table", None)),
}
"""What trains as in a plain loop."""


def teacher(self):
    self.teacher = deepcopy(self.first).requires_grad_(False)


def hidden_teacher(self):
    self.others = [deepcopy(self.first).requires_grad_(False)]


def taught(self, values, find_teacher=lambda self: self.teacher):
    copy = find_teacher(self)
    if self.training:
        with torch.no_grad():
            for own, theirs in zip(copy.parameters(), self.first.parameters(), strict=True):
                own.lerp_(theirs, 0.1)
    return values + copy.bias


def average(self):
    self.average = torch.zeros(WIDTH)


def averaged(self, values):
    if self.training:
        self.average = 0.9 * self.average + 0.1 * values.detach().mean(0)
    return values - self.average


def scaled(self, values):
    self.scale = 0.9 * self.scale + 0.1 * float(values.detach().mean())
    return values * self.scale


def late(after):
    def change(self, values):
        self.calls += self.training
        return values * 0.5 if self.calls > after else values

    return change


def remembered_late(self, values):
    if self.training:
        self.past.append(values.detach().mean(0))
    return values - sum(self.past) / 64 if len(self.past) == 64 else values


def remembered_anywhere(self, values):
    if self.training:
        seen_anywhere.append(values.detach().mean(0))
    return values - seen_anywhere[0] * len(seen_anywhere) if seen_anywhere else values


def bounded(self, values):
    self.first.weight.data = torch.renorm(self.first.weight.data, 2, 0, 0.5)
    return values


def own_generator(self, values):
    return values + torch.rand(WIDTH, generator=self.own) if self.training else values


def own_numpy(self, values):
    return values * float(self.own.random()) if self.training else values


def unsent_mean(self):
    self.register_buffer("mean", torch.zeros(WIDTH), persistent=False)


def drawn_unseeded(self, values):
    self.features = values.detach()
    return values * float(np.random.Generator(np.random.PCG64()).random()) if self.training else values


def unfrozen(self, values):
    self.calls += self.training
    self.more.requires_grad_(self.calls > 3)
    return self.more(values)


def half_way(self):
    counter(self)
    more(self)
    self.more.requires_grad_(False)


def made_late(self, values):
    if not hasattr(self, "more"):
        more(self)
    return self.more(values)


def made_in_training(self, values):
    return made_late(self, values) if self.training else values


def buffered_late(self, values):
    if not hasattr(self, "mean"):
        buffered(self)
    return centred(self, values)


def centred_in_double(self, values):
    if self.training:
        self.mean = 0.9 * self.mean + 0.1 * values.detach().mean(0).double()
    return values - self.mean.float()


def tied_data(self):
    self.two.weight.data = self.one.weight.data


def spread(self):
    self.one.bias = nn.Parameter(torch.zeros(1).expand(64))


def view(self):
    self.rows = self.one.weight.data[:2]


REFUSED = {
    "teacher": (lambda: Hidden(taught, teacher), "teacher.weight changes in training"),
    "teacher-in-a-list": (
        lambda: Hidden(partial(taught, find_teacher=lambda self: self.others[0]), hidden_teacher),
        "others[0].weight changes in training",
    ),
    "average-of-its-own": (lambda: Hidden(averaged, average), "average changes in training"),
    "scale-of-its-own": (lambda: Hidden(scaled, lambda self: setattr(self, "scale", 1.0)), "scale changes"),
    "unsent-mean": (lambda: Hidden(centred, unsent_mean), "mean changes in training"),
    "counting-buffer": (lambda: Hidden(late(5), buffer_counter), "calls changes in training"),
    "late-change": (lambda: Hidden(late(5000), counter), "calls changes in training"),
    "full-queue": (
        lambda: Hidden(remembered_late, lambda self: setattr(self, "past", deque(maxlen=64))),
        "past changes in training",
    ),
    "memory-of-the-file": (
        lambda: Hidden(remembered_anywhere),
        "its training gives other numbers each time",
    ),
    "bounded-weights": (lambda: Hidden(bounded), "first.weight gets new .data in forward"),
    "own-generator": (
        lambda: Hidden(own_generator, lambda self: setattr(self, "own", torch.Generator())),
        "own changes in training",
    ),
    "own-generator-of-numpy": (
        lambda: Hidden(own_numpy, lambda self: setattr(self, "own", np.random.default_rng(0))),
        "own changes in training",
    ),
    "seeded-by-nothing": (lambda: Hidden(drawn_unseeded), "its training gives other numbers each time"),
    "unfrozen-later": (
        lambda: Hidden(unfrozen, half_way),
        "more.weight changes its requires_grad in training",
    ),
    "two-outputs-in-training": (lambda: WithSecondHead(64, CLASSES), "its output in training is tuple"),
    "bfloat16-output": (
        lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, CLASSES), Rounded()),
        "its output in tests is of bfloat16; return float32",
    ),
    "layer-made-in-training": (lambda: Hidden(made_in_training), "more.weight is made in a first forward"),
    "buffer-made-late": (lambda: Hidden(buffered_late), "mean is made in a first forward pass"),
    "float64-in-training": (
        lambda: Hidden(centred_in_double, buffered),
        "after a training mean (Hidden) is float64",
    ),
    "traced-batch-norm": (
        lambda: around(torch.jit.trace(nn.BatchNorm1d(WIDTH), torch.zeros(2, WIDTH))),
        "2 is traced, so that its BatchNorm1d cannot change",
    ),
    "first-batch": (lambda: around(ActNorm()), "2.is_set changes in training"),
    "drawn-in-tests": (lambda: around(nn.Identity(), Dropping()), "its output in tests is another one"),
    "tied-data": (lambda: Tied(tied_data), "two.weight shares memory with one.weight"),
    "spread-parameter": (lambda: Tied(spread), "entries of one.bias share memory"),
    "view-of-its-own": (lambda: Tied(view), "rows shares memory with one.weight"),
}
"""What would not, and what the refusal says."""


class Rounded(nn.Module):
    def forward(self, values):
        return values.bfloat16()


class Dropping(nn.Module):
    def forward(self, values):
        return functional.dropout(values, 0.5)


def entry(name, make):
    return ModelEntry(name, "one of the zoo", "ours", module=lambda *_: make())


MODELS = [entry(name, make) for name, make in TRAINS.items()]
MODELS += [entry(name, make) for name, (make, _) in REFUSED.items()]

ON_RAY = (
    *("all-generators", "layer-drop", "batch-norm", "batch-norm-that-stays", "backbone-in-eval"),
    *("tied-parameter", "lstm-with-dropout", "attention", "spectral-norm", "queue-in-buffers"),
)
"""Of `TRAINS`, those that are tried on Ray too."""
