"""Local training of one client: a pure function of model, data, settings and generator.

This is where a run's time goes. Images lie on the device as one tensor, channels last; an epoch takes
its batches from them in a seeded order; the optimizer works on one flat tensor; nothing is read back from the
device before the last epoch ends. Shapes: N images, P entries of a state vector of which W are parameters.
"""

from collections.abc import Callable
from functools import partial
from math import nan

import numpy as np
import torch
from torch import Tensor

from fedgrid.algorithms.contract.local_rule import PLAIN, LocalRule, LocalSteps
from fedgrid.algorithms.updates.source import Vector
from fedgrid.engine.federation.models.flat_vectors import FlatModule
from fedgrid.engine.federation.own_code import own_code
from fedgrid.engine.federation.seeds import seed_all
from fedgrid.engine.federation.training import task
from fedgrid.engine.federation.training.batches import batches, channels_last, draw_moves
from fedgrid.engine.federation.training.confusion import Counts
from fedgrid.engine.federation.training.evaluation import Logits, set_mode
from fedgrid.engine.federation.training.layers import reset_norms, smallest_batch
from fedgrid.engine.federation.training.local_model import Local
from fedgrid.engine.federation.training.results import NOTHING, OPTIMIZER, PERSONAL, LocalResult, Memory
from fedgrid.engine.federation.training.settings import LocalTraining


@torch.enable_grad()
def train(
    flat: FlatModule,
    start: Vector,
    images: Tensor,
    labels: Tensor,
    training: LocalTraining,
    rng: np.random.Generator,
    memory: Memory = NOTHING,
    *,
    rule: LocalRule = PLAIN,
    payload: Memory = NOTHING,
    reference: Tensor | None = None,
    max_steps: int | None = None,
    test: Callable[[Logits], Counts] | None = None,
) -> LocalResult:
    """Train from `start` on all images for `training.local_epochs` epochs, or `training.local_steps` steps.

    A last batch of a single image is left out for models with BatchNorm, which has no variance there. Model
    and rule may draw from the generators of the process, which are seeded here; the caller restores them.

    Args:
        flat: the workspace; its former content is overwritten.
        start: the whole state to start from, shape (P,); only read.
        images: as `ImageSet.images`, images best with channels last, on the module's device.
        labels: as `ImageSet.labels`, on the same device.
        training: the settings.
        rng: draws one permutation of the images an epoch; children of it draw crops and flips,
            and what the model draws itself, such as dropout.
        memory: `LocalResult.memory` of the client's last round; without it the optimizer starts fresh.
        rule: hooks into this loop.
        payload: the rule's arrays.
        reference: the server's reference images for rules that predict on them.
        max_steps: stop after this many optimizer steps; None: as `training` says.
        test: tests what the rule has the trained model say of inputs (`LocalSteps.test`); None: nothing does.

    Raises:
        ConfigError: batches of one image for a model with BatchNorm.
    """
    size, smallest = training.batch_size, smallest_batch(flat.module, training.batch_size)
    moves, own = rng.spawn(2)
    is_round, max_steps = max_steps is None, training.local_steps if max_steps is None else max_steps
    seed_all(str(flat.weights.device), own)
    with own_code(rule, "start", None):
        flat.write(_restore_own_entries(start, rule, memory))
        if is_round and training.buffers == "reset":
            reset_norms(flat.module)
        local = Local(flat, (images, labels), training, memory, payload, reference)
        begins = range(0, len(labels) - smallest + 1, size)
        local.plan(len(begins), max_steps)
        set_mode(flat.module, training=True)
        steps = rule.start(local)
        local.note_start(rule)
        pixels = channels_last(images)
        logits: list[Tensor] = []
        targets: list[Tensor] = []
        for epoch_index in range(local.num_epochs):
            local.epoch_index = epoch_index
            order = torch.from_numpy(rng.permutation(len(labels))).to(labels.device, non_blocking=True)
            moved = draw_moves(len(order), training.augment, moves, order.device)
            for begin, inputs in zip(begins, batches(pixels, order, moved, size), strict=False):
                if len(logits) == local.num_steps:
                    break
                local.positions = order[begin : begin + size]
                targets.append(labels.index_select(0, local.positions))
                logits.append(steps.step(local, inputs, targets[-1]))
        finished = steps.finish(local, len(logits))
        outputs, own_memory = finished.outputs, finished.memory
        local.check_start(rule)
        tested = None if test is None else test(partial(steps.test, local))
    model = flat.read()
    return LocalResult(
        model,
        *_running_means(logits, targets, training.local_epochs if max_steps is None else 1),
        steps=len(logits),
        outputs=outputs,
        memory={**local.optimizer_memory(), **_own_entries(model, rule), **own_memory},
        tested=tested,
        has_own_test=type(steps).test is not LocalSteps.test,
    )


def _restore_own_entries(start: Vector, rule: LocalRule, memory: Memory) -> Vector:
    """Return the model with the client's own entries in their place, once it has any."""
    if PERSONAL not in memory or not rule.personal:
        return start
    lengths = [stop - first for first, stop in rule.personal]
    if memory[PERSONAL].shape != (sum(lengths),):
        raise ValueError(
            f"{len(memory[PERSONAL])} personal entries are remembered, but this model has {sum(lengths)}"
        )
    model, parts = start.copy(), np.split(memory[PERSONAL], np.cumsum(lengths)[:-1])
    for (first, stop), part in zip(rule.personal, parts, strict=True):
        model[first:stop] = part
    return model


def _own_entries(model: Vector, rule: LocalRule) -> Memory:
    own = [model[first:stop] for first, stop in rule.personal]
    return {PERSONAL: np.concatenate(own)} if own else {}


def _running_means(
    logits: list[Tensor], labels: list[Tensor], num_epochs: int
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return mean loss and accuracy of each epoch from all batches, read back in one go."""
    if not logits:
        return (nan,) * num_epochs, (nan,) * num_epochs
    outputs, targets = torch.cat(logits).double(), torch.cat(labels)
    losses, hits = task.loss(outputs, targets, "none"), task.hits(outputs, targets)
    means = torch.stack([losses, hits.double()]).view(2, num_epochs, -1).mean(dim=2).tolist()
    return tuple(means[0]), tuple(means[1])


def check_finished(rule: LocalRule, result: LocalResult) -> None:
    """Check that a rule has returned the arrays that it declares, because only they are sent and kept.

    Raises:
        FinalError: the rule, a plugin's, returned others, or something else than arrays of numbers.
        ValueError: the package's did.
    """
    kinds = {
        "outputs": (set(rule.outputs), result.outputs),
        "remembers": (set(rule.remembers), _without(result.memory, OPTIMIZER, PERSONAL)),
    }
    with own_code(rule, "start", None):
        for kind, (declared, returned) in kinds.items():
            if declared != set(returned):
                raise ValueError(
                    f"{type(rule).__name__}.{kind} declares {sorted(declared)}, its `finish` returned "
                    f"{sorted(returned)}"
                )
            for name, array in returned.items():
                if not isinstance(array, np.ndarray) or array.dtype.kind not in "biuf":
                    what = (
                        f"an array of {array.dtype}"
                        if isinstance(array, np.ndarray)
                        else type(array).__name__
                    )
                    raise ValueError(
                        f"`finish` returned {what} as {name}; expected a NumPy array of real numbers, as "
                        "np.array(value) or tensor.cpu().numpy()"
                    )


def _without(memory: Memory, *names: str) -> Memory:
    return {name: array for name, array in memory.items() if name not in names}
