"""``trellis warm-up``: compile kernels now, so that no first call has to wait for them."""

from __future__ import annotations

from typing import Annotated

from trellis.cli.console import echo, note
from trellis.cli.options import argument, option

Areas = Annotated[
    list[str] | None,
    argument(
        "[AREA]...", "What to compile: labeler, objectives, files, hmm, kalman, network, graph or neural."
    ),
]
Processes = Annotated[int | None, option("-j --jobs N", "Number of processes (default: all cores).", min=1)]
Ship = Annotated[
    str | None,
    option("--ship FOLDER", "Compile into a folder for a wheel, for a common level of processors."),
]


def warm_up(areas: Areas = None, jobs: Processes = None, ship: Ship = None) -> None:
    """Compile kernels now, so that no first call has to wait.

    Compiles those of every AREA (default: all) that are not compiled yet, in parallel processes.
    """
    from trellis.cli.warm_up.workers import compile_areas, keep_what_python_calls, shipping_settings
    from trellis.cli.warm_up.workloads import available_areas
    from trellis.core.errors import DataError, UnsupportedError
    from trellis.core.kernel_folders import kernel_folder, shipped_level, user_folder

    known, missing = available_areas()
    for area in areas or ():
        if area in missing:
            raise UnsupportedError(f"trellis warm-up {area} needs {missing[area]}, which is not installed")
        if area not in known:
            raise DataError(f"trellis warm-up {area}: there is no such area; choose from {', '.join(known)}")
    settings: dict[str, str] = {}
    folder = kernel_folder()
    if ship is not None:
        level = shipped_level()
        if level is None:
            raise UnsupportedError(
                "no common processor level is defined for this kind of machine, so nothing can be shipped"
            )
        folder, settings = shipping_settings(ship, level)
    elif user_folder() is None:
        raise DataError(
            f"compiled kernels cannot be kept in {folder}; set NUMBA_CACHE_DIR to a writable folder"
        )
    for area, module in missing.items():
        if not areas:
            note(f"{area} is left out: it needs {module}, which is not installed")
    wanted = list(dict.fromkeys(areas or known))
    added = compile_areas(wanted, folder, settings, jobs)
    if ship is not None:
        keep_what_python_calls(wanted, folder, settings)
    echo(f"{added} kernels compiled; kept in {folder}" if added else f"nothing to compile; kept in {folder}")
