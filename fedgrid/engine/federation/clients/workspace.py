"""The workspace of a process: its clients' images on a device, the model, and stacks of clients.

The clients of a stack train at once (`training.stacked`). Client c is in stack c // S, slot c % S, whichever
other clients take part, so its bits are the same in every process.

Shapes: S slots of a stack, P entries of a state vector.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fedgrid.algorithms.contract.local_rule import PLAIN
from fedgrid.algorithms.contract.orders import ChooseOn
from fedgrid.algorithms.updates.source import Vector
from fedgrid.engine.federation.clients.messages import Memory, Setup, TrainTask
from fedgrid.engine.federation.data.images import HeldImages
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.federation.inputs import draw_examples
from fedgrid.engine.federation.models.flat_vectors import FlatModule, build_blank, build_layout, find_head
from fedgrid.engine.federation.models.normalisation import MixedPrecision, Normalised
from fedgrid.engine.federation.seeds import make_generator
from fedgrid.engine.federation.training.batches import move_channels_first
from fedgrid.engine.federation.training.confusion import Counts
from fedgrid.engine.federation.training.evaluation import convert_to_inputs
from fedgrid.engine.federation.training.layers import draws_random_numbers
from fedgrid.engine.federation.training.local import LocalResult
from fedgrid.engine.federation.training.stacked import Member, Stack, train_together

Key = tuple[int, bool]
"""A client, and whether it has moved to another hidden group."""

CPU_CACHE_BYTES = 8 << 20
"""Bytes of images that a CPU keeps as tensors: to copy a client's digits takes as long as one step of its
training."""


class DeviceSet:
    """Images and labels on a device: one tensor each, pixels with channels last."""

    def __init__(self, images: Tensor, labels: Tensor) -> None:
        self.images, self.labels = images, labels

    @classmethod
    def from_images(cls, held: HeldImages, device: str) -> "DeviceSet":
        """Copy images to a torch device."""
        # `np.array` copies: what comes from shared memory is read-only and may go away.
        is_pixels = held.images.dtype == np.uint8
        stored = held.images.transpose(0, 2, 3, 1) if is_pixels else held.images
        images, labels = (torch.from_numpy(np.array(each, order="C")) for each in (stored, held.labels))
        images = move_channels_first(images.to(device, non_blocking=True))
        return cls(images, labels.to(device, non_blocking=True))

    @contextmanager
    def forbid_writes(self, by: str) -> Iterator[None]:
        """Raise ValueError if `by` writes to the images or labels in the block."""
        # torch counts in-place writes of a tensor; comparing the images themselves would cost a copy.
        before = self.images._version, self.labels._version
        yield
        if before != (self.images._version, self.labels._version):
            raise ValueError(f"{by} wrote to the client's images; work on a copy")

    def slice_images(self, where: slice) -> "DeviceSet":
        """View some of the images and labels."""
        return DeviceSet(self.images[where], self.labels[where])


class DeviceSets:
    """Each client's images on a device; clients with the same ones share their tensors.

    On a GPU all are put there once. Main memory has them already, so on a CPU only the last sets in use are
    kept a second time, up to `CPU_CACHE_BYTES` bytes of them.
    """

    def __init__(self, held: Mapping[Key, HeldImages], device: str) -> None:
        self._held = _share_equal_sets(held)
        self._device = device
        self._put: dict[int, DeviceSet] = {}
        self._bytes = 0
        if device != "cpu":
            for key in held:
                self.load_set(key)

    def find_set_number(self, key: Key) -> int:
        """Find a number that clients with one set in common share."""
        return id(self._held[key])

    def load_set(self, key: Key) -> DeviceSet:
        """Load the images that a client holds, from the tensors that are there or by a copy."""
        images = self._held[key]
        if id(images) not in self._put:
            new = DeviceSet.from_images(images, self._device)
            self._bytes += new.images.nbytes
            if self._device == "cpu" and self._bytes > CPU_CACHE_BYTES:
                self._put.clear()
                self._bytes = new.images.nbytes
            self._put[id(images)] = new
        return self._put[id(images)]


def _share_equal_sets(held: Mapping[Key, HeldImages]) -> dict[Key, HeldImages]:
    """Map each client to one object for sets that are equal.

    On its way to an actor each set becomes an object of its own.
    """
    objects = {id(images): images for images in held.values()}
    first: dict[bytes, HeldImages] = {}
    shared = {}
    for number, images in objects.items():
        # Sets with equal labels are rare, so labels find the candidates and only those compare their pixels.
        other = first.setdefault(images.labels.tobytes(), images)
        is_equal = other is images or np.array_equal(other.images, images.images)
        shared[number] = other if is_equal else images
    return {key: shared[id(images)] for key, images in held.items()}


class Holdings:
    """The images that each client trains on and is tested on.

    A client that moves has other ones from a later round on.
    """

    def __init__(self, setup: Setup, device: str) -> None:
        """Put the clients' images on a device, or prepare to copy them when they are used."""
        clients = setup.clients
        reference = setup.reference_set
        self._seed = setup.seed
        self._batch_size = setup.training.batch_size
        self.reference = None if reference is None else DeviceSet.from_images(reference, device)
        """The server's reference images, if it has any."""
        movers = {data.client: data.moved for data in clients if data.moved is not None}
        self._since = {client: moved.round_index for client, moved in movers.items()}
        held = {(data.client, False): data for data in clients} | {
            (mover, True): movers[mover] for mover in movers
        }
        self._train = DeviceSets({key: data.train for key, data in held.items()}, device)
        self._test = DeviceSets({key: data.test for key, data in held.items()}, device)

    def load_training_set(self, client: int, round_index: int) -> DeviceSet:
        """Load the images that a client trains on in a round, from 0."""
        return self._train.load_set(self._make_key(client, round_index))

    def load_test_set(self, client: int, round_index: int) -> DeviceSet:
        """Load the images that a client is tested on in a round, from 0."""
        return self._test.load_set(self._make_key(client, round_index))

    def find_test_number(self, client: int, round_index: int) -> int:
        """Find a number that clients with the same test images share."""
        return self._test.find_set_number(self._make_key(client, round_index))

    def load_choice_set(self, client: int, round_index: int, choose_on: ChooseOn) -> DeviceSet:
        """Load the images on which a client chooses its model in a round, from 0."""
        if choose_on == "test":
            return self.load_test_set(client, round_index)
        if choose_on == "reference":
            assert self.reference is not None, "there are no reference images: set split.reference_images"
            return self.reference
        held = self.load_training_set(client, round_index)
        if choose_on == "train":
            return held
        # The seed of its training, so that this is the first batch that it then trains on.
        rng = make_generator(self._seed, "batches", client=client, round_index=round_index)
        first = torch.from_numpy(rng.permutation(len(held.labels))[: self._batch_size])
        return DeviceSet(held.images[first], held.labels[first])

    def _make_key(self, client: int, round_index: int) -> Key:
        """Build the key of the images that a client holds in a round, from 0."""
        return client, round_index >= self._since.get(client, round_index + 1)


def build_module(setup: Setup, device: str) -> nn.Module:
    """Build a run's model on a torch device, its weights not initialised.

    Raises:
        ConfigError: the model is unknown, or the images are too small for it, or to be cropped.
    """
    setup.training.check_size(setup.inputs.shape)
    module = _build_model(setup).to(device)
    if (by := setup.normalised_by) is not None:
        module = Normalised(module, by.means, by.deviations, device)
    if setup.training.precision == "bfloat16":
        module = MixedPrecision(module, device)
    return module


def find_layer_prefix(setup: Setup) -> str:
    """Find what stands before the name of a model's layer in `build_module`."""
    wrappers = (setup.normalised_by is not None) + (setup.training.precision == "bfloat16")
    return "module." * wrappers


def build_flat_module(setup: Setup, device: str) -> FlatModule:
    """Build the workspace for a run's model on a torch device, as `build_module`."""
    head = find_head(setup.model)
    return FlatModule(
        build_module(setup, device),
        None if head is None else find_layer_prefix(setup) + head,
        build_layout(setup.model, setup.inputs, setup.num_classes),
    )


def _build_model(setup: Setup) -> nn.Module:
    """Build a run's model as its registry entry has it, without normalisation and mixed precision."""
    return build_blank(setup.model, setup.inputs, setup.num_classes, setup.seed)


def group_tasks_by_stack(tasks: Sequence[TrainTask], num_slots: int) -> list[list[TrainTask]]:
    """Group tasks by stack, in the order in which the stacks' first tasks come."""
    stacks: dict[int, list[TrainTask]] = {}
    for task in tasks:
        stacks.setdefault(task.client // num_slots, []).append(task)
    return list(stacks.values())


@dataclass(frozen=True)
class Turn:
    """A client's turn in a round, up to its training."""

    task: TrainTask
    memory: Memory
    """What its last training left."""
    start: Vector
    """The model that it trains, shape (P,); only read."""
    held: DeviceSet
    """Its training images."""
    chosen: int
    """Position of the model that it trains."""
    on_server: Counts | None
    """That model on the server's test set, if it is tested before its training."""
    seconds: float
    """Seconds of choosing and testing the model."""
    losses: dict[str, NDArray[Any]]
    """Losses of the candidates, by the name of their output; empty if the order does not demand them."""

    @property
    def bytes_of_losses(self) -> int:
        """Bytes that the losses take; on reference images they are the server's own work."""
        is_sent = self.task.order.choose_on != "reference"
        return sum(losses.nbytes for losses in self.losses.values()) if is_sent else 0


class StackTraining:
    """Trains the clients of one process by stacks."""

    def __init__(self, setup: Setup, device: str) -> None:
        self._setup = setup
        self._stack = Stack(build_module(setup, device), setup.training.stacked)

    def train_stack(self, turns: Sequence[Turn]) -> tuple[list[LocalResult], float]:
        """Train the clients of one stack, each on its own images.

        Returns:
            The results in the order of the turns, and a client's share of the seconds.

        Raises:
            ConfigError: a client is to train by a rule, or for a number of steps of its own.
        """
        members = {}
        training = self._setup.training.in_round(turns[0].task.round_index)
        for turn in turns:
            task = turn.task
            held = turn.held
            if task.order.rule != PLAIN or task.order.steps is not None:
                raise ConfigError(self._setup.training.not_stacked)
            rng = make_generator(
                self._setup.seed, "batches", client=task.client, round_index=task.round_index
            )
            slot = task.client % self._stack.num_slots
            members[slot] = Member(turn.start, held.images, held.labels, rng, turn.memory)
        begun = perf_counter()
        # Slots without a client stay empty: the bits of a client do not depend on who else is in its stack.
        results = train_together(self._stack, members, training)
        return [results[slot] for slot in members], (perf_counter() - begun) / len(turns)


def build_stacks(setup: Setup, device: str) -> StackTraining | None:
    """Build what trains clients by stacks; None if they train one after the other.

    So do those of a model that draws random numbers itself: `vmap` would draw others than for a client alone.
    """
    if setup.training.stacked == 1:
        return None
    # Whether a model draws is found by running it once; two examples, since BatchNorm needs more than one.
    batch = torch.from_numpy(draw_examples(setup.inputs, 2, np.random.default_rng(0)))
    if draws_random_numbers(_build_model(setup), convert_to_inputs(batch)):
        return None
    return StackTraining(setup, device)
