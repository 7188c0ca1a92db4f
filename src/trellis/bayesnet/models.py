"""The public classes. Each of their methods is a function of a module below, which documents it."""

from __future__ import annotations

import os
from typing import Any, Self

from trellis.bayesnet.drawing import draw, notebook_drawing, table_text
from trellis.bayesnet.formats import network_files, networkx_graphs
from trellis.bayesnet.inference import elimination_steps, evidence_frames
from trellis.bayesnet.inference import query as queries
from trellis.bayesnet.inference.sampling import forward_sampling
from trellis.bayesnet.learning import parameter_learning
from trellis.bayesnet.model import conversions, surgery
from trellis.bayesnet.model.conditional_tables import FILE_TOLERANCE
from trellis.bayesnet.model.directed_model import DirectedModel
from trellis.bayesnet.model.discrete_model import DiscreteModel
from trellis.bayesnet.model.factor_model import FactorModel
from trellis.bayesnet.separation import d_separation, separation_paths
from trellis.core import model_pages
from trellis.core.errors import DataError
from trellis.core.storage import PathLike


class _Methods(DiscreteModel):
    """The methods of networks and factor graphs alike."""

    query = queries.query
    mpe = queries.mpe
    log_probability = queries.log_probability
    forecast = queries.forecast
    explain_elimination = elimination_steps.explain_elimination
    predict = evidence_frames.predict
    predict_proba = evidence_frames.predict_proba
    write = network_files.write_file
    report = model_pages.report


class BayesianNetwork(_Methods, DirectedModel):
    """A Bayesian network over discrete variables: p(x) = prod_i P(x_i | parents of i).

    A network never changes: what learns or edits returns a new one.
    :class:`~trellis.bayesnet.NetworkBuilder` is a way to write a network one variable at a time.

    Parameters
    ----------
    states : dictionary of lists
        The names of the states of each variable; its order is the order of the variables.
    parents : dictionary of lists, default None
        The parents of each variable; a variable that is left out has none.
    tables : dictionary, default "uniform"
        The table of each variable, an array of shape (states of parent 1, ..., its own states) or a
        dictionary from the states of the parents to rows (``conditional_tables``); "uniform" makes
        all rows uniform, as a start for learning.
    tolerance : float, default 1e-6
        By how much the sum of a row may miss 1 before it is an error; rows are then normalised.

    Examples
    --------
    >>> from trellis import BayesianNetwork
    >>> states = {"Rain": ["yes", "no"], "Wet": ["yes", "no"]}
    >>> tables = {"Rain": [0.2, 0.8], "Wet": [[0.9, 0.1], [0.1, 0.9]]}
    >>> net = BayesianNetwork(states, {"Wet": ["Rain"]}, tables)
    >>> round(net.query("Rain", {"Wet": "yes"})["yes"], 4)
    0.6923
    """

    fit_: parameter_learning.LearningReport  # of a network whose tables were learned

    do = surgery.intervene
    ancestral_network = surgery.ancestral_network
    rename = surgery.rename
    d_separated = d_separation.d_separated
    explain_separation = separation_paths.explain_separation
    markov_blanket = d_separation.markov_blanket
    minimal_separator = d_separation.minimal_separator
    independencies = d_separation.independencies
    moral_graph = d_separation.moral_graph
    fit = parameter_learning.fit
    sample = forward_sampling.sample
    log_likelihood = parameter_learning.log_likelihood
    format_table = table_text.format_table
    draw = draw.draw_network
    _repr_html_ = notebook_drawing.network_html
    to_networkx = networkx_graphs.network_to_networkx

    @classmethod
    def read(cls, path: PathLike, *, tolerance: float = FILE_TOLERANCE, encoding: str = "utf-8") -> Self:
        """Read a ``.bif`` or ``.uai`` file, which may be gzipped; its rows are normalised."""
        found = network_files.read_file(path, tolerance=tolerance, encoding=encoding)
        if not found.directed:
            raise DataError(f"{os.fspath(path)}: this is a factor graph; use trellis.FactorGraph.read")
        return cls.wrap(found)

    @classmethod
    def from_networkx(cls, graph: Any) -> Self:
        """A network from a ``networkx.DiGraph``: see :mod:`trellis.bayesnet.formats.networkx_graphs`."""
        return cls.wrap(networkx_graphs.network_from_networkx(graph))

    def to_factor_graph(self) -> FactorGraph:
        """The factor graph whose factors are the tables; its Z is 1."""
        return FactorGraph.from_factors(self.variables, self.factors())


class FactorGraph(_Methods, FactorModel):
    """Arbitrary non-negative factors over discrete variables: p(x) = (1 / Z) prod_f values_f[x].

    Markov networks are factor graphs; so is a Bayesian network, with Z = 1.

    Parameters
    ----------
    cardinalities : the number of states of each variable.
    factors : pairs ``(variables, values)``: names or numbers of variables, and an array with one axis for
        each.
    names : names of the variables; ``x0``, ``x1``, ... if left out.
    states : names of the states of each variable; ``0``, ``1``, ... if left out.

    Examples
    --------
    >>> from trellis import FactorGraph
    >>> agree = [[3.0, 1.0], [1.0, 3.0]]
    >>> graph = FactorGraph([2, 2], [((0,), [2.0, 1.0]), ((0, 1), agree)], names=["a", "b"])
    >>> graph.query("b").values.round(4).tolist()
    [0.5833, 0.4167]
    """

    draw = draw.draw_graph
    to_networkx = networkx_graphs.graph_to_networkx

    @classmethod
    def read(cls, path: PathLike, *, encoding: str = "utf-8") -> Self:
        """Read a ``.uai``, ``.fg`` (libDAI) or ``.bif`` file, which may be gzipped."""
        return cls.wrap(network_files.read_file(path, as_graph=True, encoding=encoding))

    @classmethod
    def from_networkx(cls, graph: Any) -> Self:
        """A factor graph from a bipartite ``networkx.Graph``: see ``networkx_graphs``."""
        return cls.wrap(networkx_graphs.graph_from_networkx(graph))

    def to_network(self) -> BayesianNetwork:
        """A Bayesian network with the same distribution: see :mod:`trellis.bayesnet.model.conversions`."""
        return BayesianNetwork.wrap(conversions.network_from_graph(self))


def read_model(path: PathLike, *, encoding: str = "utf-8") -> BayesianNetwork | FactorGraph:
    """What a ``.bif``, ``.uai`` or ``.fg`` file holds, which may be gzipped.

    Examples
    --------
    >>> from trellis.bayesnet import markov_chain, read_model
    >>> markov_chain(["sun", "rain"], 3).write("weather.bif")
    >>> read_model("weather.bif")
    BayesianNetwork(3 variables, 2 edges, 5 free parameters)
    """
    found = network_files.read_file(path, encoding=encoding)
    return BayesianNetwork.wrap(found) if found.directed else FactorGraph.wrap(found)
