"""Local training of several clients at once, as one model whose tensors have one dimension more.

Every operation is then done once for all of them (`torch.func.vmap`), so that small models are no longer held
up by the start of each operation. The numbers are those of `federation.training.local` but for the last bits.

A stack has a fixed number of slots, and every batch the full size: empty slots, and what a client's last
batch lacks, are masked. So a client's bits depend on its slot alone, not on the other clients.

Shapes: S slots, N images of the client that has most, B images of a batch, L classes, T steps of an epoch,
E epochs, W parameters of a model, P entries of its whole state.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import nan, prod
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call, vmap

from fedgrid.algorithms.updates.source import Arrays, Vector
from fedgrid.engine.federation.models.flat_vectors import find_buffers, find_parameters
from fedgrid.engine.federation.training import task
from fedgrid.engine.federation.training.batches import (
    Moves,
    divide_into_blocks,
    draw_moves,
    gather_images,
    move_channels_first,
    move_channels_last,
)
from fedgrid.engine.federation.training.evaluation import convert_to_inputs
from fedgrid.engine.federation.training.layers import MaskedNorm, find_smallest_batch, mask_norms
from fedgrid.engine.federation.training.local import NO_ARRAYS, OPTIMIZER, LocalResult
from fedgrid.engine.federation.training.optimizers import STACKED_OPTIMIZERS, StackedOptimizer, clip_gradients
from fedgrid.engine.federation.training.settings import LocalTraining


@dataclass(frozen=True)
class Member:
    """What one client of a stack trains on."""

    start: Vector
    """The whole state to start from, shape (P,); only read."""
    images: Tensor
    """As `ImageSet.images`, on the stack's device."""
    labels: Tensor
    """As `ImageSet.labels`, shape (images,)."""
    rng: np.random.Generator
    """As in `local.train_client`, which draws the same batches from it."""
    memory: Arrays = field(default_factory=dict)
    """As in `local.train_client`."""


class Stack:
    """The models of S clients on one device: a workspace for `train_together`.

    Args:
        module: a model; it is taken over and changed.
        num_slots: S.
    """

    def __init__(self, module: nn.Module, num_slots: int) -> None:
        """Make room for `num_slots` models of the module's kind; the module itself is taken over."""
        self.module = mask_norms(module)
        self.module.train()
        self._norms = [layer for layer in self.module.modules() if isinstance(layer, MaskedNorm)]
        named, buffers = find_parameters(module), find_buffers(module)
        sizes = [tensor.numel() for tensor in named.values()]
        first = next(iter(named.values()))
        self.num_slots = num_slots
        self.weights = torch.zeros(num_slots, sum(sizes), device=first.device)
        """Parameters of all models, shape (S, W), in the layout's order."""
        parts = zip(named.items(), self.weights.split_with_sizes(sizes, 1), strict=True)
        self._parameters = {
            name: part.view(num_slots, *like.shape).requires_grad_() for (name, like), part in parts
        }
        self.buffers = {
            name: torch.zeros(num_slots, *like.shape, dtype=like.dtype, device=like.device)
            for name, like in buffers.items()
        }

    @torch.no_grad()
    def write_states(self, starts: Mapping[int, Vector]) -> None:
        """Copy states, shape (P,), into their slots; the other slots become zero."""
        self.weights.zero_()
        num_weights = self.weights.shape[1]
        for slot, start in starts.items():
            # `torch.tensor` copies: a state may be a read-only view of shared memory.
            vector = torch.tensor(start, dtype=torch.float32, device=self.weights.device)
            self.weights[slot].copy_(vector[:num_weights])
            sizes = [prod(buffer.shape[1:]) for buffer in self.buffers.values()]
            parts = vector[num_weights:].split_with_sizes(sizes)
            for buffer, part in zip(self.buffers.values(), parts, strict=True):
                values = part.view(buffer.shape[1:])
                buffer[slot].copy_(values if buffer.is_floating_point() else values.round())

    @torch.no_grad()
    def read_states(self) -> NDArray[Any]:
        """Read the states of all slots, float32, shape (S, P)."""
        buffers = [buffer.view(self.num_slots, -1).float() for buffer in self.buffers.values()]
        states: NDArray[Any] = torch.cat([self.weights, *buffers], 1).cpu().numpy()
        return states

    def compute_logits(self, images: Tensor, mask_SB: Tensor) -> Tensor:
        """Compute the models' outputs, (S, B, L), for inputs of shape (S, B, channels, height, width)."""
        return vmap(self._compute_one)(self._parameters, self.buffers, images, mask_SB)

    def compute_gradient(self, loss: Tensor) -> Tensor:
        """Compute the gradient of a scalar with respect to `weights`, shape (S, W)."""
        # A parameter that the loss does not reach has a gradient of zero, as in `local.train_client`.
        parts = torch.autograd.grad(loss, list(self._parameters.values()), materialize_grads=True)
        return torch.cat([part.reshape(self.num_slots, -1) for part in parts], 1)

    def _compute_one(
        self, parameters: dict[str, Tensor], buffers: dict[str, Tensor], images: Tensor, mask_B: Tensor
    ) -> Tensor:
        """Compute the outputs of one model; vmap runs it once for all slots."""
        # A module takes one argument, so the mask reaches its BatchNorm layers by an attribute.
        for norm in self._norms:
            norm.mask_B = mask_B
        outputs: Tensor = functional_call(self.module, (parameters, buffers), (images,))
        return outputs


@torch.enable_grad()
def train_together(
    stack: Stack, members: Mapping[int, Member], training: LocalTraining
) -> dict[int, LocalResult]:
    """Train several clients at once, each as `local.train_client` does without a rule.

    Args:
        stack: the workspace; its former content is overwritten.
        members: by slot, from 0; not all slots need one.
        training: the settings.

    Returns:
        By slot. A client with fewer batches than others waits at the end of each epoch.

    Raises:
        ConfigError: batches of one image for a model with BatchNorm.
    """
    size = training.batch_size
    used = _count_images(members, find_smallest_batch(stack.module, size), size)
    used_S = torch.tensor([used.get(slot, 0) for slot in range(stack.num_slots)]).to(stack.weights.device)
    stack.write_states({slot: member.start for slot, member in members.items()})
    memories = {
        slot: member.memory[OPTIMIZER] for slot, member in members.items() if OPTIMIZER in member.memory
    }
    optimizer = STACKED_OPTIMIZERS[training.optimizer](stack.weights, training, memories)
    # The first child of the generator, as in `local.train_client`, which spawns a second one for what a model
    # draws itself.
    moves = {slot: member.rng.spawn(1)[0] for slot, member in members.items()}
    # Whole batches, so that every batch has one shape; what is missing is masked.
    num_images = -(-max(used.values(), default=0) // size) * size
    logits: list[Tensor] = []
    targets: list[Tensor] = []
    for _ in range(training.local_epochs):
        orders = _draw_orders(members, used, moves, training, stack.weights.device)
        labels = _gather_labels(stack, members, orders, num_images)
        shown = _gather_batches(stack, members, orders, num_images, size)
        for begin, pixels in zip(range(0, num_images, size), shown, strict=True):
            batch = slice(begin, begin + size)
            inputs = convert_to_inputs(move_channels_first(pixels))
            counts_S = (used_S - begin).clamp(0, size)
            # Known without the device: it saves the copies of all tensors while every client still has
            # images.
            is_any_done = begin >= min(used.values())
            logits.append(
                _train_on_batch(
                    stack, optimizer, training, inputs, labels[:, batch], counts_S, is_any_done=is_any_done
                )
            )
            targets.append(labels[:, batch])
    states_SP = stack.read_states()
    losses_SE, accuracies_SE = _compute_running_means(logits, targets, used_S, training)
    optimizer_memory = optimizer.read_memory() if training.keep_optimizer_state else None
    return {
        slot: LocalResult(
            # Copies: a view of one row would hold the states of all slots in memory.
            model=states_SP[slot].copy(),
            losses=tuple(losses_SE[slot]),
            accuracies=tuple(accuracies_SE[slot]),
            steps=training.local_epochs * -(-used[slot] // size),
            outputs=NO_ARRAYS,
            memory=NO_ARRAYS if optimizer_memory is None else {OPTIMIZER: optimizer_memory[slot].copy()},
        )
        for slot in members
    }


def _count_images(members: Mapping[int, Member], min_images: int, size: int) -> dict[int, int]:
    """Count the images of an epoch by slot: all, without a last batch of fewer than `least`."""
    have = {slot: len(member.labels) for slot, member in members.items()}
    return {slot: count - (count % size if count % size < min_images else 0) for slot, count in have.items()}


@dataclass(frozen=True)
class _EpochOrder:
    """A client's images of an epoch, in its order."""

    places: Tensor
    """Positions of the images, int64, shape (images,)."""
    moves: Moves | None
    """Offsets and flips of the images; None: none."""

    def select_part(self, where: slice) -> "_EpochOrder":
        """Select some of the epoch's images."""
        return _EpochOrder(self.places[where], self.moves and self.moves.select_part(where))


def _draw_orders(
    members: Mapping[int, Member],
    used: Mapping[int, int],
    moves: Mapping[int, np.random.Generator],
    training: LocalTraining,
    device: torch.device,
) -> dict[int, _EpochOrder]:
    """Draw each client's order of an epoch, and the moves of its images."""
    orders = {}
    for slot, member in members.items():
        count = len(member.labels)
        places = torch.from_numpy(member.rng.permutation(count)).to(device, non_blocking=True)
        drawn = draw_moves(count, training.augment, moves[slot], device)
        # Drawn for all images, then cut: the same numbers are drawn as by `local.train_client`.
        orders[slot] = _EpochOrder(places, drawn).select_part(slice(used[slot]))
    return orders


def _gather_labels(
    stack: Stack, members: Mapping[int, Member], orders: Mapping[int, _EpochOrder], num_images: int
) -> Tensor:
    """Gather the labels of an epoch's images, shape (S, N)."""
    dtype = next(iter(members.values())).labels.dtype
    labels = torch.zeros(stack.num_slots, num_images, dtype=dtype, device=stack.weights.device)
    for slot, order in orders.items():
        labels[slot, : len(order.places)] = members[slot].labels[order.places]
    return labels


def _gather_batches(
    stack: Stack, members: Mapping[int, Member], orders: Mapping[int, _EpochOrder], num_images: int, size: int
) -> Iterator[Tensor]:
    """Gather the images of each batch, shape (S, B, H, W, C); those that a client lacks are zeros."""
    pixels = {slot: move_channels_last(member.images) for slot, member in members.items()}
    like = next(iter(pixels.values()))
    shape = like.shape[1:]
    for block in divide_into_blocks(num_images, size, stack.num_slots * size * prod(shape)):
        count = min(block.stop, num_images) - block.start
        images = torch.zeros(stack.num_slots, count, *shape, dtype=like.dtype, device=like.device)
        for slot, order in orders.items():
            due = order.select_part(block)
            images[slot, : len(due.places)] = gather_images(pixels[slot], due.places, due.moves)
        for batch in torch.split(images, size, dim=1):
            yield batch.contiguous()


def _train_on_batch(
    stack: Stack,
    optimizer: StackedOptimizer,
    training: LocalTraining,
    inputs: Tensor,
    labels_SB: Tensor,
    counts_S: Tensor,
    *,
    is_any_done: bool,
) -> Tensor:
    """Train each client on the first `counts_S` images of its batch; give the logits before the step."""
    mask_SB = torch.arange(labels_SB.shape[1], device=counts_S.device) < counts_S[:, None]
    logits = stack.compute_logits(inputs, mask_SB)
    losses_SB = task.compute_loss(logits.flatten(0, 1), labels_SB.flatten(), "none")
    losses_SB = torch.where(mask_SB, losses_SB.view_as(labels_SB), 0)
    # The sum over clients of their mean losses: each client's part of the gradient depends on its own loss
    # alone.
    gradient = stack.compute_gradient((losses_SB.sum(1) / counts_S.clamp(min=1)).sum())
    with torch.no_grad():
        clip_gradients(gradient, training.clip_gradient)
        tensors = [stack.weights, *optimizer.tensors]
        before = [tensor.clone() for tensor in tensors] if is_any_done else tensors
        optimizer.take_step(stack.weights, gradient)
        if is_any_done:
            # A client that has no image left must not move: momentum and Adam would take a step on a zero
            # gradient.
            for tensor, old in zip(tensors, before, strict=True):
                tensor.copy_(torch.where(counts_S[:, None] > 0, tensor, old))
    return logits.detach()


def _compute_running_means(
    logits: Sequence[Tensor], labels: Sequence[Tensor], used_S: Tensor, training: LocalTraining
) -> tuple[list[list[float]], list[list[float]]]:
    """Compute mean loss and accuracy of each slot's epochs, shapes (S, E), read back in one go."""
    num_epochs = training.local_epochs
    if not logits:
        nothing = [[nan] * num_epochs] * len(used_S)
        return nothing, nothing
    # By epoch and slot, an epoch's batches in a row: (E, S, T B).
    outputs, targets = (
        torch.stack(list(batches)).view(num_epochs, -1, *batches[0].shape).transpose(1, 2).flatten(2, 3)
        for batches in (logits, labels)
    )
    losses = task.compute_loss(outputs.flatten(0, 2).double(), targets.flatten(), "none")
    counted = torch.arange(targets.shape[2], device=used_S.device) < used_S[:, None]
    hits = task.find_hits(outputs, targets)
    sums = [
        torch.where(counted, values.view_as(targets).double(), 0).sum(2) / used_S for values in (losses, hits)
    ]
    means = torch.stack(sums).transpose(1, 2).tolist()
    return means[0], means[1]
