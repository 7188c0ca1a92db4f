"""``NeuralSequenceLabeler``: a network scores the labels of every step, and a chain connects them.

    score(x, y) = start[y_1] + sum_t network(x)[t, y_t] + sum_{t>1} transitions[y_{t-1}, y_t] + end[y_n]

trained for any objective by mini-batches, with gradients through the inference (:mod:`.network_training`), or
without the chain by the word-local softmax. The only regularisers are ``weight_decay``, ``dropout`` and early
stopping. Networks run on the CPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import Any, Self, TypeVar

import numpy as np
import torch
from numpy.typing import ArrayLike

from trellis.core.arrays import AnyArray
from trellis.core.errors import DataError, ModelFileError, UnsupportedError
from trellis.core.estimator import check_fitted
from trellis.core.parameters import choice, fitted, integer, number, parameter
from trellis.core.progress import progress_bar
from trellis.core.stage_times import StageTimes
from trellis.data.constraints import LegalTransitions, check_legal, legal_transitions
from trellis.data.labels import LabelSet
from trellis.data.latent_labels import LatentLabels
from trellis.data.user_input import as_lists
from trellis.losses.labelings import Hamming, Loss, get_loss
from trellis.neural.labeler.batches import Corpus
from trellis.neural.labeler.network_inputs import InputEncoder
from trellis.neural.labeler.network_training import NetworkProblem, NetworkSolver, packed_scores
from trellis.neural.labeler.networks import BODIES, ChainNetwork, EncoderOptions, new_network
from trellis.neural.labeler.schedules import NEED_TOTAL, OPTIMIZERS, RATES, SOFTMAX, make_stages
from trellis.objectives.records import OBJECTIVES, Objective
from trellis.structures.chain.labeler.chain_predictor import ChainPredictor
from trellis.structures.chain.oracle.chain_oracle import Chain
from trellis.structures.chain.scores.chain_scores import ChainScores
from trellis.training import declarations as declared
from trellis.training.checkpoints import Checkpoints, open_checkpoints
from trellis.training.driver import EarlyStopping, minimise_run
from trellis.training.holdout import AUTOMATIC_FRACTION, hold_out
from trellis.training.one_label import sample_with_several_labels, warn_of_one_label, warn_of_single_label

Record = TypeVar("Record")


class NeuralSequenceLabeler(ChainPredictor):
    """Label the steps of sequences with a network and a chain on top of it.

    Examples
    --------
    >>> from trellis.neural import NeuralSequenceLabeler
    >>> X, y = [["the", "cat"], ["a", "dog"]] * 20, [["D", "N"], ["D", "N"]] * 20
    >>> model = NeuralSequenceLabeler(max_epochs=5, random_state=0).fit(X, y)
    >>> model.predict([["a", "cat"]])
    [['D', 'N']]
    """

    encoder: Any = parameter(
        default="bilstm",
        doc="A network by name; a torch module, called with inputs [batch, time, columns] and lengths "
        "(batch,), that returns scores [batch, time, labels]; or a function of (input shape, number of "
        "labels) that makes such a module.",
        constraint=choice(*BODIES, others="a torch module, or a function that makes one"),
        kw_only=False,
    )
    objective: str | Objective = parameter(
        default="log",
        doc='What is minimised: "softmax" (word-local, no transitions), a name in '
        ":data:`trellis.objectives.OBJECTIVES`, or an object of :mod:`trellis.objectives`. Direct loss under "
        '``epsilon="auto"`` fine-tunes (:mod:`trellis.neural.labeler.network_fine_tuning`).',
        constraint=choice(SOFTMAX, *OBJECTIVES, others="an object of trellis.objectives"),
        kw_only=False,
    )
    loss: str | Loss = parameter(
        default="hamming",
        doc='The task loss, also that of the hold-out set: "hamming", "zero_one", "weighted_hamming", or '
        "such an object of :mod:`trellis.losses`.",
        kw_only=False,
    )
    constraints: Any = parameter(
        default=declared.CONSTRAINTS,
        doc='"bio", "bioes", or the allowed pairs of labels, in training and prediction (softmax: in '
        "prediction).",
    )
    embedding_dim: int = parameter(default=50, doc="Size of word embeddings.", constraint=integer(1))
    attribute_dim: int = parameter(
        default=16, doc="Size of the embeddings of other attributes.", constraint=integer(1)
    )
    char_dim: int = parameter(default=16, doc="Size of the embeddings of characters.", constraint=integer(1))
    hidden: int = parameter(default=64, doc="Units of a hidden layer (per direction).", constraint=integer(1))
    layers: int = parameter(default=1, doc="Hidden layers.", constraint=integer(1))
    dropout: float = parameter(
        default=0.3, doc="Share of units that are dropped.", constraint=number(0.0, 1.0, below=True)
    )
    min_count: int = parameter(
        default=2,
        doc="Words (attributes) that occur less often share one embedding with those never seen.",
        constraint=integer(1),
    )
    optimizer: str = parameter(
        default="adam", doc="SGD has a momentum of 0.9.", constraint=choice(*OPTIMIZERS)
    )
    learning_rate: float = parameter(
        default=2e-3, doc="The rate at the start.", constraint=number(0.0, above=True)
    )
    weight_decay: float = parameter(default=0.0, doc="That of the optimiser.", constraint=number(0.0))
    schedule: str = parameter(
        default="constant",
        doc="How the learning rate falls (:mod:`trellis.neural.labeler.schedules`).",
        constraint=choice(*RATES),
    )
    clip_norm: float | None = parameter(
        default=5.0,
        doc="Longer gradients are scaled down to it.",
        constraint=number(0.0, above=True, none=True),
    )
    batch_size: int = parameter(default=32, doc="Sentences in a mini-batch.", constraint=integer(1))
    max_epochs: int = parameter(default=10, doc="Passes over the data.", constraint=integer(1))
    objective_schedule: Any = parameter(
        default=None,
        doc='``[("log", 3), ("direct", None, 0.1)]`` trains three epochs by log, the rest by direct with a '
        "tenth of the learning rate. Patience counts from the last stage, and does not end one that "
        "fine-tunes.",
    )
    holdout: Any = parameter(
        default="auto",
        doc='A fraction of the sentences, or a pair (X, y): the epoch that does best on them is kept. "auto" '
        "holds out a tenth where direct loss is fine-tuned, otherwise nothing.",
    )
    patience: int = parameter(
        default=3, doc="Epochs without a smaller hold-out loss before training stops.", constraint=integer(1)
    )
    device: str = parameter(
        default="cpu",
        doc='Where the network runs: "cpu", and nowhere else. Scores that a network of your own computes on '
        "another device go to :func:`trellis.neural.structured_loss`.",
    )
    checkpoint: Any = parameter(default=declared.CHECKPOINT)
    random_state: Any = parameter(default=declared.RANDOM_STATE)
    n_jobs: int | None = parameter(default=declared.N_JOBS)
    verbose: bool | None = parameter(default=declared.VERBOSE)

    inputs_: InputEncoder = fitted()
    legal_: LegalTransitions | None = fitted()
    weights_: dict[str, AnyArray] = fitted("The weights of the network by name.")
    network_: ChainNetwork = fitted("The trained module.", saved=False)

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from sentences ``X`` (lists of words, lists of dicts of attributes, or arrays) and their
        labels ``y``; ``None`` is an unknown label, a set means "one of these"."""
        stages = StageTimes()
        X, y = as_lists(X), as_lists(y)  # they are read twice
        checkpoints = self._checkpoints(X, y)
        seed = checkpoints.seed(self.random_state)
        encoder, problem, solver = self.prepare(X, y, seed)
        stages.done("encoding")
        early = None
        with _torch_threads(self._threads()), torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            network = self._new_network(encoder, problem.labels)
            if problem.held is not None and not solver.fine_tunes:
                early = EarlyStopping[dict[str, AnyArray]](
                    lambda _: problem.holdout_loss(network),
                    self.patience,
                    patience_from=solver.last_stage_from,
                )
            title = self.encoder if isinstance(self.encoder, str) else "network"
            with progress_bar(title, solver.max_epochs, self.verbose) as on_epoch:
                weights, trace = minimise_run(
                    solver.start(problem, network),
                    max_iter=solver.max_epochs,
                    early_stopping=early,
                    on_iteration=on_epoch,
                    limit="max_epochs",
                    keep_interrupted=True,
                    checkpoints=checkpoints,
                )
        checkpoints.close()
        network.load_weights(weights)
        self.inputs_, self.legal_ = encoder, problem.legal
        self._keep_labels(LatentLabels.of(problem.labels, 1))
        self.network_, self.weights_ = network, network.weights
        self.status_, self.history_, self.n_iter_ = trace.status, trace.history, trace.n_iter
        stages.done("training")
        self.fit_seconds_ = stages.seconds
        if problem.corpus.gold is not None:
            chosen = sample_with_several_labels(problem.corpus.gold)
            if len(chosen):
                sample = problem.corpus.take(chosen)
                with _torch_threads(self._threads()):
                    scores = packed_scores(network, Corpus(sample.inputs), problem.legal)
                found = Chain(self._threads()).best(scores).labels
                warn_of_one_label(problem.corpus.gold.take(chosen), found, problem.labels)
            warn_of_single_label(problem.labels)
        stages.done("checking")
        return self._finished(trace.interrupted)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.device != "cpu":
            raise UnsupportedError(
                f"device={self.device!r}: networks of a NeuralSequenceLabeler run on the CPU; leave device "
                "out, or train a network of your own by structured_loss, whose scores may be anywhere"
            )

    def prepare(self, X: Any, y: Any, seed: int) -> tuple[InputEncoder, NetworkProblem, NetworkSolver]:
        """What ``fit`` does before it trains, for training loops of your own."""
        self._check_parameters()
        stages = make_stages(self.objective, self.objective_schedule, self.max_epochs)
        loss = get_loss(self.loss)
        if loss.kind == "candidates":
            raise UnsupportedError(
                f"loss={self.loss!r} is not a sum over steps; use 'hamming', 'zero_one' or a weighted one"
            )
        X, y = as_lists(X), as_lists(y)
        encoder = InputEncoder.learn(X, self.min_count, characters=self.encoder == "char_cnn_bilstm")
        inputs = encoder.transform(X)
        fine_tuned = any(stage.fine_tuned for stage in stages)
        automatic = AUTOMATIC_FRACTION if fine_tuned else 0.0
        parts = hold_out(self.holdout, len(inputs.offsets) - 1, "sentence", seed, automatic=automatic)
        # a rare label may occur in the hold-out sentences only
        labels = LabelSet.of(y if parts.given is None else [*y, *parts.given[1]])
        gold = labels.encode(y, like=inputs.offsets)
        legal = None if self.constraints is None else legal_transitions(self.constraints, labels, gold)
        if legal is not None:
            check_legal(gold, legal, labels)
        corpus, held = Corpus(inputs, gold), None
        if parts.given is not None:
            given = encoder.transform(parts.given[0])
            held = Corpus(given, labels.encode(parts.given[1], like=given.offsets))
        elif parts.held is not None:
            corpus, held = corpus.take(parts.kept), corpus.take(parts.held)
        plain = isinstance(loss, Hamming) or loss.kind == "zero_one"
        if corpus.gold is not None and any(stage.uses_loss for stage in stages) and not plain:
            corpus = replace(corpus, costs=loss.costs(corpus.gold, labels))
            if held is not None and held.gold is not None and fine_tuned:
                held = replace(held, costs=loss.costs(held.gold, labels))
        problem = NetworkProblem(corpus, held, labels, legal, loss)
        return encoder, problem, self._options(NetworkSolver, stages=stages, seed=seed)

    def scores(self, X: Any, *, lengths: ArrayLike | None = None) -> ChainScores:
        """The part scores of new sentences: what :class:`trellis.structures.chain.Chain` takes."""
        check_fitted(self, "inputs_")
        if lengths is not None:
            raise UnsupportedError("X must be a list of sentences here; leave lengths out")
        network = self._network()
        with _torch_threads(self._threads()):
            return packed_scores(network, Corpus(self.inputs_.transform(as_lists(X))), self.legal_)

    def _options(self, record: type[Record], **given: Any) -> Record:
        """A record of options, filled from the parameters of the same names."""
        names = (f.name for f in fields(record) if f.name not in given)  # type: ignore[arg-type]
        return record(**{name: getattr(self, name) for name in names}, **given)

    def _new_network(self, encoder: InputEncoder, labels: LabelSet) -> ChainNetwork:
        return new_network(self.encoder, encoder.shape, len(labels), self._options(EncoderOptions))

    def _checkpoints(self, X: Any, y: Any) -> Checkpoints:
        """More epochs may be asked for, unless rates or epsilon fall over all of them."""
        if self.checkpoint is None:
            return Checkpoints(None)
        self._check_parameters()
        stages = make_stages(self.objective, self.objective_schedule, self.max_epochs)
        fixed = self.schedule in NEED_TOTAL or any(stage.fine_tuned for stage in stages)
        return open_checkpoints(
            self, {"X": X, "y": y}, free=() if fixed else ("max_epochs",), extensible=True
        )

    # -- files --------------------------------------------------------------------------------------------

    def _saved_parameters(self) -> dict[str, Any]:
        """A module of the user's own is code, which a file does not store: such a model comes back with
        ``encoder=None`` and its weights, and works once the module is given again."""
        kept = super()._saved_parameters()
        encoder = self.encoder if isinstance(self.encoder, str) else None
        return {**kept, "encoder": encoder}

    def _check_loaded(self) -> None:
        if not self.latent_.plain:
            raise ModelFileError("networks have no latent states")
        self._keep_labels(self.latent_)
        k = len(self.labels_)
        shapes = [("bool", shape) for shape in ((k,), (k, k), (k,))]
        if self.legal_ is not None and [(a.dtype.name, a.shape) for a in self.legal_] != shapes:
            raise ModelFileError("its constraints do not fit its labels")
        for name, array in self.weights_.items():
            if not np.isfinite(array).all():
                raise ModelFileError(f"some of its weights {name} are not finite")
        if self.encoder is not None:
            self._check_shapes()
            try:
                self._network()
            except DataError as error:
                raise ModelFileError("its weights do not fit its network") from error

    def _check_shapes(self) -> None:
        """Compare the weights with a network that has shapes but no memory."""
        if self.layers <= len(self.weights_):
            with torch.device("meta"):
                wanted = self._new_network(self.inputs_, self.labels_).state_dict()
            if {name: tuple(t.shape) for name, t in wanted.items()} == {
                name: array.shape for name, array in self.weights_.items()
            }:
                return
        raise ModelFileError("its weights do not fit its network")

    def _network(self) -> ChainNetwork:
        """The network; of a model that was read, a new one with the weights of the file."""
        if hasattr(self, "network_"):
            return self.network_
        if self.encoder is None:
            raise UnsupportedError(
                "the encoder of this model was a module of your own, which model files do not store; give it "
                "again with model.set_params(encoder=...)"
            )
        network = self._new_network(self.inputs_, self.labels_)
        try:
            network.load_weights(self.weights_)
        except RuntimeError as error:
            raise DataError(
                "the weights of the model file do not fit this encoder "
                f"({str(error).splitlines()[-1].strip()}); give the module that was trained"
            ) from error
        self.network_, self.weights_ = network, network.weights
        return network


@contextmanager
def _torch_threads(n: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(n)
    try:
        yield
    finally:
        torch.set_num_threads(before)
