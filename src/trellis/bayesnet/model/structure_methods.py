"""What the arrows of a network alone say, and networks with fewer arrows; each answer has its own module."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from trellis.bayesnet.model.network import BayesianNetwork
    from trellis.bayesnet.separation.d_separation import Independence
    from trellis.bayesnet.separation.separation_paths import Separation


class Arrows:
    """The part of a ``BayesianNetwork`` that looks at its graph."""

    @property
    def _network(self) -> BayesianNetwork:
        return cast("BayesianNetwork", self)

    @property
    def arrows(self) -> list[tuple[str, str]]:
        """All arrows as pairs (parent, child)."""
        net = self._network
        return [(parent, child) for child in net.names for parent in net.parents_of(child)]

    @property
    def topological_order(self) -> list[str]:
        """All variables, parents before their children."""
        return [self._network.names[i] for i in self._network.order]

    def ancestors_of(self, names: str | Iterable[str]) -> list[str]:
        """From where arrows lead to these variables, at one or more steps."""
        from trellis.bayesnet.model.surgery import ancestors

        return ancestors(self._network, names)

    def descendants_of(self, names: str | Iterable[str]) -> list[str]:
        """To where arrows lead from these variables, at one or more steps."""
        from trellis.bayesnet.model.surgery import descendants

        return descendants(self._network, names)

    # -- other networks ---------------------------------------------------------------------------------

    def do(self, states: Mapping[str, Any]) -> BayesianNetwork:
        """The network after an intervention that sets variables: see ``surgery``."""
        from trellis.bayesnet.model.surgery import intervened

        return intervened(self._network, states)

    def ancestral(self, names: str | Iterable[str]) -> BayesianNetwork:
        """The network of these variables and their ancestors: the same distribution, all else summed out."""
        from trellis.bayesnet.model.surgery import ancestral

        return ancestral(self._network, names)

    def renamed(self, names: Mapping[str, str]) -> BayesianNetwork:
        """The same network with other names for some variables."""
        from trellis.bayesnet.model.surgery import renamed

        return renamed(self._network, names)

    # -- questions: independence ------------------------------------------------------------------------

    def d_separated(
        self, x: str | Iterable[str], y: str | Iterable[str], given: str | Iterable[str] = ()
    ) -> bool:
        """Whether the arrows alone make ``x`` and ``y`` independent given ``given``; names or lists."""
        from trellis.bayesnet.separation.d_separation import d_separated

        return d_separated(self._network, x, y, given)

    def explain_separation(
        self,
        x: str | Iterable[str],
        y: str | Iterable[str],
        given: str | Iterable[str] = (),
        *,
        max_paths: int = 20,
    ) -> Separation:
        """Each path between ``x`` and ``y`` with the node that blocks it, or what opens its nodes."""
        from trellis.bayesnet.separation.separation_paths import explain_separation

        return explain_separation(self._network, x, y, given, max_paths=max_paths)

    def markov_blanket(self, name: str) -> list[str]:
        """Parents, children and the children's other parents."""
        from trellis.bayesnet.separation.d_separation import markov_blanket

        return markov_blanket(self._network, name)

    def minimal_separator(
        self,
        x: str | Iterable[str],
        y: str | Iterable[str],
        *,
        include: str | Iterable[str] = (),
        within: str | Iterable[str] | None = None,
    ) -> list[str] | None:
        """A set that d-separates ``x`` and ``y`` with no member to spare; None if nothing separates them."""
        from trellis.bayesnet.separation.d_separation import minimal_separator

        return minimal_separator(self._network, x, y, include=include, within=within)

    def independencies(self, *, max_given: int | None = None) -> list[Independence]:
        """All pairs with all sets of variables that d-separate them, in small networks."""
        from trellis.bayesnet.separation.d_separation import independencies

        return independencies(self._network, max_given=max_given)

    def moral_graph(self) -> dict[str, list[str]]:
        """The neighbours of each variable once parents are joined and arrows lose their heads."""
        from trellis.bayesnet.separation.d_separation import moral_graph

        return moral_graph(self._network)
