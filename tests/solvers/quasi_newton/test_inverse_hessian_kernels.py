"""The passes over pairs give the same bits wherever their arrays lie in memory."""

from __future__ import annotations

from itertools import permutations

import numpy as np

from trellis.solvers.quasi_newton.inverse_hessian_kernels import combine, products_with, store_pair

N, SLOTS = 2500, 4
ROOM = np.zeros(1_000_000, np.uint8)


def placed(arrays: dict[str, np.ndarray], order: tuple[str, ...], gap: int) -> dict[str, np.ndarray]:
    """Copies that follow each other in one buffer."""
    at, views = (-ROOM.ctypes.data) % 64, {}
    for name in order:
        array = arrays[name]
        views[name] = ROOM[at : at + array.nbytes].view(array.dtype).reshape(array.shape)
        views[name][...] = array
        at += array.nbytes + (-array.nbytes) % 16 + gap
    return views


def test_the_same_bits_in_every_order() -> None:
    """Compilers choose among versions of a loop by the addresses of its arrays."""
    rng = np.random.default_rng(0)
    arrays = {
        "pairs": rng.normal(size=(2 * SLOTS, N)).astype(np.float32),
        "vector": rng.normal(size=N),
        "scale": (rng.random(N) + 0.1).astype(np.float32),
        "out": np.zeros(N),
    }
    coefficients = rng.normal(size=2 * SLOTS) * (np.arange(2 * SLOTS) != 3)
    used, found = np.arange(2 * SLOTS), set()
    for order in permutations(arrays):
        for gap in (0, 16, 4096):
            a = placed(arrays, order, gap)
            combine(a["pairs"], coefficients, a["vector"], 0.7, a["scale"], 0, N, a["out"])
            products, pairs = np.zeros(2 * SLOTS), np.zeros((2, 2 * SLOTS))
            products_with(a["pairs"], used, a["vector"], a["scale"], 0, N, products)
            direction = a["out"].tobytes()
            store_pair(
                a["pairs"], used, 1, a["vector"], a["out"], a["out"], a["vector"], a["scale"], 0, N, pairs
            )
            found.add((direction, products.tobytes(), a["pairs"].tobytes(), pairs.tobytes()))
    assert len(found) == 1
    expected = arrays["scale"] * (0.7 * arrays["scale"] * arrays["vector"] + coefficients @ arrays["pairs"])
    np.testing.assert_allclose(np.frombuffer(found.pop()[0]), expected, rtol=1e-5, atol=1e-6)
