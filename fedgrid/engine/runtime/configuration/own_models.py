"""Trials of plugins' models before a run starts: what cannot be trained is refused by name.

Imports torch, which takes seconds: for such models only.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.jit import ScriptModule
from torch.jit._trace import TopLevelTracedModule
from torch.nn.parameter import is_lazy

from fedgrid.engine.federation.errors import ConfigError, find_plugin_file, find_plugin_line
from fedgrid.engine.federation.inputs import Inputs, draw_examples
from fedgrid.engine.federation.models import flat_vectors, registry
from fedgrid.engine.federation.models.flat_vectors import build_blank
from fedgrid.engine.federation.seeds import make_generator, temporary_seeds
from fedgrid.engine.federation.training import local
from fedgrid.engine.federation.training.evaluation import convert_to_inputs, predict_probabilities, set_mode
from fedgrid.engine.federation.training.layers import draws_random_numbers
from fedgrid.engine.federation.training.settings import LocalTraining
from fedgrid.engine.federation.training.stacked import Stack
from fedgrid.engine.runtime.configuration.module_contents import (
    GENERATORS,
    ModuleItem,
    find_shared_memory,
    iterate_contents,
)

ModelArguments = tuple[str, Inputs, int]
"""The name of a model, and what it is built for: inputs and the number of classes."""
IMAGES = 3
"""Number of images that a model is tried on."""
ROWS = 16
"""Number of outputs that are checked for probabilities."""
TRAINING = LocalTraining(local_epochs=1, batch_size=IMAGES, optimizer="adam", learning_rate=0.01)
"""The training of a trial."""
AGES = 10, 1000, 10**6
"""Numbers that stand for long training in a module that counts it: a warm-up may end only then."""
SENT = "make it a persistent buffer of float32"
SEEDED = "draw from torch's, NumPy's or Python's global generator"
UNSEEDED = (
    "its training gives other numbers each time, with the same seeds; draw what is random by torch.rand, "
    "np.random.rand or random.random, and keep what it remembers in a persistent buffer of float32, not "
    "outside the module"
)


@cache
def check_own_model(
    name: str,
    inputs: Inputs,
    num_classes: int,
    plugin_digests: tuple[str, ...],
    is_stacked: bool,
) -> None:
    """Check a plugin's model by building and training it, once for all runs.

    Args:
        name: Its name.
        inputs: What an example is.
        num_classes: Number of classes, L.
        plugin_digests: Digests of the run's plugins, which distinguish versions of the model in this cache.
        is_stacked: Whether clients train as one model (`training.stacked`).

    Raises:
        ConfigError: it cannot be built or trained, differs from one build to the next, or does not make a
            number for each class of these inputs.
    """
    plugin = find_plugin_file(registry.find_entry(name).function)
    try:
        with temporary_seeds("cpu", make_generator(0, "check")):
            problem = _find_problem((name, inputs, num_classes), is_stacked)
    except Exception as error:
        # Whatever the plugin's code raises.
        kind = "" if isinstance(error, ConfigError) else f"{type(error).__name__}: "
        problem = f"fails on {inputs}: {kind}{error}"
        plugin = find_plugin_line(error) or plugin
    if problem is not None:
        raise ConfigError(f"{plugin}model {name}: {problem}", ("model",))


@cache
def explain_probabilities(
    name: str, inputs: Inputs, num_classes: int, plugin_digests: tuple[str, ...]
) -> str | None:
    """Explain in one line that a model of classes returns probabilities, not logits; None: it does not.

    It was checked before. Its rows are not negative and add up to 1, with its first weights and with others,
    for which first weights of zero do not: such a module may return any numbers.

    Args:
        name: Its name.
        inputs: What an example is.
        num_classes: Number of classes, L.
        plugin_digests: Digests of the run's plugins, which distinguish versions of the model in this cache.
    """
    model_arguments = name, inputs, num_classes
    images = convert_to_inputs(_make_examples(model_arguments, ROWS)[0])
    with temporary_seeds("cpu", make_generator(0, "outputs")), torch.no_grad():
        module = build_blank(*model_arguments).eval()
        for _ in range(2):
            outputs = module(images)
            sums = outputs.sum(dim=1)
            if (outputs < 0).any() or not torch.allclose(sums, torch.ones_like(sums)):
                return None
            for parameter in flat_vectors.find_parameters(module).values():
                parameter.add_(torch.randn_like(parameter), alpha=0.1)
    return (
        f"{find_plugin_file(registry.find_entry(name).function)}model {name} returns probabilities, and the "
        "loss, the "
        "cross-entropy, takes logits: it learns slowly; leave out the softmax at its end, or return the "
        "logarithm"
    )


def _find_problem(model_arguments: ModelArguments, is_stacked: bool) -> str | None:
    """Find what is wrong with a model, in one line with what to do; None if nothing is."""
    num_classes = model_arguments[-1]
    module, again = build_blank(*model_arguments), build_blank(*model_arguments)
    images = convert_to_inputs(_make_examples(model_arguments, IMAGES)[0])
    problem = (
        _check_tensors(module)
        or _check_first_passes(build_blank(*model_arguments), images)
        or _check_traces(module)
        or _check_first_values(model_arguments)
        or _check_outputs(module, again, images, num_classes)
        # By now a weight that is computed from others, as by spectral_norm, is a tensor of its own.
        or find_shared_memory(module)
        or _check_head(build_blank(*model_arguments), registry.find_entry(model_arguments[0]).head, images)
        or _check_training(model_arguments)
    )
    if problem is None and is_stacked and not draws_random_numbers(again, images.clone()):
        problem = _check_stack(build_blank(*model_arguments), build_blank(*model_arguments), images)
    return problem


def _make_examples(model_arguments: ModelArguments, count: int) -> tuple[Tensor, Tensor]:
    """Make examples and labels: classes, or numbers for a model with one output."""
    _, inputs, num_classes = model_arguments
    examples = torch.from_numpy(draw_examples(inputs, count, np.random.default_rng(0)))
    labels = torch.arange(count)
    return examples, labels % num_classes if num_classes > 1 else labels / count


def _collect_tensors(module: nn.Module) -> dict[str, Tensor]:
    """Collect the parameters and buffers of a module, by name."""
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


def _check_tensors(module: nn.Module) -> str | None:
    """Find a tensor without a size, or of a type that cannot be trained or averaged."""
    parameters, buffers = flat_vectors.find_parameters(module), flat_vectors.find_buffers(module)
    # Not `get_submodule`, which a scripted module lacks.
    layers = dict(module.named_modules())
    for key, tensor in {**parameters, **buffers}.items():
        layer = type(layers[key.rpartition(".")[0]]).__name__
        if is_lazy(tensor):
            return f"{key} ({layer}) has no size before the first images; take the layer that is given one"
        if tensor.dtype not in (torch.float32, torch.int64):
            instead = "register_buffer(..., persistent=False), which is not sent and has to stay as built"
            return (
                f"{key} ({layer}) is {str(tensor.dtype).removeprefix('torch.')}; what trains or is averaged "
                f"is float32: take .float(), or {instead if key in buffers else 'freeze it'}"
            )
    return None


def _check_first_passes(module: nn.Module, images: Tensor) -> str | None:
    """Find a parameter that a pass makes, or an output of a wrong kind; or find that no parameter trains."""
    built = dict(module.named_parameters())
    for when in ("tests", "training"):
        outputs = _run_pass(module, images, training=when == "training")
        if not isinstance(outputs, Tensor):
            kind = type(outputs).__name__
            return f"its output in {when} is {kind}; return one tensor, a number for each class"
        if outputs.dtype not in (torch.float32, torch.float64):
            kind = str(outputs.dtype).removeprefix("torch.")
            return f"its output in {when} is of {kind}; return float32, as by .float()"
    if late := [key for key, _ in module.named_parameters() if key not in built]:
        return _describe_late_parameter(late[0])
    if not flat_vectors.find_parameters(module):
        return "none of its parameters trains; give it one with requires_grad=True"
    return None


def _run_pass(module: nn.Module, images: Tensor, *, training: bool) -> Any:
    """Compute the module's outputs of images, which it may change; its `train_once` need not return
    itself.
    """
    set_mode(module, training=training)
    return module(images.clone())


def _describe_late_parameter(key: str) -> str:
    """Describe that a parameter is made too late."""
    return f"{key} is made in a first forward pass, but has to be there before; make it in __init__"


def _check_traces(module: nn.Module) -> str | None:
    """Find a traced layer that would stay in the mode in which it was traced."""
    for name, layer in module.named_modules():
        for part in layer.modules() if isinstance(layer, TopLevelTracedModule) else ():
            if any(word in str(part.original_name) for word in ("BatchNorm", "Dropout")):
                return (
                    f"{name or 'it'} is traced, so that its {part.original_name} cannot change between "
                    "training and tests; take the module itself, or torch.jit.script"
                )
    return None


def _check_first_values(model_arguments: ModelArguments) -> str | None:
    """Find values that `build` loads or sets, and fedgrid would draw."""
    first, second = (flat_vectors.read_vector(build_blank(*model_arguments, 0, number)) for number in (0, 1))
    start = flat_vectors.draw_initial_vector(*model_arguments, 0)
    for key, where, shape in flat_vectors.build_layout(*model_arguments).slices():
        # Only tensors with two dimensions or more: biases and the weights of norms are often all zero or one,
        # in every model.
        is_set = len(shape) > 1 and np.array_equal(first[where], second[where])
        if is_set and not np.array_equal(first[where], start[where]):
            return (
                f"{key} would lose the values that the model gives, as fedgrid draws those of build=; give "
                "ModelEntry the function as module=, called with (inputs, num_classes), which keeps them"
            )
    return None


def _check_outputs(module: nn.Module, again: nn.Module, images: Tensor, num_classes: int) -> str | None:
    """Find outputs of a wrong shape, and what differs from one build of the model to the next."""
    with torch.no_grad():
        outputs = [_run_pass(built, images, training=False) for built in (module, again)]
    if outputs[0].shape != (IMAGES, num_classes):
        return (
            f"an output of shape {tuple(outputs[0].shape)} of {IMAGES} images; expected "
            f"({IMAGES}, {num_classes}), a number for each class: the function is given num_classes"
        )
    differing = _find_differing(module, again)
    if differing or not torch.equal(*outputs):
        return (
            f"{differing[0] if differing else 'its output in tests'} is another one each time; draw what is "
            "random from torch's, NumPy's or Python's global generator, and in tests (self.training) nothing"
        )
    return None


def _check_head(module: nn.Module, head: str | None, images: Tensor) -> str | None:
    """Find that the head is no module, or gets no features."""
    if head is None:
        return None
    if head not in (names := dict(module.named_modules())):
        return f"head='{head}' is no module of it; its last one is '{list(names)[-1]}'"
    flat = flat_vectors.FlatModule(module, head)
    _run_pass(flat.module, images, training=False)
    if flat.features is None or len(flat.features) != IMAGES:
        return f"head='{head}' is given no features, a row for each image, as the first argument of its call"
    return None


def _find_differing(module: nn.Module, again: nn.Module) -> list[str]:
    """Find the tensors in which two builds of a model differ."""
    others = _collect_tensors(again)
    return [key for key, tensor in _collect_tensors(module).items() if not torch.equal(tensor, others[key])]


def _check_training(model_arguments: ModelArguments) -> str | None:
    """Find what a training changes and no message carries: numbers would depend on which clients came before.

    A client trains in a fresh module, and after others in another one: from one state, with the same seeds.
    """
    fresh, used = (flat_vectors.FlatModule(build_blank(*model_arguments)) for _ in range(2))
    start = fresh.read_vector()
    examples = _make_examples(model_arguments, 5 * IMAGES)
    sent = flat_vectors.read_layout(fresh.module).names

    def train_once(flat: flat_vectors.FlatModule, where: slice) -> bytes:
        """Train a client on some of the examples; return all bits of the result."""
        images, labels = (part[where] for part in examples)
        result = local.train_client(flat, start, images, labels, TRAINING, np.random.default_rng(0))
        outputs = predict_probabilities(flat.module, images)
        return b"".join([result.model.tobytes(), outputs.tobytes(), repr(result.losses).encode()])

    def collect_unsent() -> dict[str, ModuleItem]:
        """Collect what the used module holds and no message carries."""
        used.write_vector(start)
        return {item.name: item for item in iterate_contents(used.module) if item.name not in sent}

    def digest_unsent() -> dict[str, object]:
        """Compute the digests of that."""
        return {name: item.digest for name, item in collect_unsent().items()}

    one, others = slice(2 * IMAGES), slice(2 * IMAGES, None)
    # 1. The client alone, in a fresh module.
    expected = train_once(fresh, one)
    if fresh.replaced_parameters:
        name = fresh.replaced_parameters[0]
        return f"{name} gets new .data in forward; write to it in place, as by .data.copy_()"
    if problem := _check_tensors(fresh.module):
        return f"after a training {problem}"
    # 2. The same client after others, in a module that these have used. Digests in between say what has
    # changed.
    built = digest_unsent()
    train_once(used, others)
    after_others = digest_unsent()
    again = train_once(used, one)
    after_one = digest_unsent()
    now = flat_vectors.find_parameters(used.module)
    # 3. Parameters must be trained, or not, from the first round to the last.
    if moved := [key for key, _ in used.module.named_parameters() if (key in now) != (key in sent)]:
        return f"{moved[0]} changes its requires_grad in training, but what trains is as it was built"
    changed = [name for name, digest in after_one.items() if digest != after_others.get(name)]
    # 4. Larger tensors that change, or other results: name the likeliest cause. If a fresh module too gives
    # other results, it is not the memory but an unseeded draw.
    named = [
        name
        for name, tensor in _collect_tensors(used.module).items()
        if name in changed and tensor.numel() > 1
    ]
    if named or again != expected:
        first = [name for name, digest in after_others.items() if digest != built.get(name)]
        suspects = [*named, *changed, *first]
        if (
            not suspects
            or train_once(flat_vectors.FlatModule(build_blank(*model_arguments)), one) != expected
        ):
            return UNSEEDED
        if suspects[0] in flat_vectors.find_buffers(used.module):
            return _describe_late_parameter(suspects[0])
        return _describe_unsent(suspects[0], collect_unsent())
    # 5. Counters and lists that change: set them as after long training, and see whether results change.
    for number in AGES:
        aged = [item for name, item in collect_unsent().items() if name in changed and item.age_value(number)]
        if not aged:
            return None
        try:
            is_same = train_once(used, one) == expected
        except Exception:
            # Whatever the plugin's code raises: what it counts matters.
            is_same = False
        if not is_same:
            return _describe_unsent(aged[0].name, collect_unsent())
    return None


def _describe_unsent(name: str, items: Mapping[str, ModuleItem]) -> str:
    """Describe what changes in training and is not sent, and what to do."""
    draws_itself = name in items and isinstance(items[name].value, GENERATORS)
    return (
        f"{name} changes in training, but is not sent, so that a client's numbers would depend on who "
        f"trained before; {SEEDED if draws_itself else SENT}"
    )


def _check_stack(module: nn.Module, alone: nn.Module, images: Tensor) -> str | None:
    """Compare a client with two images in a stack, whose batch has room for three, with it alone."""
    start = flat_vectors.read_vector(alone)
    stack = Stack(module, 2)
    entered = [""]
    for key, layer in stack.module.named_modules():
        if isinstance(layer, ScriptModule):
            return f"{key or 'it'} is scripted, which cannot be part of a stack; set training.stacked=1"
        note = f"{key} ({type(layer).__name__})"
        layer.register_forward_pre_hook(lambda *_, note=note: entered.append(note))
    stack.write_states({0: start, 1: start})
    try:
        logits = stack.compute_logits(images.expand(2, *images.shape), torch.arange(IMAGES).expand(2, -1) < 2)
        stack.compute_gradient(logits.sum())
    except Exception as error:
        # Whatever torch raises of a layer.
        cause = str(error).partition(". ")[0]
        return f"{entered[-1]} cannot be part of a stack of clients: {cause}; set training.stacked=1"
    outputs = _run_pass(alone, images[:2], training=True)
    # A stack adds up in another order, so its numbers are equal up to the rounding of float32.
    is_same = np.allclose(stack.read_states()[0], flat_vectors.read_vector(alone), atol=1e-4)
    if not is_same or not torch.allclose(logits[0, :2], outputs, atol=1e-4):
        return "its images depend on others of their batch, which a stack fills up; set training.stacked=1"
    return None
