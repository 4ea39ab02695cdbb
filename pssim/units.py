"""Text to SI and back: the only place where a unit is read.

Inside pssim everything is in seconds, bytes, bytes per second and FLOP per second, as plain numbers.
At the edge people write what they say:

==================  ==========================================================================
durations           ``s ms us µs ns ps min h``
amounts of data     ``B byte bytes`` and ``b bit bits``, after ``k M G T P E`` or ``Ki Mi Gi Ti Pi Ei``
bandwidths          any of those followed by ``/s``; also ``Gbps`` and ``GBps``, and their like
compute rates       ``FLOP/s`` and ``FLOPS``, after ``k M G T P E``
==================  ==========================================================================

Case matters: ``b`` is a bit and ``B`` a byte, ``GB`` is 10**9 bytes and ``GiB`` is 2**30.  A number
without a unit is refused, since nobody can say later what was meant.  Reading is exact: the result is the
float nearest to the decimal number that was written.

Every message is a predicate ("must be ..., it is ..."), so that a caller can put the place and the
name of the setting before it.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from decimal import Decimal
from difflib import get_close_matches
from fractions import Fraction

from pssim.errors import UnitError

__all__ = [
    "format_bytes",
    "format_bytes_per_s",
    "format_flops_per_s",
    "format_seconds",
    "format_si",
    "parse_bytes",
    "parse_bytes_per_s",
    "parse_flops_per_s",
    "parse_seconds",
    "quote",
]


@dataclass(frozen=True, slots=True)
class _Dimension:
    """A kind of quantity, how to speak of it, and what a bare number was probably meant to be."""

    what: str
    example: str
    guesses: tuple[str, ...] = ()


_DURATION = _Dimension("a duration", "1.5 us", ("us", "ms"))
_DATA = _Dimension("an amount of data", "25 MiB", ("MB", "MiB"))
_BANDWIDTH = _Dimension("a bandwidth", "25 Gbit/s", ("GB/s", "Gbit/s"))
_COMPUTE = _Dimension("a compute rate", "312 TFLOP/s", ("GFLOP/s", "TFLOP/s"))
_OPERATIONS = _Dimension("a number of operations", "8 GFLOP")

_DECIMAL = {"": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_TIME = {"": 0, "m": -3, "u": -6, "µ": -6, "n": -9, "p": -12}


def _table() -> dict[str, tuple[_Dimension, Fraction]]:
    """Every spelling of a unit, what it measures, and its size in SI (data in bytes)."""
    table = {"min": (_DURATION, Fraction(60)), "h": (_DURATION, Fraction(3600))}
    for prefix, power in _TIME.items():
        table[f"{prefix}s"] = (_DURATION, Fraction(10) ** power)
    scales = {prefix: Fraction(10) ** power for prefix, power in _DECIMAL.items()}
    for prefix, scale in scales.items():
        table[f"{prefix}FLOP"] = (_OPERATIONS, scale)
        table[f"{prefix}FLOP/s"] = table[f"{prefix}FLOPS"] = (_COMPUTE, scale)
    scales |= {prefix: Fraction(2) ** power for prefix, power in _BINARY.items()}
    for prefix, scale in scales.items():
        for name in ("B", "byte", "bytes", "b", "bit", "bits"):
            size = scale if name.startswith(("B", "byte")) else scale / 8
            table[f"{prefix}{name}"] = (_DATA, size)
            table[f"{prefix}{name}/s"] = (_BANDWIDTH, size)
        table[f"{prefix}Bps"] = (_BANDWIDTH, scale)
        table[f"{prefix}bps"] = (_BANDWIDTH, scale / 8)
    return table


_UNITS = _table()
_QUANTITY = re.compile(
    r"(?P<number>[+-]?(?:[0-9]+(?:_[0-9]+)*\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|[+-]?(?:nan|inf(?:inity)?)\b)"
    r"\s*(?P<unit>.*)",
    re.IGNORECASE | re.DOTALL,
)
# Longer than any quantity a person writes; keeps hostile input from costing time.
_LONGEST = 60


def quote(value: object) -> str:
    """A value as the person may have written it, shortened where it is long."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "nothing"
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 4]}...{text[-1]}"


# ------------------------------------------------------------------------------------------ reading


def parse_seconds(value: object, *, zero_allowed: bool = False) -> float:
    """Seconds from text such as ``"1.5 us"``.  Raise UnitError if it is not a duration."""
    return _float(value, _DURATION, zero_allowed)


def parse_bytes(value: object, *, zero_allowed: bool = False) -> int:
    """Whole bytes from text such as ``"25 MiB"``.  Raise UnitError if it is not an amount of data."""
    exact = _exact(value, _DATA, zero_allowed)
    if exact.denominator != 1:
        raise UnitError(f"must be whole bytes, it is {quote(value)}, which is {float(exact):.6g} bytes")
    if exact >= 2**63:
        raise UnitError(f"must be less than 2**63 bytes, it is {quote(value)}")
    return exact.numerator


def parse_bytes_per_s(value: object, *, zero_allowed: bool = False) -> float:
    """Bytes per second from text such as ``"25 Gbit/s"``.  Raise UnitError if it is not a bandwidth."""
    return _float(value, _BANDWIDTH, zero_allowed)


def parse_flops_per_s(value: object, *, zero_allowed: bool = False) -> float:
    """FLOP per second from text such as ``"312 TFLOP/s"``.  Raise UnitError if it is not a compute rate."""
    return _float(value, _COMPUTE, zero_allowed)


def _float(value: object, wanted: _Dimension, zero_allowed: bool) -> float:
    exact = _exact(value, wanted, zero_allowed)
    result = float(exact) if exact < 2**1000 else math.inf
    if math.isinf(result) or (result == 0.0 and exact != 0):
        raise UnitError(f"must be {wanted.what} of a size that floating point can hold, it is {quote(value)}")
    return result


def _exact(value: object, wanted: _Dimension, zero_allowed: bool) -> Fraction:
    must = f"must be {wanted.what} with a unit, such as {wanted.example!r}"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if isinstance(value, float) and not math.isfinite(value):
            raise UnitError(f"must be {wanted.what} that is finite, it is {quote(value)}")
        raise UnitError(f"{must}, it is {quote(value)}; {_guess(quote(value), wanted)}")
    if not isinstance(value, str):
        raise UnitError(f"{must}, it is {quote(value)}")
    text = value.strip()
    match = _QUANTITY.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        raise UnitError(f"{must}, it is {quote(value)}")
    number = match["number"].replace("_", "")
    if not math.isfinite(float(number)):
        raise UnitError(f"must be {wanted.what} that is finite, it is {quote(value)}")
    # Two code points look the same: the micro sign and the Greek letter.
    unit = match["unit"].replace("μ", "µ")
    if not unit:
        raise UnitError(f"{must}, it is {quote(value)}; {_guess(number, wanted)}")
    if unit not in _UNITS:
        near = _near(number, unit, wanted)
        raise UnitError(f"{must}, it is {quote(value)}: {quote(unit)} is not a unit{near}")
    dimension, size = _UNITS[unit]
    if dimension is not wanted:
        rate = _UNITS.get(f"{unit}/s")
        near = f"; did you mean '{number} {unit}/s'?" if rate is not None and rate[0] is wanted else ""
        raise UnitError(f"{must}, it is {quote(value)}, which is {dimension.what}{near}")
    # Fraction, so that "1.5 us" is the float nearest to 0.0000015 and not 1.5 times a rounded 1e-6.
    # A number in the range of float has few enough digits; one below it must not build a vast integer.
    decimal = Decimal(number)
    if decimal and decimal.adjusted() < -400:
        raise UnitError(f"must be {wanted.what} of a size that floating point can hold, it is {quote(value)}")
    exact = Fraction(decimal) * size
    if exact < 0 or (exact == 0 and not zero_allowed):
        sign = "not negative" if zero_allowed else "greater than zero"
        raise UnitError(f"must be {wanted.what} that is {sign}, it is {quote(value)}")
    return exact


def _guess(number: str, wanted: _Dimension) -> str:
    return f"did you mean {' or '.join(repr(f'{number} {unit}') for unit in wanted.guesses)}?"


def _near(number: str, unit: str, wanted: _Dimension) -> str:
    """What a wrong unit was probably meant to be."""
    spellings = [spelling for spelling, (dimension, _) in _UNITS.items() if dimension is wanted]
    squeezed = "".join(unit.split())
    if squeezed in spellings:
        candidates = [squeezed]
    else:
        candidates = [spelling for spelling in spellings if spelling.casefold() == squeezed.casefold()]
    if squeezed.startswith("K"):
        # KB is read as 1000 by some and as 1024 by others, so both are offered.
        candidates += [spelling for spelling in (f"Ki{squeezed[1:]}",) if spelling in spellings]
    candidates = candidates or get_close_matches(squeezed, spellings, n=1)
    if not candidates:
        return ""
    return f"; did you mean {' or '.join(repr(f'{number} {spelling}') for spelling in candidates)}?"


# ---------------------------------------------------------------------------------------- writing


def format_seconds(value_s: float, digits: int | None = None) -> str:
    """A duration as text: ``"1.5 us"``.  It reads back as the same number, unless ``digits`` rounds it."""
    return _format(value_s, "s", digits, {"": 0, "m": -3, "u": -6, "n": -9, "p": -12})


def format_bytes(value_bytes: float, digits: int | None = None) -> str:
    """An amount of data as text: ``"25 MiB"``, ``"102.228128 MB"``; binary where that is shorter."""
    decimal = _format(value_bytes, "B", digits, _DECIMAL)
    if not float(value_bytes).is_integer():
        return decimal
    whole = int(value_bytes)
    for prefix, power in reversed(_BINARY.items()):
        if whole and whole % 2**power == 0:
            binary = f"{whole >> power} {prefix}B"
            return binary if len(binary) < len(decimal) else decimal
    return decimal


def format_bytes_per_s(value_bytes_per_s: float, digits: int | None = None) -> str:
    """A bandwidth as text: ``"3.125 GB/s"``."""
    return _format(value_bytes_per_s, "B/s", digits, _DECIMAL)


def format_flops_per_s(value_flops_per_s: float, digits: int | None = None) -> str:
    """A compute rate as text: ``"312 TFLOP/s"``."""
    return _format(value_flops_per_s, "FLOP/s", digits, _DECIMAL)


def format_si(value: float, unit: str, digits: int | None = 4) -> str:
    """Any quantity for people to read, with the SI prefix that leaves one to three digits in front."""
    return _format(value, unit, digits, {"p": -12, "n": -9, "u": -6, "m": -3, **_DECIMAL})


def _format(value: float, unit: str, digits: int | None, prefixes: dict[str, int]) -> str:
    if not math.isfinite(value):
        return f"{value} {unit}"
    text = repr(value) if digits is None else f"{value:.{digits - 1}e}"
    decimal = Decimal(text).normalize()
    if not decimal:
        return f"0 {unit}"
    # The largest prefix that is not larger than the number, else the smallest there is.
    fitting = [item for item in prefixes.items() if item[1] <= decimal.adjusted()]
    choose = max if fitting else min
    prefix, power = choose(fitting or prefixes.items(), key=lambda item: item[1])
    scaled = decimal.scaleb(-power)
    # Far outside the prefixes an exponent is easier to read than a row of zeros.
    return f"{scaled:f} {prefix}{unit}" if -4 <= scaled.adjusted() <= 5 else f"{float(text)!r} {unit}"
