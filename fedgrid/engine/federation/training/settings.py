"""The sections `training` and `evaluation` of a run's configuration."""

from collections.abc import Sequence
from math import cos, pi
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from fedgrid.algorithms.contract.section import PositiveInt, Section
from fedgrid.engine.federation.errors import ConfigError

Augment = Literal["crop", "flip"]
Precision = Literal["float32", "bfloat16"]
PAD = 4
"""Pixels on each side of an image that is cropped at random."""
MAX_STACKED = 10_000
"""Most clients in a stack."""
MAX_COUNT = 1_000_000
"""Most rounds, or epochs in a round: more are a typing error."""


class Schedule(Section):
    """How the clients' learning rate changes by round. All numbers of rounds are of the run's, from 1.

    Args:
        kind: shape of the schedule. Default: `constant`.
        warmup: rounds of linear growth. Default: 0.
        rounds: length of a cosine. Required with `cosine` alone.
        every: rounds between two steps. Required with `step` alone.
        factor: factor of a step. Required with `step` alone.
    """

    kind: Literal["constant", "step", "cosine"] = "constant"
    """`step` multiplies the rate by `factor` after `every` rounds. `cosine` lowers it towards 0 along half a
    cosine of `rounds` rounds, whatever the run's own number; later rounds have the rate of the last one."""
    warmup: Annotated[int, Field(ge=0, le=MAX_COUNT, strict=True)] = 0
    """Rounds in which the rate grows linearly, the last of which has the full rate. They are the first of a
    cosine's `rounds`; a step's `every` counts after them."""
    rounds: Annotated[PositiveInt, Field(le=MAX_COUNT)] | None = None
    """Length of a cosine in rounds, with its warm-up."""
    every: Annotated[PositiveInt, Field(le=MAX_COUNT)] | None = None
    """Rounds between two steps."""
    factor: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Factor of the rate at a step."""

    omitted_defaults = ("warmup", "rounds", "every", "factor")

    @model_validator(mode="after")
    def _keys_are_of_the_kind(self) -> Self:
        """Check that the keys of the kind are given, and no others."""
        needed = {"step": {"every", "factor"}, "cosine": {"rounds"}}.get(self.kind, set())
        # A key of another kind would have no effect, and yet change the run's id.
        given = {key for key in ("rounds", "every", "factor") if getattr(self, key) is not None}
        if given != needed:
            names = " and ".join(sorted(needed)) or "none of rounds, every and factor"
            raise ValueError(f"kind {self.kind} takes {names}; given: {', '.join(sorted(given)) or 'none'}")
        if self.rounds is not None and self.rounds <= self.warmup:
            raise ValueError(f"rounds = {self.rounds} are all warm-up ({self.warmup}); take more rounds")
        return self

    def share(self, round_index: int) -> float:
        """Compute the rate of a round, counted from 0, as a share of `training.learning_rate`."""
        if round_index < self.warmup:
            return (round_index + 1) / self.warmup
        since = round_index - self.warmup
        if self.every is not None and self.factor is not None:
            return self.factor ** (since // self.every)
        if self.rounds is not None:
            length = self.rounds - self.warmup
            # Rounds beyond the cosine's length have the rate of its last round, which is not quite 0.
            return (1 + cos(pi * min(since, length - 1) / length)) / 2
        return 1.0


class LocalTraining(Section):
    """Local training of a client in a round. Values for each data set: Table 3 of the OCFL papers."""

    local_epochs: Annotated[PositiveInt, Field(le=MAX_COUNT)] = 3
    """Passes of a client over its training images in a round."""
    batch_size: PositiveInt
    """Images in a batch."""
    optimizer: Literal["sgd", "adam"]
    """The clients' optimizer; the server's is a setting of the algorithm."""
    learning_rate: Annotated[float, Field(gt=0)]
    """Learning rate of the clients' optimizer."""
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Momentum of SGD."""
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    """L2 penalty added to the gradient, as `torch.optim` does it."""
    keep_optimizer_state: bool = False
    """Whether a client's momentum or Adam moments last from round to round; False: they start at zero in
    each."""
    tf32: bool = False
    """Whether a GPU may round factors in convolutions and matrix products to TF32, ten bits after the point,
    which is faster. No effect on a CPU."""
    augment: tuple[Augment, ...] = ()
    """Random changes of training images, drawn again in each epoch: `crop`, out of the image padded by four
    pixels of its reflection, and `flip`, left to right. Common to all algorithms of a scenario and seed."""
    normalise: Literal["none", "dataset"] = "none"
    """Range of the pixels that models are given: from 0 to 1, or with mean 0 and deviation 1 in each channel
    over the data set's pool. In tests too."""

    precision: Precision = "float32"
    """Precision in which a model computes, in training and in tests: `bfloat16` is float32 with eight
    significant bits instead of 24. Weights, optimizer, BatchNorm's statistics, logits and losses are float32
    in either."""

    stacked: Annotated[PositiveInt, Field(le=MAX_STACKED)] = 1
    """Number of clients that train at once in one process, as one model: clients 0 to S - 1, then S to 2 S
    - 1 ... Their numbers are those of one after the other (1) but for the last bits; only for plain
    training."""

    local_steps: Annotated[PositiveInt, Field(le=MAX_COUNT)] | None = None
    """Optimizer steps of a client in a round, a batch each, in place of `local_epochs`, which is then 1. Once
    all its images have been used, the batches go on in a new order."""
    schedule: Schedule = Schedule()
    """Learning rate by round, as in `{kind: cosine, rounds: 100, warmup: 5}`, or
    `{kind: step, every: 20, factor: 0.5}`. Adaptations before a test have the round's rate too."""
    clip_gradient: Annotated[float, Field(gt=0)] | None = None
    """Largest Euclidean norm of a batch's gradient over all parameters, with what a local rule adds and
    before weight decay; a longer one is scaled down, as by `torch.nn.utils.clip_grad_norm_`."""

    buffers: Literal["mean", "local", "reset"] = "mean"
    """Treatment of BatchNorm's statistics and counters. `mean`: averaged like parameters. `local`: each
    client keeps its own and is tested with them, a newcomer starts from the initial ones; the server
    has none, so there is no test on its images. `reset`: clients start each round from the initial
    ones; the statistics at its end are averaged and tested."""

    # Keys that came after the first stored runs: left out of the JSON at their defaults, so that older runs
    # keep their ids.
    omitted_defaults: ClassVar[tuple[str, ...]] = (
        "augment",
        "normalise",
        "precision",
        "stacked",
        "local_steps",
        "schedule",
        "clip_gradient",
        "buffers",
    )

    @field_validator("augment", mode="before")
    @classmethod
    def _one_name_is_a_list_of_one(cls, given: object) -> object:
        """Read a single name as a list of one."""
        return (given,) if isinstance(given, str) else given

    @field_validator("augment")
    @classmethod
    def _augment_is_a_set(cls, augment: tuple[Augment, ...]) -> tuple[Augment, ...]:
        """Sort the names, so that two orders are one configuration; refuse a name that stands twice."""
        if len(set(augment)) < len(augment):
            raise ValueError(f"{list(augment)} lists something twice; list each once")
        return tuple(sorted(augment))

    @model_validator(mode="after")
    def _momentum_is_of_sgd(self) -> Self:
        """Refuse a momentum with another optimizer than SGD."""
        if self.momentum and self.optimizer != "sgd":
            raise ValueError(
                f"momentum = {self.momentum:g} has no effect with optimizer {self.optimizer}, only with sgd"
            )
        return self

    @model_validator(mode="after")
    def _steps_are_in_place_of_epochs(self) -> Self:
        """Refuse steps together with epochs, and stacks with what they cannot train."""
        if self.local_steps is not None and self.local_epochs != 1:
            raise ValueError(
                f"local_steps = {self.local_steps} beside local_epochs = {self.local_epochs}: clients train "
                "either; leave one of them out, or set local_epochs=1 where a base gives it"
            )
        if self.local_steps is not None and self.stacked > 1:
            raise ValueError(
                f"local_steps = {self.local_steps} with stacked = {self.stacked}: stacked clients train "
                "whole epochs; set stacked=1, or local_epochs"
            )
        if self.buffers != "mean" and self.stacked > 1:
            raise ValueError(f"buffers = {self.buffers} with stacked = {self.stacked}; set stacked=1")
        return self

    def in_round(self, round_index: int) -> Self:
        """Set the learning rate of a round, counted from 0."""
        if (share := self.schedule.share(round_index)) == 1:
            return self
        return self.model_copy(update={"learning_rate": self.learning_rate * share})

    @property
    def not_stacked(self) -> str:
        """Message for an algorithm whose clients train by a rule of their own, and so cannot be stacked."""
        return (
            f"training.stacked = {self.stacked}: only plain training is stacked, and here clients train by "
            "a rule, of the algorithm or of its setting `local`; set training.stacked=1, or take plain fedavg"
        )

    def check_size(self, shape: Sequence[int]) -> None:
        """Check that images of a shape (channels, height, width) are large enough to be cropped.

        Raises:
            ConfigError: a side is no longer than the padding, which therefore has no reflection.
        """
        if "crop" not in self.augment:
            return
        _, height, width = shape
        if min(height, width) <= PAD:
            raise ConfigError(
                f"training.augment: crop pads images by {PAD} pixels of their reflection, and these have "
                f"{height}x{width}; take [flip], or images of at least {PAD + 1}x{PAD + 1}",
                ("training", "augment"),
            )


class Length(Section):
    """Length of a run in rounds."""

    rounds: Annotated[PositiveInt, Field(le=MAX_COUNT)]
    """Number of rounds of the run."""

    stop_after: Annotated[PositiveInt, Field(le=MAX_COUNT)] | None = None
    """Rounds without a better one after which the run ends early, after a test: by the mean of the clients'
    personalised accuracies (loss, where numbers are predicted) on validation images, so `split.scored_on` has
    to be `validation`. None: the run has all rounds."""

    omitted_defaults: ClassVar[tuple[str, ...]] = ("stop_after",)


class Training(LocalTraining, Length):
    """The section `training`: how many rounds there are, and what a client does in one."""

    @property
    def local(self) -> LocalTraining:
        """The settings of a client's local training, without the number of rounds."""
        return LocalTraining(**self.model_dump(exclude=set(Length.model_fields)))


class Evaluation(Section):
    """When, and on what, models are tested. Neither training nor clustering depends on it."""

    every: PositiveInt = 1
    """Test in every n-th round and in the last one."""
    clients: Literal["all", "asked"] = "all"
    """Clients that test the model that they are served: all that have joined, or those with an order in this
    round, also if they drop out."""
    local_server: Literal[False, True, "last"] = False
    """Whether every local model is tested on the whole server set too: for the published GF1 and GA. As
    in the authors' runs, round 1 tests the initial model, before any training. It costs 20 to 44 % of the
    arithmetic of `paper`; the `paper` presets have it on. `last`: in the last round only; GF1 and GA have no
    mean over rounds then."""
    global_model: bool = False
    """Whether the one model for all, of algorithms that have one besides their clusters' (`global_model`), is
    tested too, like the served models: columns `global_own_...` and `global_...` of the records."""
    probabilities: bool = False
    """Whether tests have the scores that need the probabilities of all classes, AUC and expected calibration
    error: columns `..._auc` and `..._ece` of the records."""

    omitted_defaults = ("global_model", "probabilities")
