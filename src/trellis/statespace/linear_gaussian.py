"""``LinearGaussian``: the Kalman filter and smoother, and learning by EM, as a scikit-learn estimator.

z_1 ~ N(initial_mean, initial_covariance)
z_{t+1} = transition z_t + transition_control u_t + transition_offset + N(0, transition_noise)
x_t     = observation z_t + observation_control u_t + observation_offset + N(0, observation_noise)
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from trellis.core.arguments import check_int, check_names, generator
from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError
from trellis.core.estimator import Model, not_fitted
from trellis.core.parameters import fitted, integer, number, parameter
from trellis.core.stage_times import StageTimes
from trellis.core.status import Status
from trellis.data.sequence_shards.sequence_shard import narrowed
from trellis.data.sequence_shards.sharded_sequences import ShardedSequences, files_and_backend
from trellis.data.shard_files import encoding_stage
from trellis.statespace.kalman_em import (
    EM,
    check_enough,
    check_learnable,
    floor_covariances,
    learnable_parameters,
)
from trellis.statespace.kalman_filter import Kalman, States
from trellis.statespace.kalman_sample_kernels import simulate
from trellis.statespace.kalman_start import starting_point
from trellis.statespace.state_space import COVARIANCES, SHAPES, StateSpace
from trellis.statespace.streaming_kalman_filter import StreamingKalmanFilter
from trellis.statespace.time_series import (
    TimeSeries,
    cut_series,
    read_future_controls,
    read_series,
    read_series_file,
    shard_series,
)
from trellis.training import declarations as declared
from trellis.training.checkpoints import open_checkpoints
from trellis.training.restarts import run_em

_REQUIRED = tuple(name for name in SHAPES if "control" not in name and "offset" not in name)


class StateEstimates(NamedTuple):
    """``means`` (length, n) and ``covariances`` (length, n, n) of the states, as lists for a list.

    ``lagged`` (length, n, n), on request: Cov(z_t, z_{t+1}), zero at the last step.

    Examples
    --------
    >>> import numpy as np
    >>> from trellis import LinearGaussian
    >>> walk = LinearGaussian(
    ...     1, 1, transition=[[1.0]], observation=[[1.0]], transition_noise=[[0.1]],
    ...     observation_noise=[[1.0]], initial_mean=[0.0], initial_covariance=[[1.0]],
    ... )
    >>> walk.filter(np.array([[2.0], [2.0]])).means.round(2).tolist()
    [[1.0], [1.38]]
    """

    means: Any
    covariances: Any
    lagged: Any = None


class Forecast(NamedTuple):
    """Means and covariances of future steps: (steps, .) for one sequence, (n_sequences, steps, .) for
    several.

    Examples
    --------
    >>> import numpy as np
    >>> from trellis import LinearGaussian
    >>> walk = LinearGaussian(
    ...     1, 1, transition=[[1.0]], observation=[[1.0]], transition_noise=[[0.1]],
    ...     observation_noise=[[1.0]], initial_mean=[0.0], initial_covariance=[[1.0]],
    ... )
    >>> walk.forecast(np.array([[0.0], [2.0]]), steps=2).observation_covariances.round(2).ravel().tolist()
    [1.48, 1.58]
    """

    observations: FloatArray
    observation_covariances: FloatArray
    states: FloatArray
    state_covariances: FloatArray


class LinearGaussian(Model):
    """A linear-Gaussian state-space model with n states, m observations and p controls.

    The parameters of the model, ``transition`` to ``observation_offset``, are known or starting values. All
    but the two initial ones may vary with time: (T, ...), where entry t belongs to step t of each sequence.
    With the first six given the model answers questions without ``fit`` (then ``initial_mean`` may be left
    out and is zero).

    Examples
    --------
    >>> import numpy as np
    >>> from trellis import LinearGaussian
    >>> walk = LinearGaussian(
    ...     1, 1, transition=[[1.0]], observation=[[1.0]], transition_noise=[[0.1]],
    ...     observation_noise=[[1.0]], initial_mean=[0.0], initial_covariance=[[1.0]],
    ... )
    >>> walk.smooth(np.array([[0.0], [2.0], [1.0]])).means.round(2).ravel().tolist()
    [0.68, 0.81, 0.83]
    """

    n_states: int = parameter(
        doc="The dimension n of the hidden state.", constraint=integer(1), kw_only=False
    )
    n_observations: int | None = parameter(
        default=None,
        doc="The dimension m of an observation; None takes it from the data or the matrices.",
        constraint=integer(1, none=True),
        kw_only=False,
    )
    transition: Any = parameter(default=None, doc="A, (n, n).")
    observation: Any = parameter(default=None, doc="C, (m, n).")
    transition_noise: Any = parameter(default=None, doc="Q, the covariance (n, n) of a transition.")
    observation_noise: Any = parameter(default=None, doc="R, the covariance (m, m) of an observation.")
    initial_mean: Any = parameter(default=None, doc="The mean (n,) of the first state.")
    initial_covariance: Any = parameter(default=None, doc="The covariance (n, n) of the first state.")
    transition_control: Any = parameter(default=None, doc="B, (n, p).")
    observation_control: Any = parameter(default=None, doc="D, (m, p).")
    transition_offset: Any = parameter(default=None, doc="b, (n,).")
    observation_offset: Any = parameter(default=None, doc="d, (m,).")
    learn: Any = parameter(
        default="all",
        doc='"all", or the names of the parameters that ``fit`` may change. Parameters that vary with time '
        "are not learned.",
    )
    min_variance: float = parameter(
        default=1e-9,
        doc="Learned covariances have no eigenvalue below this, nor below 1e-13 of their largest.",
        constraint=number(0.0, above=True),
    )
    max_iter: int = parameter(default=200, doc="EM iterations at most.", constraint=integer(0))
    tol: float = parameter(
        default=1e-4,
        doc="EM stops when an iteration raises the log-likelihood by at most this much.",
        constraint=number(0.0),
    )
    n_jobs: int | None = parameter(default=declared.N_JOBS)
    random_state: Any = parameter(default=declared.RANDOM_STATE)
    backend: Any = parameter(default=declared.BACKEND)
    max_memory: int | str | None = parameter(default=declared.MAX_MEMORY)
    checkpoint: Any = parameter(default=declared.CHECKPOINT)

    parameters_: StateSpace = fitted(
        "The parameters after ``fit``; each is an attribute of its own, too: ``transition_``, ..."
    )
    status_: Status = fitted("Why EM stopped, in a sentence.")
    history_: dict[str, list[float]] = fitted(
        "``primal`` (minus the log-likelihood, from the start on) and ``dual`` (minus the evidence lower "
        "bound of each iteration); primal_t >= dual_t >= primal_{t+1}."
    )
    n_iter_: int = fitted("The number of iterations.")

    # -- learning ---------------------------------------------------------------------------------------

    def fit(self, X: Any, y: None = None, *, lengths: ArrayLike | None = None, controls: Any = None) -> Self:
        """Learn by EM from a list of (length, m) arrays, or one array (with ``lengths`` if it holds several).

        NaN is a missing value. ``controls`` u_t come in the form of ``X``. ``X`` may also be files (a folder,
        a pattern, a path, :class:`~trellis.ShardFiles`); they, and data with a ``backend``, are learned from
        in shards, and only sums of moments leave these.
        """
        stages = StageTimes()
        self._check_parameters()
        given = self._given()
        series = self._training_data(X, lengths, controls, given)
        checkpoints = open_checkpoints(self, {} if self.checkpoint is None else series.identity())
        stages.done(encoding_stage(X))
        named = check_names("learn", self.learn, tuple(SHAPES))
        start = starting_point(
            given,
            self._start_sample(series),
            self.n_states,
            "observation_offset" in named,
            generator(checkpoints.random_state(self.random_state)),
        )
        learn = learnable_parameters(start) if isinstance(self.learn, str) and self.learn == "all" else named
        guessed = frozenset(name for name in COVARIANCES if given[name] is None) & learn
        start = floor_covariances(start, guessed, self.min_variance)
        check_learnable(start, learn, self.min_variance)
        check_enough(series, learn)
        problem = EM(series, learn, self.min_variance, self._threads())
        solution, _ = run_em(problem, [start], max_iter=self.max_iter, tol=self.tol, checkpoints=checkpoints)
        checkpoints.close()
        self._keep(solution.point, solution.status, solution.history)
        stages.done("training")
        self.fit_seconds_ = stages.seconds
        return self._finished(solution.interrupted)

    def _training_data(
        self, X: Any, lengths: ArrayLike | None, controls: Any, given: dict[str, Any]
    ) -> TimeSeries | ShardedSequences:
        """The series, in shards where they are files or a backend is named."""
        sizes = self._size("m", given), self._size("p", given)
        files, backend = files_and_backend(
            X, self.backend, self.n_jobs, self.max_memory, lengths=lengths, controls=controls
        )
        if files is not None and backend is not None:
            if sizes[1]:
                raise DataError("the model has controls, which files do not hold; give arrays")
            make = partial(read_series_file, n_observations=sizes[0])
            return ShardedSequences(backend.place(make, files.shards()))
        series = read_series(X, lengths, controls, *sizes)
        if backend is None:
            return series
        return ShardedSequences(backend.place(narrowed, cut_series(series)), series.identity())

    def _start_sample(self, series: TimeSeries | ShardedSequences) -> TimeSeries:
        """What the start is chosen from."""
        if isinstance(series, ShardedSequences):
            return shard_series(series.sample(self.n_states + series.width("values")))
        return series

    def _given(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in SHAPES}

    def _size(self, letter: str, given: dict[str, Any]) -> int | None:
        """The number of observations (m) or controls (p), from the options or the matrices given."""
        if letter == "m" and self.n_observations is not None:
            return self.n_observations
        for name, (_, letters) in SHAPES.items():
            if given[name] is not None and letter in letters:
                shape = np.shape(given[name])
                if len(shape) >= len(letters):
                    return int(shape[letters.rindex(letter) - len(letters)])
        return None

    def _keep(self, model: StateSpace, status: Status, history: dict[str, list[float]]) -> None:
        self.parameters_ = model
        for name, array in model.arrays().items():
            setattr(self, f"{name}_", array)
        self.status_, self.history_, self.n_iter_ = status, history, status.n_iter

    def _model(self) -> StateSpace:
        """The fitted parameters, or else those given, if they are complete."""
        if hasattr(self, "parameters_"):
            self._check_unchanged("n_states", self.parameters_.n_states)
            return self.parameters_
        self._check_parameters()
        given = self._given()
        if given["initial_mean"] is None:
            given["initial_mean"] = np.zeros(self.n_states)
        absent = [name for name in _REQUIRED if given[name] is None]
        if absent:
            raise not_fitted(f"this LinearGaussian is not fitted; call fit, or give {', '.join(absent)}")
        sizes = (self._size(letter, given) or 0 for letter in "mp")
        return StateSpace.build(given, self.n_states, *sizes)

    def _ask(self, X: Any, lengths: ArrayLike | None, controls: Any) -> tuple[TimeSeries, Kalman]:
        model = self._model()
        series = read_series(X, lengths, controls, model.n_observations, model.n_controls)
        return series, Kalman(model, series, self._threads())

    # -- inference --------------------------------------------------------------------------------------

    def log_likelihood(self, X: Any, *, lengths: ArrayLike | None = None, controls: Any = None) -> FloatArray:
        """log p(x) of each sequence, (n_sequences,); missing values are integrated out."""
        return self._ask(X, lengths, controls)[1].log_densities()

    def score(
        self, X: Any, y: None = None, *, lengths: ArrayLike | None = None, controls: Any = None
    ) -> float:
        """The mean log-likelihood of a step, log p(X) / number of steps: a mean can be compared between data
        sets (training, test, folds). The total is ``log_likelihood(X).sum()``. ``y`` is not used."""
        series, kalman = self._ask(X, lengths, controls)
        return series.mean_per_step(kalman.log_densities())

    def filter(self, X: Any, *, lengths: ArrayLike | None = None, controls: Any = None) -> StateEstimates:
        """Mean and covariance of z_t given x_1 .. x_t."""
        series, kalman = self._ask(X, lengths, controls)
        return _unpacked(series, kalman.filter())

    def smooth(
        self, X: Any, *, lengths: ArrayLike | None = None, controls: Any = None, lagged: bool = False
    ) -> StateEstimates:
        """Mean and covariance of z_t given all of x; with ``lagged`` also Cov(z_t, z_{t+1})."""
        series, kalman = self._ask(X, lengths, controls)
        return _unpacked(series, kalman.smooth(lagged=lagged))

    def impute(
        self,
        X: Any,
        *,
        lengths: ArrayLike | None = None,
        controls: Any = None,
        return_covariances: bool = False,
    ) -> Any:
        """``X`` with each missing value replaced by its mean given all observed values.

        With ``return_covariances`` also the covariances (length, m, m), zero where values are observed.
        """
        series, kalman = self._ask(X, lengths, controls)
        values, covariances = kalman.impute()
        if return_covariances:
            return series.unpack(values), series.unpack(covariances)
        return series.unpack(values)

    def forecast(
        self,
        X: Any,
        steps: int,
        *,
        lengths: ArrayLike | None = None,
        controls: Any = None,
        future_controls: Any = None,
    ) -> Forecast:
        """Means and covariances of the next ``steps`` observations and states of each sequence.

        ``controls`` are those of ``X``; ``future_controls`` (steps, p) those of the future steps, one array
        for all sequences or one for each.
        """
        steps = check_int("steps", steps, 1)
        series, _ = self._ask(X, lengths, controls)
        model = self._model()
        future = read_future_controls(future_controls, len(series), steps, model.n_controls)
        longer, rows = series.extend(steps, future)
        kalman = Kalman(model, longer, self._threads())
        states = kalman.filter()
        means, covariances = kalman.observation_distribution(states)
        rows = rows[0] if series.single else rows
        return Forecast(means[rows], covariances[rows], states.means[rows], states.covariances[rows])

    def sample(
        self, length: int, n: int | None = None, *, controls: Any = None, random_state: Any = None
    ) -> tuple[Any, Any]:
        """Draw ``(X, states)``: arrays of ``length`` rows, or lists of ``n`` such arrays.

        ``controls`` (length, p) serve all samples. The seed is ``random_state``, or that of the model.
        """
        model = self._model()
        length, count = check_int("length", length, 0), 1 if n is None else check_int("n", n, 0)
        model.check_lengths(np.array([length]))
        rng = generator(self.random_state if random_state is None else random_state)
        u = read_future_controls(controls, 1, length, model.n_controls, "controls")[0]
        steps = np.arange(length)
        z_noise = rng.standard_normal((count, length, model.n_states))
        x_noise = rng.standard_normal((count, length, model.n_observations))
        states, X = np.empty_like(z_noise), np.empty_like(x_noise)
        simulate(model.system(), model.drift(u, steps), model.shift(u, steps), z_noise, x_noise, states, X)
        return (X[0], states[0]) if n is None else (list(X), list(states))

    def streaming_filter(self) -> StreamingKalmanFilter:
        """A filter that takes one observation at a time and keeps only the current state."""
        return StreamingKalmanFilter(self._model())

    # -- storage ----------------------------------------------------------------------------------------

    def _check_fitted(self) -> None:
        self._model()  # given parameters are as good as fitted ones

    def _check_loaded(self) -> None:
        if hasattr(self, "parameters_"):
            read = self.parameters_
            sizes = self.n_states, read.n_observations, read.n_controls
            self._keep(StateSpace.build(read.arrays(), *sizes), self.status_, self.history_)
        self._model()


def _unpacked(series: TimeSeries, states: States) -> StateEstimates:
    lagged = None if states.lagged is None else series.unpack(states.lagged)
    return StateEstimates(series.unpack(states.means), series.unpack(states.covariances), lagged)
