"""Where shards of work run: on threads here, with states on disk where memory is short, or on a cluster.

    backend = as_backend("tcp://host:8786")              # or None, "processes", a Dask client, a Backend
    placed = backend.place(encode, sources)              # one state per source; they stay where work is done
    total = placed.total(gradient, weights)              # sum_i gradient(state_i, weights), in a fixed order

What is asked of states are plain functions at the top of a module (or ``functools.partial`` of them) without
side effects. So a state that is lost can be made again, a question asked again, and the numbers are the same
on any number of threads, processes and machines.
"""

from trellis.core.backends.backend import Backend, PlacedShards
from trellis.core.backends.choice import as_backend, config_context

__all__ = ["Backend", "PlacedShards", "as_backend", "config_context"]
