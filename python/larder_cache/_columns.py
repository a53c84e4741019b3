"""Columns of a frame as arrays of numbers.

A column is checked as a whole, and an error names the column and the row. Numbers that are of the
right type already are not copied. No step makes a Python object for each row.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from . import _core

U64 = NDArray[np.uint64]

#: Nanoseconds of each unit of an Arrow timestamp.
_NANOSECONDS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}


def ids(column: Any, name: str) -> U64:
    """Returns the numbers of the objects: whole numbers as they are, names as their hashes."""
    array = _arrow(column, name)
    kind = array.type
    _check_nulls(array, name, "every request needs an id")
    if pa.types.is_integer(kind):
        return _unsigned(_numbers(array))
    if pa.types.is_dictionary(kind):
        # The same numbers as those of the plain names.
        hashes: U64 = ids(array.dictionary, name)[_numbers(array.indices)]
        return hashes
    if pa.types.is_fixed_size_binary(kind):
        array = array.cast(pa.binary())
    if _is_names(array.type):
        return _hashes(array)
    remedy = "cast it to int64 or to strings"
    if pa.types.is_floating(kind):
        _check_finite(_numbers(array), name)
        remedy = "numbers with a fraction are no ids; cast it to int64"
    raise TypeError(
        f"column {name!r} has type {kind}, ids are integers, strings or bytes; {remedy}"
    )


def sizes(column: Any, name: str) -> U64:
    """Returns sizes in bytes."""
    array = _arrow(column, name)
    kind = array.type
    _check_nulls(array, name, "give 0 or 1 to requests without a size")
    if not pa.types.is_integer(kind) and not pa.types.is_floating(kind):
        raise TypeError(f"column {name!r} has type {kind}, sizes are whole numbers of bytes")
    numbers = _numbers(array)
    if pa.types.is_floating(kind):
        _check_finite(numbers, name)
        _check(numbers != np.floor(numbers), numbers, name, "is no whole number of bytes")
        _check(numbers >= 2.0**64, numbers, name, "does not fit into 64 bits")
    _check_not_negative(numbers, name)
    return _unsigned(numbers)


def times(column: Any, name: str) -> U64:
    """Returns times in nanoseconds: of timestamps, of durations, or of numbers of seconds."""
    array = _arrow(column, name)
    kind = array.type
    _check_nulls(array, name, "every request needs a time, or leave the column out")
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        numbers, scale = _numbers(array.cast(pa.int64())), _NANOSECONDS[kind.unit]
    elif pa.types.is_date(kind):
        # Days in 32 bits, or milliseconds in 64.
        days = pa.types.is_date32(kind)
        numbers = _numbers(array.cast(pa.int32() if days else pa.int64()))
        scale = 86_400_000_000_000 if days else 1_000_000
    elif pa.types.is_integer(kind) or pa.types.is_floating(kind):
        numbers, scale = _numbers(array), 1_000_000_000
    else:
        raise TypeError(f"column {name!r} has type {kind}, times are timestamps or seconds")
    if pa.types.is_floating(kind):
        numbers = numbers.astype(np.float64)
        _check_finite(numbers, name)
    _check_not_negative(numbers, name)
    late = "is later than the year 2554; numbers are seconds, cast others to timestamps"
    _check(numbers > (2**64 - 1) // scale, numbers, name, late)
    if pa.types.is_floating(kind):
        # The fraction apart: a product of seconds since 1970 would lose it.
        whole = np.floor(numbers)
        nanoseconds: U64 = whole.astype(np.uint64) * np.uint64(scale)
        nanoseconds += np.rint((numbers - whole) * scale).astype(np.uint64)
    elif scale == 1:
        nanoseconds = _unsigned(numbers)
    else:
        nanoseconds = numbers.astype(np.uint64) * np.uint64(scale)
    _check_ascending(nanoseconds, numbers, name)
    return nanoseconds


def _check_ascending(nanoseconds: U64, numbers: NDArray[Any], name: str) -> None:
    earlier = nanoseconds[1:] < nanoseconds[:-1]
    if earlier.any():
        row = int(np.argmax(earlier)) + 1
        raise ValueError(
            f"column {name!r}, row {row}: {numbers[row]} is earlier than the row before"
            f" ({numbers[row - 1]}); sort the frame by {name!r}"
        )


def _arrow(column: Any, name: str) -> pa.Array:
    """Returns the column as one Arrow array, without a copy where it is one piece of numbers."""
    if isinstance(column, np.ndarray) and column.ndim != 1:
        raise ValueError(f"column {name!r} has {column.ndim} dimensions, give one")
    if isinstance(column, np.ndarray) and not column.dtype.isnative:
        column = column.astype(column.dtype.newbyteorder("="))
    if isinstance(column, np.ndarray) and column.dtype.kind == "M":
        column = column.astype("datetime64[ns]") if column.dtype == "datetime64[D]" else column
    try:
        if isinstance(column, pa.ChunkedArray | pa.Array):
            array = column
        elif hasattr(column, "__arrow_c_stream__"):
            array = pa.chunked_array(column)
        else:
            array = pa.array(column, from_pandas=False)
    except (
        pa.ArrowInvalid,
        pa.ArrowTypeError,
        pa.ArrowNotImplementedError,
        OverflowError,
    ) as error:
        strange = _strange(column, name)
        if strange is not None:
            raise strange from None
        try:
            # Whole numbers from 2^63 on.
            array = pa.array(column, pa.uint64())
        except (pa.ArrowException, OverflowError, TypeError):
            raise TypeError(f"column {name!r}: {error}") from None
    if isinstance(array, pa.ChunkedArray):
        if pa.types.is_dictionary(array.type):
            array = array.unify_dictionaries()
        array = array.chunk(0) if array.num_chunks == 1 else array.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        raise ValueError(
            f"column {name!r} has more than 2 GB of names in one type; use large_string"
        )
    return array


def _strange(column: Any, name: str) -> Exception | None:
    """Returns the error of the first row whose type is another, or that does not fit."""
    first: type | None = None
    for row, value in enumerate(column):
        if isinstance(value, int) and not -(2**63) <= value < 2**64:
            return ValueError(f"column {name!r}, row {row}: {value} does not fit into 64 bits")
        first = first or type(value)
        if type(value) is not first:
            kind = type(value).__name__
            return TypeError(
                f"column {name!r}, row {row}: {value!r} is a {kind}, the rows before are"
                f" {first.__name__}; give one type"
            )
    return None


def _numbers(array: pa.Array) -> NDArray[Any]:
    return cast("NDArray[Any]", array.to_numpy(zero_copy_only=False))


def _unsigned(numbers: NDArray[Any]) -> U64:
    """Returns the same 64 bits as unsigned numbers, without a copy if they are 64 bits already."""
    if numbers.dtype.kind != "i":
        return np.ascontiguousarray(numbers, dtype=np.uint64)
    return np.ascontiguousarray(numbers, dtype=np.int64).view(np.uint64)


def _is_names(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or kind in _views()
    )


def _views() -> list[pa.DataType]:
    return [getattr(pa, view)() for view in ("string_view", "binary_view") if hasattr(pa, view)]


def _hashes(array: pa.Array) -> U64:
    """Returns the numbers that the readers of trace files give to the same names."""
    if not (pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)):
        array = array.cast(pa.large_binary())
    _, offsets, data = array.buffers()
    first, last = array.offset, array.offset + len(array) + 1
    bounds = np.frombuffer(offsets, dtype=np.int64)[first:last]
    names = np.frombuffer(data, dtype=np.uint8) if data else np.empty(0, dtype=np.uint8)
    return _core.hash_names(bounds, names)


def _check_nulls(array: pa.Array, name: str, remedy: str) -> None:
    if array.null_count:
        row = pc.index(array.is_null(), True).as_py()
        raise ValueError(
            f"column {name!r}, row {row}: the value is missing (null or NaN); {remedy}"
        )


def _check_finite(numbers: NDArray[Any], name: str) -> None:
    _check(~np.isfinite(numbers), numbers, name, "is no number to count with")


def _check_not_negative(numbers: NDArray[Any], name: str) -> None:
    if numbers.dtype.kind != "u":
        _check(numbers < 0, numbers, name, "is negative")


def _check(wrong: NDArray[np.bool_], numbers: NDArray[Any], name: str, problem: str) -> None:
    if wrong.any():
        row = int(np.argmax(wrong))
        value = str(numbers[row]).replace("nan", "NaN")
        raise ValueError(f"column {name!r}, row {row}: {value} {problem}")
