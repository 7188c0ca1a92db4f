"""``SpectralHMM``: a hidden Markov model of symbols, learned from triples in one pass and one SVD.

    p(x_1, ..., x_n) = b_inf^T B_{x_n} ... B_{x_1} b_1

(Hsu, Kakade and Zhang; :mod:`trellis.hmm.spectral.moments` has the formulas.) There is nothing to
iterate and no local optimum: estimates converge to the truth at the rate 1 / sqrt(number of triples), if the
data come from a hidden Markov model whose pairs of symbols have rank ``n_states``. The price is that
estimates may fall outside [0, 1], see ``negative_probabilities``. Products are rescaled at every step, so
sequences may have any length.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from trellis.core.arguments import as_floats, check_int, check_sample_weight, generator
from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError, NumericalError
from trellis.core.estimator import Model, check_fitted
from trellis.core.file_checks import check_array
from trellis.core.parameters import choice, fitted, integer, number, parameter
from trellis.core.stage_times import StageTimes
from trellis.data.row_checks import check_observed, check_symbols
from trellis.data.sequence_shards.sequence_shard import cut_sequences, narrowed
from trellis.data.sequence_shards.sharded_sequences import ShardedSequences, files_and_backend
from trellis.data.sequences import Sequences, step_name, sum_by_sequence
from trellis.data.shard_files import encoding_stage
from trellis.hmm.emissions import Categorical
from trellis.hmm.hidden_markov_model import HMM
from trellis.hmm.spectral import moments
from trellis.hmm.spectral.negative_probabilities import (
    NegativeProbabilities,
    SpectralWarning,
    apply_policy,
    report_negative,
)
from trellis.hmm.spectral.recovery import RecoveredHMM, recover
from trellis.hmm.spectral.sharded_moments import (
    estimate_operators,
    frequencies,
    largest_symbol,
    read_symbol_file,
)
from trellis.hmm.spectral.spectral_kernels import run_operators
from trellis.training import declarations as declared

MAX_SYMBOLS = 10**7  # where their number is taken from the data


class _ForwardPass(NamedTuple):
    """What :func:`run_operators` gives, for packed sequences."""

    observed: FloatArray
    mass: FloatArray
    final: FloatArray
    data: Sequences

    def place(self, at: tuple[int, ...]) -> str:
        return step_name(self.data.offsets, at[0])


class SpectralHMM(Model):
    """Symbols 0 to M - 1 from hidden states, by the method of moments.

    Examples
    --------
    >>> from trellis import HMM, SpectralHMM, emissions
    >>> coins = emissions.Categorical(2, probabilities=[[0.9, 0.1], [0.2, 0.8]])
    >>> truth = HMM(2, coins, initial=[0.5, 0.5], transitions=[[0.9, 0.1], [0.1, 0.9]])
    >>> symbols, _ = truth.sample(20_000, random_state=0)
    >>> model = SpectralHMM(2, n_symbols=2, initial="average").fit([symbols])
    >>> model.predict_next([[0, 0, 0]]).round(1).tolist()
    [[0.8, 0.2]]
    """

    n_states: int = parameter(
        doc="The rank of the operators; at most the number of symbols.", constraint=integer(1), kw_only=False
    )
    n_symbols: int | None = parameter(
        default=None,
        doc="M; None takes the largest symbol in the data plus 1.",
        constraint=integer(1, none=True),
        kw_only=False,
    )
    triples: str = parameter(
        default="all",
        doc='"all" takes every three consecutive symbols, "first" only the first three of each sequence. '
        "Both are right whether or not the sequences are stationary, because where in a sequence a triple "
        'stands cancels in the operators; "all" uses more of the data. Triples of one sequence are not '
        'independent, which "first" respects.',
        constraint=choice("all", "first"),
    )
    initial: str = parameter(
        default="first",
        doc='"first" estimates the beginning of sequences from their first symbols and needs many sequences; '
        '"average" puts the mean position in its place, which is right for stationary sequences and for '
        "excerpts.",
        constraint=choice("first", "average"),
    )
    on_negative: str = parameter(
        default="clip",
        doc='What to do with negative probability estimates: "clip" raises them to ``floor`` and warns, '
        '"error" raises an error, "keep" returns the signed numbers.',
        constraint=choice("clip", "error", "keep"),
    )
    floor: float = parameter(
        default=1e-10,
        doc='The least probability under "clip".',
        constraint=number(0.0, 1.0, above=True),
    )
    random_state: Any = parameter(
        default=declared.RANDOM_STATE, doc="The seed of the random projections of :meth:`recover`."
    )
    n_jobs: int | None = parameter(
        default=declared.N_JOBS, doc="Threads for shards; None is 1, -1 all cores."
    )
    backend: Any = parameter(default=declared.BACKEND)
    max_memory: int | str | None = parameter(default=declared.MAX_MEMORY)

    operators_: moments.Operators = fitted("The operators themselves.")
    singular_values_: FloatArray = fitted(
        "The leading singular values of the pair frequencies, one more than ``n_states`` where there is one."
    )
    noise_: FloatArray = fitted(
        "About how large each of the first ``n_states`` would come out from sampling error alone."
    )
    rank_: int = fitted("How many stand above that.")
    n_triples_: int = fitted("The triples used.")

    def fit(
        self,
        X: Any,
        y: None = None,
        *,
        lengths: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn from sequences of symbols: a list of arrays, or one array with ``lengths``; -1 is missing.

        ``sample_weight`` has one weight per sequence: a weight of 2 is the sequence given twice. Sequences of
        one or two symbols only inform the initial distribution. ``X`` may also be files (a folder, a pattern,
        a path, :class:`~trellis.ShardFiles`); they, and data with a ``backend``, are learned from in shards.
        """
        stages = StageTimes()
        self._check_parameters()
        sharded = self._sharded_data(X, lengths, sample_weight)
        if sharded is not None:
            stages.done(encoding_stage(X))
            return self._fit_on_shards(sharded, stages)
        data, n_symbols = _pack_symbols(X, lengths, self.n_symbols)
        check_observed(data.values < 0)
        weight = check_sample_weight(sample_weight, len(data))
        stages.done("encoding")
        triples = moments.extract_triples(data.values, data.offsets, weight, self.triples == "first")
        pairs = moments.pair_frequencies(triples, n_symbols)
        first = moments.symbol_frequencies(triples.first, triples.weight, n_symbols)
        beginning = first
        if self.initial == "first":
            beginning = moments.first_symbol_frequencies(data.values, data.offsets, weight, n_symbols)
        spectrum = self._spectrum(pairs, triples.total)
        self.operators_ = moments.estimate_operators(triples, spectrum, self.n_states, beginning)
        self.n_triples_ = len(triples.weight)
        stages.done("training")
        self.fit_seconds_ = stages.seconds
        return self

    def _sharded_data(self, X: Any, lengths: Any, sample_weight: Any) -> ShardedSequences | None:
        """The symbols in shards, where they are files or a backend is named."""
        files, backend = files_and_backend(
            X, self.backend, self.n_jobs, self.max_memory, lengths=lengths, sample_weight=sample_weight
        )
        if backend is None:
            return None
        if files is not None:
            make = partial(read_symbol_file, n_symbols=self.n_symbols)
            return ShardedSequences(backend.place(make, files.shards()))
        data, _ = _pack_symbols(X, lengths, self.n_symbols)
        each = {"weight": check_sample_weight(sample_weight, len(data))}
        return ShardedSequences(
            backend.place(narrowed, cut_sequences({"values": data.values}, data.offsets, 4, each))
        )

    def _fit_on_shards(self, data: ShardedSequences, stages: StageTimes) -> Self:
        largest = largest_symbol(data)
        n_symbols = _count_symbols(largest) if self.n_symbols is None else self.n_symbols
        only_first, from_first = self.triples == "first", self.initial == "first"
        found = frequencies(data, n_symbols, only_first, from_first)
        beginning = found.beginning if from_first else found.first
        spectrum = self._spectrum(found.pairs / found.total, found.total)
        self.operators_ = estimate_operators(data, found, spectrum, only_first, beginning / beginning.sum())
        self.n_triples_ = found.n_triples
        stages.done("training")
        self.fit_seconds_ = stages.seconds
        return self

    def fit_moments(self, triples: ArrayLike, initial: ArrayLike | None = None) -> Self:
        """Learn from known probabilities: ``triples[i, x, j]`` = p(x_3 = i, x_2 = x, x_1 = j).

        ``initial`` is the distribution of the first symbol of a sequence; ``None`` takes that of x_1.
        """
        self._check_parameters()
        table = as_floats("triples", triples)
        if table.ndim != 3 or len(set(table.shape)) != 1 or not (table >= 0).all() or not table.any():
            raise DataError(f"triples of shape {table.shape} must be (M, M, M), not negative, and not all 0")
        table = table / table.sum()
        first = table.sum(axis=(0, 1))
        beginning = first if initial is None else as_floats("initial", initial)
        if beginning.shape != first.shape or not (beginning >= 0).all() or not beginning.any():
            raise DataError(
                f"initial of shape {beginning.shape} must be a distribution of {len(first)} symbols"
            )
        spectrum = self._spectrum(table.sum(axis=0), np.inf)
        basis = np.ascontiguousarray(spectrum.left)
        right = spectrum.right / spectrum.values[: self.n_states]
        steps = np.zeros((len(first) + 1, self.n_states, self.n_states))
        steps[:-1] = np.einsum("ia,ixj,jb->xab", basis, table, right, optimize=True)
        self.operators_ = moments.assemble_operators(
            basis, right.T @ first, steps, beginning / beginning.sum(), first
        )
        self.n_triples_, self.fit_seconds_ = 0, None
        return self

    # Questions about sequences

    def log_likelihood(self, X: Any, *, lengths: ArrayLike | None = None) -> FloatArray:
        """log p(x_1, ..., x_n) of each sequence; NaN where it is negative and ``on_negative="keep"``."""
        sign, size = self._signed_log(X, lengths)
        return np.where((sign < 0) & (size > -np.inf), np.nan, size)

    def score(self, X: Any, y: None = None, *, lengths: ArrayLike | None = None) -> float:
        """The mean log-likelihood of a step, log p(X) / number of steps: a mean can be compared between data
        sets (training, test, folds). The total is ``log_likelihood(X).sum()``. ``y`` is not used."""
        return self._data(X, lengths).mean_per_step(self.log_likelihood(X, lengths=lengths))

    def joint_probability(self, X: Any, *, lengths: ArrayLike | None = None) -> FloatArray:
        """p(x_1, ..., x_n) of each sequence, with its sign under ``on_negative="keep"``.

        Long sequences underflow to 0: they need :meth:`log_likelihood`.
        """
        sign, size = self._signed_log(X, lengths)
        probability: FloatArray = sign * np.exp(size)
        return probability

    def conditional_probabilities(self, X: Any, *, lengths: ArrayLike | None = None) -> Any:
        """p(x_t | x_1, ..., x_{t-1}) at every step, scaled so that all symbols together have 1.

        1 where x_t is missing. One array per sequence, or one array for one array.
        """
        reading = self._read(X, lengths)
        conditional = apply_policy(
            reading.observed / reading.mass, self.on_negative, self.floor, reading.place
        )
        return reading.data.unpack(conditional)

    def predict_next(self, X: Any, steps: int = 1, *, lengths: ArrayLike | None = None) -> FloatArray:
        """The distribution of the symbol ``steps`` steps after the end of each sequence: (n_sequences, M)."""
        steps = check_int("steps", steps, 1)
        final, operators = self._read(X, lengths).final, self.operators_
        ahead = operators.readout[:-1] @ np.linalg.matrix_power(operators.steps[-1], steps - 1)
        distribution: FloatArray = final @ ahead.T
        distribution /= distribution.sum(axis=1, keepdims=True)
        if self.on_negative != "keep":
            distribution = apply_policy(
                distribution, self.on_negative, self.floor, lambda at: f"sequence {at[0]}, symbol {at[1]}"
            )
            distribution /= distribution.sum(axis=1, keepdims=True)
        return distribution

    def negative_probabilities(self, X: Any, *, lengths: ArrayLike | None = None) -> NegativeProbabilities:
        """A report of all p(x | x_1 .. x_{t-1}) along the sequences: how many are negative, and where."""
        data = self._data(X, lengths)
        states = np.empty((data.n_steps, self.n_states))
        self._run(data, -np.inf, states)
        return report_negative(states, self.operators_.readout[:-1], data)

    # The model behind the operators

    def recover(self, n_projections: int = 50) -> RecoveredHMM:
        """Initial, transition and emission probabilities, up to the names of the states.

        Needs the rank condition, see :mod:`trellis.hmm.spectral.recovery`; the singular values say
        whether it holds.
        """
        operators = self._fitted()
        if self.rank_ < self.n_states:
            raise NumericalError(f"the states cannot be recovered: {self._rank_message()}")
        return recover(operators, n_projections, generator(self.random_state))

    def to_hmm(self, *, floor: float = 1e-3, **options: Any) -> HMM:
        """An HMM that starts from the recovered probabilities, ready for ``fit``: EM without restarts.

        Probabilities below ``floor`` are raised to it (and rows scaled), because EM never leaves an exact 0.
        ``options`` go to :class:`trellis.HMM`.
        """
        found = self.recover()
        initial, transitions, emissions = (
            np.maximum(part, floor) / np.maximum(part, floor).sum(axis=-1, keepdims=True)
            for part in (found.initial, found.transitions, found.emissions)
        )
        emission = Categorical(emissions.shape[1], probabilities=emissions)
        return HMM(self.n_states, emission=emission, initial=initial, transitions=transitions, **options)

    # Inside

    def _check_loaded(self) -> None:
        operators = self._fitted()
        K, M = self.n_states, len(operators.basis)
        shapes = {
            "basis": (M, K), "start": (K,), "average": (K,), "normaliser": (K,), "steps": (M + 1, K, K),
            "readout": (M + 1, K),
        }  # fmt: skip
        for name, shape in shapes.items():
            check_array(name, getattr(operators, name), shape)
        check_array("singular_values_", self.singular_values_, (min(K + 1, M),))
        check_array("noise_", self.noise_, (K,))

    def _fitted(self) -> moments.Operators:
        check_fitted(self, "operators_")
        self._check_unchanged("n_states", len(self.operators_.start))
        return self.operators_

    def _spectrum(self, pairs: Any, n_triples: float) -> moments.Spectrum:
        """The SVD; an error or a warning if the data do not support so many states."""
        spectrum = moments.compute_spectrum(pairs, self.n_states)
        self.singular_values_ = spectrum.values
        self.noise_ = np.zeros(self.n_states)
        self.rank_ = moments.numerical_rank(spectrum, self.noise_)
        if self.rank_ < self.n_states:
            raise NumericalError(f"the operators do not exist: {self._rank_message()}")
        self.noise_ = moments.sampling_noise(pairs, spectrum, n_triples)
        self.rank_ = moments.numerical_rank(spectrum, self.noise_)
        if self.rank_ < self.n_states:
            warnings.warn(f"estimates will be poor: {self._rank_message()}", SpectralWarning, stacklevel=3)
        return spectrum

    def _rank_message(self) -> str:
        """Why the rank condition fails: truly, or because of noise."""
        values, noise = (
            ", ".join(f"{v:.2g}" for v in array[: self.n_states])
            for array in (self.singular_values_, self.noise_)
        )
        against = f" against a sampling noise of {noise}" if self.noise_.any() else ""
        return (
            f"the rank condition fails, pairs of symbols show {self.rank_} of {self.n_states} states "
            f"(singular values {values}{against}); use n_states={max(self.rank_, 1)} or more data"
        )

    def _data(self, X: Any, lengths: ArrayLike | None) -> Sequences:
        data, n_symbols = _pack_symbols(X, lengths, len(self._fitted().basis))
        # a missing symbol is the last one, whose operator is the sum of all others
        return replace(data, values=np.where(data.values < 0, n_symbols, data.values))

    def _read(self, X: Any, lengths: ArrayLike | None) -> _ForwardPass:
        """Run the operators along the sequences.

        Under "clip" the run restarts from the mean position after a probability that had to be raised: the
        state after it is meaningless.
        """
        lowest = self.floor if self.on_negative == "clip" else -np.inf
        return self._run(self._data(X, lengths), lowest, np.empty((0, self.n_states)))

    def _run(self, data: Sequences, lowest: float, states: FloatArray) -> _ForwardPass:
        o = self.operators_
        n, final = data.n_steps, np.empty((len(data), self.n_states))
        run = _ForwardPass(np.empty(n), np.empty(n), final, data)
        run_operators(
            data.values, data.offsets, o.start, o.average, o.readout, o.steps, lowest, run.observed, run.mass,
            final, states,
        )  # fmt: skip
        return run

    def _signed_log(self, X: Any, lengths: ArrayLike | None) -> tuple[FloatArray, FloatArray]:
        """The sign of each sequence's probability, and the log of its size."""
        reading = self._read(X, lengths)
        values = apply_policy(reading.observed, self.on_negative, self.floor, reading.place)
        with np.errstate(divide="ignore"):
            logs = np.log(np.abs(values))
        n_negative = sum_by_sequence((values < 0).astype(np.float64), reading.data.offsets)
        size = np.log(self.operators_.start_mass) + sum_by_sequence(logs, reading.data.offsets)
        return 1.0 - 2.0 * (n_negative % 2), size


def _pack_symbols(X: Any, lengths: ArrayLike | None, n_symbols: int | None) -> tuple[Sequences, int]:
    """The sequences, -1 where a symbol is missing, and the number of symbols; None: the largest plus 1."""
    data = Sequences.pack(X, lengths, check=partial(check_symbols, n_symbols=n_symbols))
    if n_symbols is not None:
        return data, n_symbols
    return data, _count_symbols(int(data.values.max(initial=0)))


def _count_symbols(largest: int) -> int:
    if largest >= MAX_SYMBOLS:
        raise DataError(
            f"the largest symbol is {largest}, and each from 0 on has its own operator; number the symbols "
            "that occur from 0 on, or give n_symbols"
        )
    return largest + 1
