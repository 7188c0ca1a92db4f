"""Checkpoints: all that a run needs to go on, in one file of the library's format, written after each epoch.

The file knows the parameters and a checksum of the data of its run; a run of anything else refuses it. It
holds arrays and JSON, no code.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from trellis.core import storage
from trellis.core.errors import DataError, ModelFileError
from trellis.core.status import Status
from trellis.neural.labeler.batches import Corpus
from trellis.neural.labeler.network_training import Plan, Run
from trellis.neural.labeler.schedules import new_optimizer

KIND = "NeuralCheckpoint"


def data_checksum(*corpora: Corpus | None) -> int:
    """CRC-32 of inputs and labels."""
    found = 0
    for corpus in corpora:
        if corpus is None or corpus.gold is None:
            continue
        allowed = np.zeros(0) if corpus.gold.allowed is None else corpus.gold.allowed
        for array in (corpus.inputs.rows, corpus.inputs.offsets, corpus.gold.codes, allowed):
            found = zlib.crc32(np.ascontiguousarray(array).tobytes(), found)
    return found


def write_checkpoint(path: storage.PathLike, run: Run, identity: Mapping[str, Any]) -> None:
    """Replace the file at ``path`` by where the run stands."""
    arrays = {f"network.{k}": v.detach().numpy() for k, v in run.network.state_dict().items()}
    arrays |= {f"best.{k}": v.numpy() for k, v in run.best.items()}
    for i, state in run.optimizer.state_dict()["state"].items():
        arrays |= {f"optimizer.{i}.{k}": v.numpy() for k, v in state.items() if v is not None}
    meta = {
        "identity": dict(identity),
        "epoch": run.epoch,
        "history": run.history,
        "best_loss": None if np.isinf(run.best_loss) else run.best_loss,
        "since_best": run.since_best,
        "status": None if run.status is None else asdict(run.status),
    }
    storage.save(path, KIND, meta, arrays)


def resume(path: storage.PathLike, run: Run, plan: Plan, identity: Mapping[str, Any]) -> bool:
    """Bring a new run to where the checkpoint stands; False where there is none yet."""
    shown = os.fspath(path)
    if not os.path.exists(path):
        return False
    kind, meta, arrays = storage.read(path)
    if kind != KIND:
        raise ModelFileError(f"{shown}: holds a {kind}, not a checkpoint; give checkpoint= another path")
    stored = meta["identity"]
    different = [key for key in identity if stored.get(key) != identity[key]]
    if different:
        raise DataError(
            f"{shown}: the checkpoint is of a run with other {different[0]}; remove it to start anew"
        )
    try:
        run.network.load_state_dict(_tensors("network.", arrays))
        _restore_optimizer(run, plan, int(meta["epoch"]), _tensors("optimizer.", arrays))
        run.best = _tensors("best.", arrays)
        run.epoch, run.since_best = int(meta["epoch"]), int(meta["since_best"])
        run.history = {key: [float(x) for x in values] for key, values in meta["history"].items()}
        run.best_loss = np.inf if meta["best_loss"] is None else float(meta["best_loss"])
        run.status = None if meta["status"] is None else Status(**meta["status"])
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise ModelFileError(f"{shown}: the checkpoint does not fit this network; remove the file") from error
    return True


def _restore_optimizer(run: Run, plan: Plan, epoch: int, tensors: Mapping[str, torch.Tensor]) -> None:
    run.optimizer = new_optimizer(plan.optimizer, run.network, plan.learning_rate, plan.weight_decay)
    if epoch == 0:
        return
    state: dict[int, dict[str, torch.Tensor]] = {}
    for name, tensor in tensors.items():
        number, _, key = name.partition(".")
        state.setdefault(int(number), {})[key] = tensor
    run.optimizer.load_state_dict(
        {"state": state, "param_groups": run.optimizer.state_dict()["param_groups"]}
    )


def _tensors(prefix: str, arrays: Mapping[str, NDArray[Any]]) -> dict[str, torch.Tensor]:
    return {
        name.removeprefix(prefix): torch.from_numpy(np.array(array))
        for name, array in arrays.items()
        if name.startswith(prefix)
    }
