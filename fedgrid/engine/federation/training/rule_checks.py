"""Checks of what a local rule's hooks return, so that a mistake in a plugin is named where it happens.

Shapes: N images of a batch, L classes, W parameters of the model.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

from fedgrid.algorithms.contract.checks import BrokenContract, describe_value
from fedgrid.algorithms.contract.local_rule import Finished, LocalRule, LocalSteps
from fedgrid.engine.federation.errors import FinalError, find_plugin_file
from fedgrid.engine.federation.plugin_calls import plugin_call_context


@contextmanager
def rule_context(rule: LocalRule) -> Iterator[None]:
    """Run a training by a rule, which may be a plugin's, in the block of a `with`.

    Raises:
        FinalError: a hook broke the contract, or the plugin's code failed; names file and line.
    """
    try:
        with plugin_call_context(rule, "start", None):
            yield
    except BrokenContract as error:
        # The rule stands for hooks of the package's own class, such as `LocalSteps()` with a wrong mask.
        place = find_plugin_file(error.item_type, error.method) or find_plugin_file(type(rule), "start")
        raise FinalError(f"{place}{error}") from error


def check_steps(rule: LocalRule, steps: object) -> LocalSteps:
    """Check that `LocalRule.start` returned hooks.

    Raises:
        BrokenContract: it returned something else.
    """
    if not isinstance(steps, LocalSteps):
        raise BrokenContract(rule, "start", f"{describe_value(steps)}; expected a LocalSteps")
    return steps


def check_logits(
    steps: LocalSteps, method: str, logits: object, num_images: int, num_classes: int | None
) -> Tensor:
    """Check the logits that `LocalSteps.step` or `LocalSteps.test` returned.

    Args:
        steps: the hooks.
        method: name of the hook.
        logits: what it returned.
        num_images: N.
        num_classes: L; None: any number.

    Raises:
        BrokenContract: they are no tensor of floating numbers, shape (N, L).
    """
    if (
        not isinstance(logits, Tensor)
        or logits.dim() != 2
        or len(logits) != num_images
        or num_classes not in (None, logits.shape[1])
        or not logits.is_floating_point()
    ):
        expected = f"({num_images}, {'classes' if num_classes is None else num_classes})"
        raise BrokenContract(
            steps, method, f"{describe_value(logits)}; expected the logits of the batch, shape {expected}"
        )
    return logits


def check_loss(steps: LocalSteps, loss: object) -> Tensor:
    """Check that `LocalSteps.loss` returned a scalar with a graph.

    Raises:
        BrokenContract: it returned something else.
    """
    if not isinstance(loss, Tensor) or loss.numel() != 1 or not loss.requires_grad:
        raise BrokenContract(
            steps,
            "loss",
            f"{describe_value(loss)}; expected a scalar tensor with its graph, as functional.cross_entropy "
            "returns",
        )
    return loss


def check_penalty(steps: LocalSteps, penalty: object) -> Tensor:
    """Check that `LocalSteps.penalty`, if it returned something, returned a scalar.

    It may have no graph: a penalty of which a round has nothing yet may be a zero.

    Raises:
        BrokenContract: it returned something else.
    """
    if not isinstance(penalty, Tensor) or penalty.numel() != 1:
        raise BrokenContract(
            steps, "penalty", f"{describe_value(penalty)}; expected a scalar tensor with its graph, or None"
        )
    return penalty


def check_mask(steps: LocalSteps, weights: Tensor) -> Tensor:
    """Check the mask `LocalSteps.trains`, if there is one, of the parameters `weights`, shape (W,).

    Raises:
        BrokenContract: it is no bool tensor, shape (W,).
    """
    mask = steps.trains
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool or mask.shape != weights.shape:
        raise BrokenContract(
            steps,
            "trains",
            f"{describe_value(mask)}; expected a tensor of bool, shape {tuple(weights.shape)}, or None",
        )
    return mask


def check_finished(
    rule: LocalRule, steps: LocalSteps, finished: object, *, is_adaptation: bool = False
) -> Finished:
    """Check that `LocalSteps.finish` returned the arrays that the rule declares.

    Undeclared ones would be lost without a word, and the server waits for all outputs. Arrays of the memory
    may be left out.

    Args:
        rule: the rule.
        steps: the hooks.
        finished: what `finish` returned.
        is_adaptation: whether nothing of it is sent, so that outputs may be left out too.

    Raises:
        BrokenContract: it returned others, or something else than arrays of real numbers.
    """
    if not isinstance(finished, Finished):
        raise BrokenContract(
            steps, "finish", f"{describe_value(finished)}; expected a Finished, as `return Finished()`"
        )
    _check_arrays(rule, steps, "outputs", finished.outputs, rule.outputs)
    missing = [] if is_adaptation else sorted(set(rule.outputs) - set(finished.outputs))
    if missing:
        raise BrokenContract(
            steps,
            "finish",
            f"outputs without {', '.join(missing)}; expected each name in {type(rule).__name__}.outputs",
        )
    _check_arrays(rule, steps, "memory", finished.memory, rule.remembers)
    return finished


def _check_arrays(
    rule: LocalRule, steps: LocalSteps, kind: str, arrays: object, declared: tuple[str, ...]
) -> None:
    """Check one of the two mappings of a `Finished`: declared names, with arrays of real numbers."""
    if not isinstance(arrays, Mapping):
        raise BrokenContract(
            steps,
            "finish",
            f"{describe_value(arrays)} as {kind}; expected a dict of names and NumPy arrays",
        )
    for name, array in arrays.items():
        if name not in declared:
            attribute = f"{type(rule).__name__}.{'remembers' if kind == 'memory' else kind}"
            raise BrokenContract(
                steps,
                "finish",
                f"{name!r} in its {kind}; expected names in {attribute}, which are "
                f"{', '.join(declared) or 'none'}; add it there",
            )
        if not isinstance(array, np.ndarray) or array.dtype.kind not in "biuf":
            raise BrokenContract(
                steps,
                "finish",
                f"{describe_value(array)} as {name}; expected a NumPy array of real numbers, as "
                "np.array(value) or tensor.cpu().numpy()",
            )
