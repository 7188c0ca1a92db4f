"""``NeuralSequenceLabeler``: a network scores the labels of every step, a chain ties them together.

    score(x, y) = start[y_1] + sum_t network(x)[t, y_t] + sum_{t>1} transitions[y_{t-1}, y_t] + end[y_n]

trained through the inference for any objective by mini-batches (:mod:`.training`), or without the chain by
the word-local softmax. No regulariser but ``weight_decay``, ``dropout`` and early stopping. Networks run on
the CPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from trellis.core.errors import DataError, UnsupportedError
from trellis.core.progress import progress_bar
from trellis.data.constraints import LegalTransitions, check_legal, legal_transitions
from trellis.data.labels import LabelSet
from trellis.data.latent_labels import LatentLabels
from trellis.data.user_input import as_lists
from trellis.losses.labelings import Hamming, Loss, get_loss
from trellis.neural.labeler.batches import Corpus
from trellis.neural.labeler.checkpoints import data_checksum, resume, write_checkpoint
from trellis.neural.labeler.network_inputs import InputEncoder
from trellis.neural.labeler.network_training import Plan, packed_scores, start, train
from trellis.neural.labeler.networks import ChainNetwork, EncoderOptions, new_network
from trellis.neural.labeler.neural_options import checked_stages, given_labels, hold_out
from trellis.neural.labeler.schedules import NEED_TOTAL, Stage
from trellis.objectives.records import Objective
from trellis.structures.chain.labeler.chain_predictor import ChainPredictor
from trellis.structures.chain.scores.chain_scores import ChainScores
from trellis.training.options import draw_seed


class NeuralSequenceLabeler(ChainPredictor):
    """Label the steps of sequences with a network.

    Parameters
    ----------
    encoder : "bilstm", "cnn", "embedding", "char_cnn_bilstm"; a torch module, called with inputs [batch,
        time, columns] and lengths (batch,), that returns scores [batch, time, labels]; or a function of
        (input shape, number of labels) that makes such a module.
    objective : "softmax" (word-local, no transitions), "log", "perceptron", "margin", "slack",
        "softmax_margin", "direct", "ramp", "risk", or an object of :mod:`trellis.objectives`.
    loss : "hamming", "zero_one", "weighted_hamming" or such an object of ``labelings``; also what
        early stopping looks at.
    constraints : "bio", "bioes" or allowed pairs of labels, in training and decoding (softmax: in decoding).
    embedding_dim, attribute_dim, char_dim, hidden, layers, dropout : sizes of the network by name.
    min_count : words (attributes, ...) that occur less often share one embedding with those never seen.
    optimizer, learning_rate, weight_decay, schedule, clip_norm : "adam", "adamw" or "sgd" (momentum 0.9);
        "constant", "linear", "cosine" or "inverse_sqrt" (:mod:`.schedules`).
    batch_size : sentences in a batch. max_epochs : passes over the data.
    objective_schedule : ``[("log", 3), ("direct", None, 0.1)]`` trains three epochs by log, the rest by
        direct with a tenth of the learning rate.
    holdout : a fraction of the sentences, or ``(X, y)``: keep the epoch that does best on them.
    patience : epochs without a smaller hold-out loss before stopping.
    checkpoint : a file, written after each epoch; ``fit`` with the same parameters and data goes on from it.
    random_state, n_jobs (threads), verbose : as in :class:`trellis.SequenceLabeler`.

    Attributes
    ----------
    classes_, labels_ : the labels. network_ : the trained module. status_, history_, n_iter_ (epochs).
    """

    def __init__(
        self,
        encoder: Any = "bilstm",
        objective: str | Objective = "log",
        loss: str | Loss = "hamming",
        *,
        constraints: Any = None,
        embedding_dim: int = 50,
        attribute_dim: int = 16,
        char_dim: int = 16,
        hidden: int = 64,
        layers: int = 1,
        dropout: float = 0.3,
        min_count: int = 2,
        optimizer: str = "adam",
        learning_rate: float = 2e-3,
        weight_decay: float = 0.0,
        schedule: str = "constant",
        clip_norm: float | None = 5.0,
        batch_size: int = 32,
        max_epochs: int = 10,
        objective_schedule: Any = None,
        holdout: Any = None,
        patience: int = 3,
        checkpoint: Any = None,
        random_state: int | None = None,
        n_jobs: int | None = None,
        verbose: bool | None = None,
    ) -> None:
        self.encoder = encoder
        self.objective = objective
        self.loss = loss
        self.constraints = constraints
        self.embedding_dim = embedding_dim
        self.attribute_dim = attribute_dim
        self.char_dim = char_dim
        self.hidden = hidden
        self.layers = layers
        self.dropout = dropout
        self.min_count = min_count
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.schedule = schedule
        self.clip_norm = clip_norm
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.objective_schedule = objective_schedule
        self.holdout = holdout
        self.patience = patience
        self.checkpoint = checkpoint
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    inputs_: InputEncoder
    network_: ChainNetwork
    legal_: LegalTransitions | None

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from sentences ``X`` (lists of words, lists of dicts of attributes, or arrays) and their
        labels ``y``; ``None`` is an unknown label, a set means "one of these"."""
        seed = draw_seed(self.random_state)
        encoder, plan = self.prepare(X, y, seed)
        with _torch_threads(self._threads()), torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            network = new_network(self.encoder, encoder.shape, len(plan.labels), self._sizes())
            run = start(plan, network)
            keep = None
            if self.checkpoint is not None:
                identity = self._identity(data_checksum(plan.corpus, plan.held))
                resume(self.checkpoint, run, plan, identity)

                def keep(run: Any) -> None:
                    write_checkpoint(self.checkpoint, run, identity)

            title = self.encoder if isinstance(self.encoder, str) else "network"
            with progress_bar(title, plan.stages[-1].until, self.verbose) as on_epoch:
                self.status_ = train(plan, run, on_epoch, keep)
        self._keep(encoder, plan.labels, plan.legal, run.network)
        self.history_, self.n_iter_ = run.history, run.epoch
        return self

    def prepare(self, X: Any, y: Any, seed: int) -> tuple[InputEncoder, Plan]:
        """What ``fit`` does before it trains, for training loops of your own."""
        stages, loss = checked_stages(self), get_loss(self.loss)
        X, y = as_lists(X), as_lists(y)
        encoder = InputEncoder(self.min_count, self.encoder == "char_cnn_bilstm")
        inputs = encoder.fit(X)
        labels = LabelSet.of(given_labels(y, self.holdout))
        gold = labels.encode(y, like=inputs.offsets)
        legal = None if self.constraints is None else legal_transitions(self.constraints, labels)
        if legal is not None:
            check_legal(gold, legal, labels)
        corpus, held = hold_out(self.holdout, inputs, gold, encoder, labels, seed)
        return encoder, self._plan(corpus, held, labels, legal, loss, stages, seed)

    def scores(self, X: Any, *, lengths: ArrayLike | None = None) -> ChainScores:
        """The part scores of new sentences: what the oracles of :class:`trellis.inference.Chain` take."""
        check_is_fitted(self, "inputs_")
        if lengths is not None:
            raise UnsupportedError("sentences come as a list here; leave lengths out")
        network = self._network()
        with _torch_threads(self._threads()):
            return packed_scores(network, Corpus(self.inputs_.transform(as_lists(X))), self.legal_)

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The fitted model as JSON values and arrays."""
        from trellis.neural.labeler.neural_state import neural_to_state

        check_is_fitted(self, "inputs_")
        return neural_to_state(self)

    @classmethod
    def from_state(cls, meta: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> NeuralSequenceLabeler:
        """The model that :meth:`to_state` described."""
        from trellis.neural.labeler.neural_state import neural_from_state

        return neural_from_state(meta, arrays)

    # -- parts of fit -------------------------------------------------------------------------------------

    def _plan(
        self,
        corpus: Corpus,
        held: Corpus | None,
        labels: LabelSet,
        legal: LegalTransitions | None,
        loss: Loss,
        stages: tuple[Stage, ...],
        seed: int,
    ) -> Plan:
        plain = isinstance(loss, Hamming) or loss.kind == "zero_one"
        if corpus.gold is not None and any(stage.uses_loss for stage in stages) and not plain:
            corpus = Corpus(corpus.inputs, corpus.gold, loss.costs(corpus.gold, labels))
        return Plan(
            corpus,
            held,
            labels,
            legal,
            loss,
            stages,
            self.optimizer,
            float(self.learning_rate),
            float(self.weight_decay),
            self.schedule,
            self.clip_norm,
            int(self.batch_size),
            int(self.max_epochs),
            int(self.patience),
            seed,
        )

    def _sizes(self) -> EncoderOptions:
        return EncoderOptions(
            self.embedding_dim,
            self.attribute_dim,
            self.char_dim,
            self.hidden,
            self.layers,
            float(self.dropout),
        )

    def _identity(self, data: int) -> dict[str, Any]:
        """What two runs must share for one to go on from the other's checkpoint."""
        free = {"checkpoint", "verbose", "n_jobs", "holdout"}
        if self.schedule not in NEED_TOTAL:
            free.add("max_epochs")
        parameters = {k: repr(v) for k, v in self.get_params(deep=False).items() if k not in free}
        if not isinstance(self.encoder, str | torch.nn.Module):
            parameters["encoder"] = "function"
        return {**parameters, "data": data}

    def _keep(
        self, encoder: InputEncoder, labels: LabelSet, legal: LegalTransitions | None, network: Any
    ) -> None:
        self.inputs_ = encoder
        self._keep_labels(LatentLabels.of(labels, 1))
        self.legal_ = legal
        if isinstance(network, ChainNetwork):
            self.network_ = network
            self.stored_ = None
        else:  # weights from a file, whose module only the user has
            self.stored_ = network

    def _network(self) -> ChainNetwork:
        """The network; after loading a model with a module of the user's, that module with the weights of the
        file."""
        if self.stored_ is None:
            return self.network_
        if self.encoder is None:
            raise UnsupportedError(
                "the encoder of this model was a module of your own, which model files do not store; give it "
                "again with model.set_params(encoder=...)"
            )
        network = new_network(self.encoder, self.inputs_.shape, len(self.labels_), self._sizes())
        try:
            network.load_state_dict(self.stored_)
        except RuntimeError as error:
            raise DataError(
                "the weights of the model file do not fit this encoder "
                f"({str(error).splitlines()[-1].strip()}); give the module that was trained"
            ) from error
        self.network_, self.stored_ = network, None
        return network


@contextmanager
def _torch_threads(n: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(n)
    try:
        yield
    finally:
        torch.set_num_threads(before)
