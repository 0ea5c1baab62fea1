"""The worker: the clients of one process, their data on one device, and one module that they share in turn.

A worker keeps nothing that a round depends on: the same tasks give the same bits in every process, whatever
was trained there before.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from math import sqrt
from time import perf_counter
from types import MappingProxyType
from zlib import crc32

import numpy as np

from fedgrid.algorithms.contract.checks import find_payload_problem
from fedgrid.algorithms.contract.orders import LOSSES, PREDICTIONS, ChooseOn, Message
from fedgrid.algorithms.updates.source import UPDATE, Vector
from fedgrid.engine.federation.clients.messages import (
    ClientDescription,
    EvaluateReport,
    EvaluateTask,
    Memories,
    Memory,
    Models,
    Reply,
    Setup,
    TrainReport,
    TrainTask,
)
from fedgrid.engine.federation.clients.process import fix_numerics, keep_freed_memory, measure_own_peak
from fedgrid.engine.federation.clients.workspace import (
    DeviceSet,
    Holdings,
    Turn,
    build_flat_module,
    build_stacks,
    group_tasks_by_stack,
)
from fedgrid.engine.federation.encoders.encoder import Codec, Encoder
from fedgrid.engine.federation.errors import FinalError, client_error_context, find_plugin_file
from fedgrid.engine.federation.models.flat_vectors import compute_squared_norm
from fedgrid.engine.federation.plugin_calls import plugin_call_context
from fedgrid.engine.federation.seeds import make_generator, preserve_states
from fedgrid.engine.federation.training import evaluation, local
from fedgrid.engine.federation.training.confusion import Counts
from fedgrid.engine.federation.training.local import LocalResult, Moment
from fedgrid.engine.federation.uplink.replies import collect_residuals, send_reply


class ClientWorker:
    """Trains and tests the clients it holds, one after the other."""

    def __init__(self, setup: Setup, device: str = "cpu") -> None:
        """Put the data of the setup's clients and the server's images on a torch device.

        Raises:
            ConfigError: the model is unknown, or the images are too small for it, or to be cropped.
        """
        keep_freed_memory()
        self._flat = build_flat_module(setup, device)
        self._stacks = build_stacks(setup, device)
        self._setup = setup
        self._device = device
        self._holdings = Holdings(setup, device)
        self._factors = {data.client: data.factor for data in setup.clients}
        self._server_set = DeviceSet.from_images(setup.server_set, device)
        self._server_parts = {
            at: self._server_set.slice_images(part) for at, part in setup.server_parts.items()
        }

    def train(self, tasks: Sequence[TrainTask], models: Models, memories: Memories) -> list[Reply]:
        """Train the client of each task from one of `models`.

        Args:
            tasks: The clients' training.
            models: Each of shape (P,); only read.
            memories: What each client's last training left for this one.

        Raises:
            RunError: if a client's training fails; names client, round and cause.
        """
        untrained: dict[int, Counts] = {}
        replies: dict[tuple[int, int], Reply] = {}
        alone = self._stacks is None
        num_slots = self._setup.training.stacked
        with self.fix_worker_numerics():
            for group in [[task] for task in tasks] if alone else group_tasks_by_stack(tasks, num_slots):
                with client_error_context(group[0].client, group[0].round_index):
                    turns = [self._begin_turn(task, models, memories, untrained) for task in group]
                    results, seconds = self._train_turns(turns)
                for turn, result in zip(turns, results, strict=True):
                    # By client and round, since stacks change the order of the tasks.
                    at = turn.task.client, turn.task.round_index
                    with client_error_context(*at):
                        replies[at] = self._build_reply(turn, result, seconds)
        return [replies[task.client, task.round_index] for task in tasks]

    def evaluate(
        self, tasks: Sequence[EvaluateTask], models: Models, memories: Memories = MappingProxyType({})
    ) -> list[EvaluateReport]:
        """Test, for each task, the client's own model on its test set and every model on its server part.

        Clients with one test set and one model in common share the test of it.
        """
        own: dict[int, Counts] = {}
        parts: dict[int, list[Counts]] = {task.client: [] for task in tasks}
        with self.fix_worker_numerics():
            # 1. Clients that choose their own model do so first, since the tests below depend on it.
            tasks = [self._choose_model(task, models) for task in tasks]
            # 2. Model by model, not client by client: each is loaded into the module once.
            for position, model in enumerate(models):
                self._flat.write_vector(model)
                tested: dict[int, Counts] = {}
                for task in tasks:
                    if (part := self._server_parts.get(task.client)) is not None:
                        parts[task.client].append(self._test_module(part))
                    if task.own == position and task.adaptation is None:
                        at = task.client, task.round_index
                        number = self._holdings.find_test_number(*at)
                        if number not in tested:
                            tested[number] = self._test_module(self._holdings.load_test_set(*at))
                        own[task.client] = tested[number]
            # 3. Adaptation changes the module, so adapted models come last, each alone.
            for task in tasks:
                if task.adaptation is not None and task.own is not None:
                    with client_error_context(task.client, task.round_index):
                        result = self._adapt_model(task, models, memories.get(task.client, {}))
                        assert result.tested is not None
                        own[task.client] = result.tested
        return [
            EvaluateReport(
                task.client,
                own.get(task.client),
                tuple(parts[task.client]),
                None if task.choose_on is None else task.own,
            )
            for task in tasks
        ]

    def describe(
        self, clients: Sequence[int], message: Message, encoder: Encoder | None = None
    ) -> list[ClientDescription]:
        """Describe each client's training images, or their codes, as the message says."""
        codec = encoder and Codec(encoder, self._device)
        described = []
        for client in clients:
            held = self._holdings.load_training_set(client, message.round_index)
            # A message that does not draw again has one seed for all rounds, so that a client repeats
            # itself.
            when = {"round_index": message.round_index} if message.draws_each_round else {}
            rng, own_rng = (
                make_generator(self._setup.seed, purpose, client=client, **when)
                for purpose in ("message", "own message")
            )
            started = perf_counter()
            by = f"{type(message).__name__}.describe"
            with (
                self.fix_worker_numerics(),
                client_error_context(client, None),
                # `describe` may be a plugin's code, and the images are those that clients then train on.
                held.forbid_writes(by),
                plugin_call_context(message, "describe", own_rng, self._device),
            ):
                images = codec.encode_classes(held.images, held.labels) if codec else held.images
                payload = message.describe(images, held.labels, self._setup.num_classes, rng)
                if problem := find_payload_problem(payload):
                    raise FinalError(f"{find_plugin_file(type(message), 'describe')}{by} returned {problem}")
            described.append(ClientDescription(payload, perf_counter() - started))
        return described

    def _train_turns(self, turns: Sequence[Turn]) -> tuple[list[LocalResult], float]:
        """Train the clients of one stack, or one client; return the results and one client's seconds."""
        if self._stacks is not None:
            return self._stacks.train_stack(turns)
        (turn,) = turns
        started = perf_counter()
        reference = self._holdings.reference
        result = local.train_client(
            self._flat,
            turn.start,
            turn.held.images,
            turn.held.labels,
            self._setup.training.in_round(turn.task.round_index),
            self._make_rng("batches", turn.task),
            turn.memory,
            rule=turn.task.order.rule,
            payload=turn.task.order.payload,
            reference=None if reference is None else reference.images,
            max_steps=turn.task.order.steps,
            moment=self._make_moment(turn.task),
            num_classes=self._setup.num_classes,
        )
        return [result], perf_counter() - started

    def _begin_turn(
        self, task: TrainTask, models: Models, memories: Memories, untrained: dict[int, Counts]
    ) -> Turn:
        """Choose the client's model, and test it if it is to be tested before its training.

        `untrained` keeps those tests by the models' positions: clients that begin alike share one.
        """
        started = perf_counter()
        order = task.order
        tests = {}
        if len(order.candidates) > 1 or order.losses:
            tests = self._test_candidates(task, models, order.candidates, order.choose_on)
        chosen = evaluation.choose_best(tests, order.choose_by) if tests else order.candidates[0]
        if task.untrained and chosen not in untrained:
            untrained[chosen] = self._test_model(models[chosen], self._server_set)
        return Turn(
            task,
            memories.get(task.client, {}),
            models[chosen],
            self._holdings.load_training_set(task.client, task.round_index),
            chosen,
            untrained[chosen] if task.untrained else None,
            perf_counter() - started,
            {LOSSES: evaluation.compute_mean_losses(tests, order.candidates)} if order.losses else {},
        )

    def _build_reply(self, turn: Turn, result: LocalResult, train_seconds: float) -> Reply:
        """Build a client's reply: its update through the uplink, and its report.

        The report has the tests of the trained model.
        """
        started = perf_counter()
        task = turn.task
        order = turn.task.order
        on_server = turn.on_server
        if self._stacks is not None:  # Else the model is in the workspace.
            self._flat.write_vector(result.model)
        # In place: the trained model is in the module, and models are the largest thing in memory.
        trained = np.subtract(result.model, turn.start, out=result.model)
        # Personal entries are not sent, so the update alone would not show that they are broken.
        is_finite = not order.rule.personal or bool(np.isfinite(trained).all())
        sent = send_reply(
            None if order.steps == 0 else trained,
            result.outputs,
            order.rule,
            turn.memory,
            self._setup.uplink,
            self._flat.layout,
            lambda purpose: self._make_rng(purpose, task),
        )
        update = sent[UPDATE].update
        # An attacker multiplies after the uplink, else the clip would undo it.
        if (factor := self._factors[task.client]) != 1:
            update = update * np.float32(factor)
        squared = compute_squared_norm(update)
        report = TrainReport(
            client=task.client,
            chosen=turn.chosen,
            train_loss=result.losses[-1],
            train_accuracy=result.accuracies[-1],
            update_norm=sqrt(squared),
            # Algorithms compute with float32 norms: an update whose squared norm overflows there is as bad as
            # one with infinities.
            usable=is_finite and squared <= float(np.finfo(np.float32).max),
            local=self._test_module(self._holdings.load_test_set(task.client, task.round_index))
            if task.evaluate
            else None,
            local_server=self._test_module(self._server_set)
            if task.local_server and not on_server
            else on_server,
            seconds=turn.seconds + train_seconds + perf_counter() - started,
            peak_memory=measure_own_peak(),
            checksum=crc32(update.data),
            images=len(turn.held.labels),
            steps=result.steps,
            bytes_up=sum(array.num_bytes for array in sent.values()) + turn.bytes_of_losses,
            has_finite_memory=all(
                bool(np.isfinite(array).all()) for array in result.memory.values() if array.dtype.kind == "f"
            ),
            epoch_seconds=train_seconds / self._setup.training.local_epochs,
        )
        outputs = {name: array.update for name, array in sent.items() if name != UPDATE} | turn.losses
        if order.infer:
            outputs[PREDICTIONS] = self._predict_reference(turn.start + update)
        return Reply(report, update, outputs, {**result.memory, **collect_residuals(sent)})

    def _make_rng(self, purpose: str, task: TrainTask | EvaluateTask) -> np.random.Generator:
        """Make the generator of a purpose for a task's client and round."""
        return make_generator(self._setup.seed, purpose, client=task.client, round_index=task.round_index)

    def _make_moment(self, task: TrainTask | EvaluateTask) -> Moment:
        """Make the moment of a task; what a rule draws for a test is what it draws in the round after."""
        is_adaptation = isinstance(task, EvaluateTask)
        following = task.round_index + is_adaptation
        make_rng = partial(
            make_generator, self._setup.seed, "own batches", client=task.client, round_index=following
        )
        return Moment(task.round_index, is_adaptation, make_rng)

    def _predict_reference(self, model: Vector) -> np.ndarray:
        """Predict the server's reference images with the model that the server can build from the update."""
        reference = self._holdings.reference
        assert reference is not None, "there are no reference images: set split.reference_images"
        self._flat.write_vector(model)
        return evaluation.predict_probabilities(self._flat.module, reference.images)

    def _adapt_model(self, task: EvaluateTask, models: Models, memory: Memory) -> LocalResult:
        """Adapt the client's model on its training images; test it on its test set, as the rule says."""
        assert task.adaptation is not None
        assert task.own is not None
        held = self._holdings.load_training_set(task.client, task.round_index)
        return local.train_client(
            self._flat,
            models[task.own],
            held.images,
            held.labels,
            self._setup.training.in_round(task.round_index),
            self._make_rng("adaptation", task),
            memory,
            rule=task.adaptation.rule,
            payload=task.adaptation.payload,
            max_steps=task.adaptation.steps,
            moment=self._make_moment(task),
            num_classes=self._setup.num_classes,
            test=partial(self._test_module, self._holdings.load_test_set(task.client, task.round_index)),
        )

    def _choose_model(self, task: EvaluateTask, models: Models) -> EvaluateTask:
        """Replace the task by one in which the client has chosen its own model, if it is to choose."""
        if task.own is None or task.choose_on is None:
            return task
        with client_error_context(task.client, task.round_index):
            tests = self._test_candidates(task, models, range(len(models)), task.choose_on)
        return replace(task, own=evaluation.choose_best(tests, task.choose_by))

    def _test_candidates(
        self, task: TrainTask | EvaluateTask, models: Models, candidates: Sequence[int], on: ChooseOn
    ) -> dict[int, Counts]:
        """Test the models among which a client chooses, by the candidates' positions."""
        held = self._holdings.load_choice_set(task.client, task.round_index, on)
        return {place: self._test_model(models[place], held) for place in candidates}

    @contextmanager
    def fix_worker_numerics(self) -> Iterator[None]:
        """Compute with the bits of the run in the block, and restore the process's generators after it."""
        with fix_numerics(self._setup.training.tf32), preserve_states(self._device):
            yield

    def _test_model(self, model: Vector, held: DeviceSet) -> Counts:
        """Load a model into the module and test it."""
        self._flat.write_vector(model)
        return self._test_module(held)

    def _test_module(self, held: DeviceSet, compute_logits: evaluation.Logits | None = None) -> Counts:
        """Test the model that is in the module."""
        return evaluation.evaluate_model(
            self._flat.module,
            held.images,
            held.labels,
            self._setup.num_classes,
            evaluation.TEST_BATCH,
            with_outputs=self._setup.probabilities,
            logits_of=compute_logits,
        )
