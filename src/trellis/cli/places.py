"""Where the work is done: threads here, processes here, or a cluster; and in how much memory."""

from __future__ import annotations

import glob
import os
from typing import Annotated

from trellis.cli.options import option
from trellis.core.errors import UnsupportedError

Cluster = Annotated[
    str | None,
    option("--cluster ADDRESS", "Work on the Dask cluster with this scheduler, such as tcp://host:8786."),
]
LocalCluster = Annotated[
    int | None, option("--local-cluster N", "Work in N processes on this machine.", min=1)
]
MaxMemory = Annotated[
    str | None,
    option("--max-memory SIZE", "About how much memory to use, such as 1GB; files are read in shards."),
]


def chosen_place(cluster: str | None, local_cluster: int | None) -> str | None:
    """What the options say as the ``backend`` of an estimator; None is this process."""
    if cluster is not None and local_cluster is not None:
        raise UnsupportedError("--cluster and --local-cluster both say where to work; give only one of them")
    return f"processes:{local_cluster}" if local_cluster is not None else cluster


def is_one_file(files: list[str]) -> bool:
    """Whether one file (or standard input) is meant, and neither a folder nor a pattern."""
    if len(files) != 1:
        return False
    pattern = glob.has_magic(files[0]) and not os.path.exists(files[0])
    return not os.path.isdir(files[0]) and not pattern
