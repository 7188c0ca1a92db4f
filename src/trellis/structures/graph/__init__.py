"""Graphs: one label for each node, scored by nodes, edges and larger factors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trellis.core.lazy import lazy_exports

if TYPE_CHECKING:
    from trellis.structures.graph.labeler.graph_labeler import GraphLabeler as GraphLabeler
    from trellis.structures.graph.oracle import rounding as rounding
    from trellis.structures.graph.oracle.graph_oracle import GraphInference as GraphInference
    from trellis.structures.graph.scores.graph_features import Graph as Graph
    from trellis.structures.graph.scores.graph_files import read_graphs as read_graphs
    from trellis.structures.graph.scores.graph_files import write_graphs as write_graphs
    from trellis.structures.graph.scores.graph_scores import GraphScores as GraphScores
    from trellis.structures.graph.scores.graph_scores import HigherOrder as HigherOrder

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "labeler.graph_labeler": "GraphLabeler",
        "oracle.graph_oracle": "GraphInference",
        "scores.graph_features": "Graph",
        "scores.graph_files": "read_graphs write_graphs",
        "scores.graph_scores": "GraphScores HigherOrder",
    },
    modules={"rounding": "oracle.rounding"},
)
