"""Changes to files: of bytes and tokens for text and sound, of the header and the arrays for models."""

from __future__ import annotations

import copy
import gzip
import json
import random
import re
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy

Arrays = dict[str, np.ndarray]
Path_ = tuple[Any, ...]

NUMBERS = [
    "-1", "0", "-0", "1", "2", "7", "255", "65536", "2147483648", "4294967296", "9223372036854775807",
    "9223372036854775808", "1000000", "100000000", "99999999999999999999999", "1e18", "1e309", "-1e309",
    "1e-320", "0.5", "nan", "inf", "-inf", "1_0", "+1", "0x10", "٣", "9" * 5000,
]  # fmt: skip
TOKENS = [
    *NUMBERS, "", " ", "\t", "\n", "\n\n", "\r", "\0", "\x0b", "\x0c", "\x1c", "\x1b[31m", "\x85", "\xa0",
    "\u2028", "\ufeff", "😀", '"', "'", "{", "}", "[", "]", "(", ")", ":", ";", ",", "=", "\\", "/", "%", "#",
    "<", ">", "&amp;", "&a;", "<!--", "%x[0,0]", "%x[-99999999,0]", "%x[0,99999999999]",
    "%prefix99999999999[0,0]", "true", "null", "None", "..", "../../x", "[[" * 3000, '{"a":' * 3000, '"\n',
    "2:3", "::1", "a:nan", "a:inf", "a:1e400",
]  # fmt: skip
RAW = [token.encode() for token in TOKENS] + [b"\xff\xfe", b"\xed\xa0\x80", b"\x85", b"\xff"]


def mutate_text(rng: random.Random, data: bytes) -> bytes:
    """A text file with some bytes, tokens, numbers or lines changed, moved, doubled or cut."""
    for _ in range(rng.choice([1, 1, 1, 2, 3, 6, 20])):
        data = rng.choice(_TEXT_CHANGES)(rng, data)
    if rng.random() < 0.03:
        data = gzip.compress(data)
        data = _byte(rng, data) if rng.random() < 0.5 else data
    return data


def _byte(rng: random.Random, data: bytes) -> bytes:
    changed = bytearray(data or b"x")
    changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed)


def _bit(rng: random.Random, data: bytes) -> bytes:
    changed = bytearray(data or b"x")
    changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _delete(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + data[at + rng.choice([1, 2, 5, 20, 100]) :]


def _insert(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice(RAW) + data[at:]


def _repeat(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + data[at : at + rng.randrange(1, 60)] * rng.choice([1, 2, 50]) + data[at:]


def _cut(rng: random.Random, data: bytes) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _replace(pattern: bytes, choices: list[bytes]) -> Any:
    def change(rng: random.Random, data: bytes) -> bytes:
        found = list(re.finditer(pattern, data))
        if not found:
            return data
        one = rng.choice(found)
        return data[: one.start()] + rng.choice(choices) + data[one.end() :]

    return change


def _swap(rng: random.Random, data: bytes) -> bytes:
    found = list(re.finditer(rb"\S+", data))
    if len(found) < 2:
        return data
    a, b = sorted(rng.sample(found, 2), key=lambda one: one.start())
    return data[: a.start()] + b[0] + data[a.end() : b.start()] + a[0] + data[b.end() :]


def _double_line(rng: random.Random, data: bytes) -> bytes:
    lines = data.split(b"\n")
    lines.insert(rng.randrange(len(lines) + 1), rng.choice(lines))
    return b"\n".join(lines)


def _delete_line(rng: random.Random, data: bytes) -> bytes:
    lines = data.split(b"\n")
    del lines[rng.randrange(len(lines))]
    return b"\n".join(lines)


_TEXT_CHANGES = [
    _byte, _bit, _delete, _insert, _repeat, _cut, _swap, _double_line, _delete_line,
    _replace(rb'[^\s,;{}()\[\]"=:<>]+', RAW),
    _replace(rb"-?\d+\.?\d*", [number.encode() for number in NUMBERS]),
]  # fmt: skip


def mutate_sound(rng: random.Random, data: bytes) -> bytes:
    """A recording with a changed header, or cut."""
    changed = bytearray(data)
    for _ in range(rng.choice([1, 2, 4])):
        at = rng.randrange(min(64, len(changed)))
        if rng.random() < 0.7:
            changed[at] = rng.choice([0, 255, 127, 128, rng.randrange(256)])
        elif rng.random() < 0.5:
            changed[at : at + 4] = rng.choice([b"\xff" * 4, b"\xff\xff\xff\x7f", bytes(4), b"\0\0\0\x80"])
        else:
            changed = changed[: rng.randrange(len(changed))]
            changed += bytes(max(0, 70 - len(changed)))
    return bytes(changed)


# -- models ------------------------------------------------------------------------------------------------

VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 2, 3, 7, 255, 65536, 2**31, 2**32, 2**53, 2**63, 2**64, 10**12, -(10**12),
    10**400, 0.5, -0.5, 1e308, float("nan"), float("inf"), "", "x", "log", "margin", "auto", "nan",
    "../../etc/passwd", "<script>", "\x1b[31m", [], [[]], {}, [1], [0, 0], [None], ["a"], {"a": 1},
    {"@": "tuple", "items": []}, {"@": "array"},
    {"@": "float", "value": "nan"}, {"@": "function"}, {"@": "core.Status"},
    {"@": []}, [10**9], [10**9] * 3, [-1] * 3,
]  # fmt: skip
DTYPES = ["<f8", "<f4", "<i8", "<i4", "<u4", "<u2", "|u1", "|b1"]
FLOATS = [np.nan, np.inf, -np.inf, 0.0, -1.0, 1e308, -1e308, 1e-320, 2.0, 0.5, 1e18]


def read_model(path: Path) -> tuple[dict[str, Any], Arrays]:
    """The header without its checksum, and the arrays."""
    content = path.read_bytes()
    arrays = {name: np.array(array) for name, array in safetensors.numpy.load(content).items()}
    length = int.from_bytes(content[:8], "little")
    head = json.loads(json.loads(content[8 : 8 + length])["__metadata__"]["trellis"])
    del head["checksum"]
    return head, arrays


def write_model(path: Path, head: dict[str, Any], arrays: Arrays) -> None:
    """A model file whose checksum is right, whatever it holds."""
    arrays = {name: np.array(array, order="C") for name, array in arrays.items()}
    names = sorted(arrays)
    shapes = [[name, arrays[name].dtype.str, list(arrays[name].shape)] for name in names]
    head = json.loads(json.dumps(head))
    checksum = zlib.crc32(json.dumps([head, shapes], sort_keys=True).encode())
    for name in names:
        checksum = zlib.crc32(arrays[name].tobytes(), checksum)
    described = json.dumps({**head, "checksum": checksum})
    path.write_bytes(safetensors.numpy.save(arrays, metadata={"trellis": described}))


def mutate_model(
    rng: random.Random, head: dict[str, Any], arrays: Arrays
) -> tuple[dict[str, Any], Arrays, str]:
    """Some values of the header or some arrays changed, and in words what was changed."""
    head, arrays, said = json.loads(json.dumps(head)), dict(arrays), []
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        if arrays and rng.random() < 0.5:
            said.append(_mutate_arrays(rng, arrays))
        else:
            said.append(_mutate_head(rng, head))
    return head, arrays, "; ".join(said)


def _mutate_arrays(rng: random.Random, arrays: Arrays) -> str:
    name = rng.choice(sorted(arrays))
    if rng.random() < 0.07:
        del arrays[name]
        return f"without the array {name}"
    arrays[name], how = _mutate_array(rng, arrays[name])
    return f"{name}: {how}"


def _mutate_array(rng: random.Random, array: np.ndarray) -> tuple[np.ndarray, str]:
    how = rng.choice(
        ["values"] * 5 + ["type", "cut", "longer", "flat", "one more axis", "empty", "transposed", "shuffled"]
    )
    if how == "values" and array.size:
        flat = array.reshape(-1).copy()
        for _ in range(rng.choice([1, 1, 2, 5])):
            at = rng.randrange(flat.size)
            flat[at] = _other_value(rng, flat[at])
        return flat.reshape(array.shape), how
    if how == "type":
        dtype = rng.choice(DTYPES)
        with np.errstate(all="ignore"):
            return array.astype(dtype), f"as {dtype}"
    if how == "cut" and array.ndim and len(array):
        return array[: rng.randrange(len(array))], how
    if how == "longer" and array.ndim:
        return np.concatenate([array, array[: max(1, len(array) // 2)]]), how
    if how == "flat":
        return array.reshape(-1), how
    if how == "one more axis":
        return array[None], how
    if how == "empty":
        return np.zeros((0,), array.dtype), how
    if how == "transposed":
        return array.T, how
    order = list(range(array.size))
    rng.shuffle(order)
    return array.reshape(-1)[order].reshape(array.shape), "shuffled"


def _other_value(rng: random.Random, value: np.generic) -> Any:
    if value.dtype.kind == "f":
        return rng.choice(FLOATS)
    if value.dtype.kind == "b":
        return not value
    info = np.iinfo(value.dtype)
    choices = [info.max, info.min, 0, 1, info.max // 2, int(value) + 1, int(value) - 1, rng.randrange(1, 300)]
    return min(info.max, max(info.min, rng.choice(choices)))


def _mutate_head(rng: random.Random, head: dict[str, Any]) -> str:
    place = rng.choice([path for path in _paths(head) if path])
    holder = _at(head, place[:-1])
    current = holder[place[-1]]
    draw = rng.random()
    if draw < 0.1:
        del holder[place[-1]]
        return f"without {place}"
    if draw < 0.35 and isinstance(current, int | float) and not isinstance(current, bool):
        value: Any = rng.choice([current + 1, current - 1, -current, current * 2, current * 10**6, 0, 1])
    elif draw < 0.5 and isinstance(current, list) and current:
        value = copy.deepcopy(
            rng.choice([current[:-1], current + current, current[::-1], [*current, current[0]]])
        )
    else:
        value = copy.deepcopy(rng.choice(VALUES))
    holder[place[-1]] = value
    return f"{place} = {str(value)[:60]}"


def _paths(value: Any, path: Path_ = ()) -> list[Path_]:
    found = [path]
    if isinstance(value, dict):
        for key in value:
            found += _paths(value[key], (*path, key))
    elif isinstance(value, list):
        for i in range(min(len(value), 30)):
            found += _paths(value[i], (*path, i))
    return found


def _at(value: Any, path: Path_) -> Any:
    for key in path:
        value = value[key]
    return value
