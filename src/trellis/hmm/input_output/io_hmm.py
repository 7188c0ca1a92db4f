"""``IOHMM``: a hidden Markov model whose transitions and emissions depend on inputs.

    p(z_1 = k | u_1) = softmax_k(A u_1 + a)        p(z_t = k | z_{t-1} = j, u_t) = softmax_k(B_j u_t + b_j)

    p(x_t | z_t = k, u_t): a softmax over symbols, or normal around V_k u_t + v_k

Learning is EM, run as a DC algorithm with both certificates (:mod:`trellis.hmm.input_output.io_em` has the
objective); its M-steps are weighted regressions, each solved to its optimum.
"""

from __future__ import annotations

import os
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trellis.core.arguments import as_floats, check_choice, check_int
from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError, InfeasibleError, ModelFileError
from trellis.core.estimator import Model, check_fitted
from trellis.core.parameters import choice, fitted, integer, number, parameter
from trellis.core.shards import over_shards
from trellis.core.stage_times import StageTimes
from trellis.core.status import Status
from trellis.data.sequence_shards.sharded_sequences import files_and_backend
from trellis.data.sequences import Sequences, append_steps, check_same_lengths
from trellis.data.shard_files import ShardFiles, encoding_stage
from trellis.hmm.input_output.conditional_emission import ConditionalEmission, Forecast
from trellis.hmm.input_output.gaussian_regression import GaussianRegression
from trellis.hmm.input_output.io_data import InputsAndObservations, ShardedInputs, pack_inputs
from trellis.hmm.input_output.io_filter_kernels import filter_batch
from trellis.hmm.input_output.io_parameters import IOParameters, random_starts, with_intercept
from trellis.hmm.input_output.softmax_emission import SoftmaxEmission
from trellis.structures.chain.oracle.chain_oracle import Chain
from trellis.structures.chain.scores.chain_scores import ChainScores
from trellis.training import declarations as declared
from trellis.training.checkpoints import open_checkpoints
from trellis.training.options import draw_seed
from trellis.training.restarts import run_em

EMISSIONS: dict[str, Any] = {"gaussian": GaussianRegression, "categorical": SoftmaxEmission}


class IOHMM(Model):
    """An input-output hidden Markov model.

    Sequences are a list of arrays, or one array with ``lengths`` (without: one sequence); answers have the
    form of ``inputs``. Observations are (length, D), or whole numbers (length,); NaN (or the symbol -1) is
    missing. Inputs are (length, n_inputs), all known.

    Examples
    --------
    >>> import numpy as np
    >>> from trellis import IOHMM
    >>> from trellis.hmm.input_output import GaussianRegression
    >>> rng = np.random.default_rng(0)
    >>> u = rng.normal(size=(200, 1))
    >>> x = 2.0 * u + 0.1 * rng.normal(size=(200, 1))
    >>> model = IOHMM(1, GaussianRegression(), random_state=0).fit([x], [u])
    >>> round(float(model.emission_.weights[0, 0, 0]), 1)
    2.0
    """

    n_states: int = parameter(doc="The number of hidden states.", constraint=integer(1), kw_only=False)
    emission: str | ConditionalEmission = parameter(
        default="gaussian",
        doc='"gaussian", "categorical", or a ``GaussianRegression`` or ``SoftmaxEmission`` with options.',
        constraint=choice("gaussian", "categorical", others="an emission with options"),
        kw_only=False,
    )
    l2: float = parameter(
        default=1e-3,
        doc="Weight of the penalty (l2 / 2) ||slopes||^2 on initial and transition weights (not intercepts).",
        constraint=number(0.0),
    )
    max_iter: int = parameter(default=300, doc="EM iterations at most.", constraint=integer(1))
    tol: float = parameter(
        default=1e-6,
        doc="EM stops when an iteration raises the log-posterior, per step, by at most this much.",
        constraint=number(0.0),
    )
    n_init: int = parameter(
        default=4,
        doc="Starts from different random parameters, of which the best result is kept.",
        constraint=integer(1),
    )
    n_jobs: int | None = parameter(default=declared.N_JOBS)
    random_state: Any = parameter(default=declared.RANDOM_STATE)
    warm_start: bool = parameter(
        default=declared.WARM_START,
        doc="Whether to start once, from the parameters of the last ``fit`` or of ``from_parameters``.",
    )
    verbose: bool | None = parameter(default=declared.VERBOSE)
    backend: Any = parameter(default=declared.BACKEND)
    max_memory: int | str | None = parameter(default=declared.MAX_MEMORY)
    checkpoint: Any = parameter(default=declared.CHECKPOINT)

    learned_whole = False  # parameters may also be given
    parameters_: IOParameters = fitted("All parameters.")
    status_: Status = fitted("Why EM stopped, in a sentence.")
    history_: dict[str, list[float]] = fitted(
        '"primal", minus the log-posterior after 0, 1, ... iterations, and "dual", minus the lower bound '
        "that each iteration raised: primal[t] >= dual[t] >= primal[t + 1]."
    )
    n_iter_: int = fitted("The number of iterations.")
    objectives_: list[float] = fitted("The log-posterior that each start reached.")

    @property
    def emission_(self) -> ConditionalEmission:
        """The fitted emission."""
        return self.parameters_.emission

    @classmethod
    def from_parameters(
        cls, initial: ArrayLike, transitions: ArrayLike, emission: ConditionalEmission, **options: Any
    ) -> Self:
        """A model that is known: ``initial`` (K, n_inputs + 1) and ``transitions`` (K, K, n_inputs + 1), the
        intercept last, and an emission with weights.
        """
        first, moves = as_floats("initial", initial).copy(), as_floats("transitions", transitions).copy()
        model = cls(len(first) if first.ndim else 0, emission.without_parameters(), **options)
        model.parameters_, model.fit_seconds_ = IOParameters(first, moves, emission), None
        model.parameters_.check()
        return model

    # -- learning ---------------------------------------------------------------------------------------

    def fit(self, X: Any, inputs: Any = None, *, lengths: ArrayLike | None = None) -> Self:
        """Learn from observations ``X`` and the inputs they came with.

        ``X`` may also be files (a folder, a pattern such as ``"data/*.npz"``, a path, or
        :class:`~trellis.ShardFiles`) whose labels are the inputs: by default their array or column
        ``inputs``. They, and data with a ``backend``, are learned from in shards; see
        :mod:`.io_em_on_shards`.
        """
        stages = StageTimes()
        self._check_parameters()
        warm = self.warm_start and hasattr(self, "parameters_")
        start = self._fitted() if warm else None
        emission = self._new_emission() if start is None else start.emission
        n_inputs = None if start is None else start.n_inputs
        data = self._training_data(X, inputs, lengths, emission, n_inputs)
        checkpoints = open_checkpoints(
            self, {} if self.checkpoint is None else {**data.identity(), "the start": start}
        )
        stages.done(encoding_stage(X))
        if start is not None:
            starts = iter([start.shift_inputs(data.centre)])
        else:
            seed = checkpoints.seed(self.random_state)
            sample = data.start_sample(self.n_states)
            starts = random_starts(self.n_states, self.n_init, seed, *sample, emission)
        best, reached = run_em(
            data.problem(self.l2, self._threads()),
            starts,
            n_starts=1 if warm else self.n_init,
            max_iter=self.max_iter,
            tol=self.tol * data.n_steps,
            verbose=self.verbose,
            checkpoints=checkpoints,
        )
        checkpoints.close()
        self.objectives_ = [-primal for primal in reached]
        self.parameters_ = best.point.shift_inputs(-data.centre)
        self.status_, self.history_, self.n_iter_ = best.status, best.history, best.n_iter
        stages.done("training")
        self.fit_seconds_ = stages.seconds
        return self._finished(best.interrupted)

    def _training_data(
        self,
        X: Any,
        inputs: Any,
        lengths: ArrayLike | None,
        emission: ConditionalEmission,
        n_inputs: int | None,
    ) -> InputsAndObservations | ShardedInputs:
        """Checked, with inputs centred; in shards where the data are files or a backend is named."""
        if isinstance(X, str | os.PathLike):
            X = ShardFiles(X, label_column="inputs")
        files, backend = files_and_backend(
            X, self.backend, self.n_jobs, self.max_memory, inputs=inputs, lengths=lengths
        )
        if files is not None and backend is not None:
            return ShardedInputs.read(files, backend, self.n_states, emission, n_inputs)
        data = InputsAndObservations.pack(X, inputs, lengths, emission, n_inputs)
        return data if backend is None else ShardedInputs.of(data, backend, self.n_states)

    def _new_emission(self) -> ConditionalEmission:
        if isinstance(self.emission, str):
            made: ConditionalEmission = EMISSIONS[self.emission]()
            return made
        if not isinstance(self.emission, ConditionalEmission):
            raise DataError(
                f"emission is {self.emission!r}, which depends on no input; give GaussianRegression(...) or "
                "SoftmaxEmission(...), or use HMM"
            )
        if self.emission.weights is not None:
            raise DataError(
                "the emission has weights already; start from them with IOHMM.from_parameters(..., "
                "warm_start=True)"
            )
        return self.emission

    def _fitted(self) -> IOParameters:
        check_fitted(self, "parameters_")
        self._check_unchanged("n_states", self.parameters_.n_states)
        return self.parameters_

    # -- inference --------------------------------------------------------------------------------------

    def log_likelihood(self, X: Any, inputs: Any, *, lengths: ArrayLike | None = None) -> FloatArray:
        """log p(x | u) of each sequence, (n_sequences,)."""
        scores, _ = self._scores(X, inputs, lengths)
        return Chain(self._threads()).log_partition(scores)

    def score(self, X: Any, inputs: Any, *, lengths: ArrayLike | None = None) -> float:
        """The mean log-likelihood of a step, log p(X | inputs) / number of steps: a mean can be compared
        between data sets (training, test, folds). The total is ``log_likelihood(X, inputs).sum()``."""
        scores, given = self._scores(X, inputs, lengths)
        return given.mean_per_step(Chain(self._threads()).log_partition(scores))

    def smooth(self, X: Any, inputs: Any, *, lengths: ArrayLike | None = None) -> Any:
        """P(z_t = k | all of x and u), (length, K)."""
        scores, given = self._scores(X, inputs, lengths)
        return given.unpack(Chain(self._threads()).marginals(scores).unary)

    def filter(self, X: Any, inputs: Any, *, lengths: ArrayLike | None = None) -> Any:
        """P(z_t = k | x and u up to step t), (length, K)."""
        scores, given = self._scores(X, inputs, lengths)
        return given.unpack(self._filtered(scores))

    def decode(
        self,
        X: Any,
        inputs: Any,
        method: str = "viterbi",
        *,
        lengths: ArrayLike | None = None,
        return_log_joint: bool = False,
    ) -> Any:
        """The most probable path of states, or with ``method="max_marginal"`` the most probable state of
        each step; with ``return_log_joint`` a pair of that and log p(x, z | u) of each sequence with it.
        """
        check_choice("method", method, ("viterbi", "max_marginal"))
        scores, given = self._scores(X, inputs, lengths)
        chain = Chain(self._threads())
        if method == "viterbi":
            states = chain.best(scores).labels
        else:
            states = chain.marginals(scores).unary.argmax(axis=1).astype(np.int32)
        found = given.unpack(states)
        return (found, chain.score(scores, states)) if return_log_joint else found

    def sample_paths(
        self,
        X: Any,
        inputs: Any,
        n_samples: int = 1,
        *,
        lengths: ArrayLike | None = None,
        random_state: int | None = None,
    ) -> Any:
        """Independent draws of the states from p(z | x, u): (n_samples, length) for each sequence. The seed
        is ``random_state``, or the model's."""
        scores, given = self._scores(X, inputs, lengths)
        n_samples = check_int("n_samples", n_samples, 1)
        rng = np.random.default_rng(draw_seed(self.random_state if random_state is None else random_state))
        states = Chain(self._threads()).sample(scores, n_samples, rng)
        return given.unpack_each(np.split(states, given.offsets[1:-1], axis=1))

    def predict(self, X: Any, inputs: Any, *, lengths: ArrayLike | None = None) -> Any:
        """The same as :meth:`decode`."""
        return self.decode(X, inputs, lengths=lengths)

    def predict_next(self, X: Any, inputs: Any, future_inputs: Any) -> Any:
        """The distribution of the states and observations that follow ``X`` under ``future_inputs`` (h,
        n_inputs): a ``Forecast`` for each sequence, or one for arrays.

        Future steps are steps that are not observed, so filtering gives their distribution.
        """
        parameters = self._fitted()
        values, past = self._packed(X, inputs, None)
        future = pack_inputs(future_inputs, None, parameters.n_inputs)
        if len(future.offsets) != len(past.offsets):
            raise DataError(
                f"there are {len(past.offsets) - 1} sequences, but future inputs for "
                f"{len(future.offsets) - 1}; they must be equal"
            )
        order, is_future, offsets = append_steps(past.offsets, future.offsets)
        features = with_intercept(np.concatenate([past.values, future.values])[order])
        joined = np.concatenate([values, parameters.emission.missing(len(future.values))])[order]
        states = self._filtered(parameters.scores(joined, features, offsets))[is_future]
        made = parameters.emission.forecast(states, features[is_future])
        if future.single:
            return made
        fields = [
            [None] * len(future) if steps is None else future.unpack(steps) for steps in vars(made).values()
        ]
        return [Forecast(*parts) for parts in zip(*fields, strict=True)]

    def sample(
        self, inputs: Any, *, lengths: ArrayLike | None = None, random_state: int | None = None
    ) -> tuple[Any, Any]:
        """Observations and states under the given inputs. The seed is ``random_state``, or the model's."""
        parameters = self._fitted()
        given = pack_inputs(inputs, lengths, parameters.n_inputs)
        rng = np.random.default_rng(draw_seed(self.random_state if random_state is None else random_state))
        features = with_intercept(given.values)
        states = Chain().sample(parameters.prior_scores(features, given.offsets), 1, rng)[0]
        return given.unpack(parameters.emission.sample(states, features, rng)), given.unpack(states)

    def initial_distribution(self, inputs: ArrayLike) -> FloatArray:
        """p(z_1 | u_1) for each row of ``inputs`` (N, n_inputs): (N, K)."""
        parameters = self._fitted()
        rows = pack_inputs(np.asarray(inputs), None, parameters.n_inputs).values
        return np.exp(parameters.log_initial(with_intercept(rows)))

    def transition_matrix(self, inputs: ArrayLike) -> FloatArray:
        """p(z_t | z_{t-1}, u_t) for each row of ``inputs`` (N, n_inputs): (N, K, K)."""
        parameters = self._fitted()
        rows = pack_inputs(np.asarray(inputs), None, parameters.n_inputs).values
        return np.exp(parameters.log_transitions(with_intercept(rows))).transpose(2, 0, 1)

    @property
    def n_parameters(self) -> int:
        """Free parameters of the fitted model."""
        return self._fitted().n_parameters

    def _packed(self, X: Any, inputs: Any, lengths: ArrayLike | None) -> tuple[NDArray[Any], Sequences]:
        given = pack_inputs(inputs, lengths, self.parameters_.n_inputs)
        observed = Sequences.pack(X, lengths, check=self.emission_.check)
        check_same_lengths(observed.offsets, given.offsets, "inputs")
        return observed.values, given

    def _scores(self, X: Any, inputs: Any, lengths: ArrayLike | None) -> tuple[ChainScores, Sequences]:
        parameters = self._fitted()
        values, given = self._packed(X, inputs, lengths)
        return parameters.scores(values, with_intercept(given.values), given.offsets), given

    def _filtered(self, scores: ChainScores) -> FloatArray:
        filtered, log_sums = np.empty_like(scores.unary), np.empty(scores.n_sequences)
        over_shards(
            lambda first, last: filter_batch(
                scores.unary,
                scores.transitions,
                scores.start,
                scores.offsets,
                first,
                last,
                filtered,
                log_sums,
            ),
            scores.offsets,
            self._threads(),
        )
        dead = np.flatnonzero(log_sums == -np.inf)
        if dead.size:
            raise InfeasibleError(f"sequence {dead[0]} has probability 0 under the model; check its values")
        return filtered

    def _check_loaded(self) -> None:
        if not isinstance(self._fitted().emission, ConditionalEmission):
            raise ModelFileError(f"a {type(self.emission_).__name__} is not an emission of an IOHMM")
        self.parameters_.check()
