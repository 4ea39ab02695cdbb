"""Units: what people write is read exactly, written back exactly, and refused with a hint otherwise."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pssim.errors import InputError, UnitError
from pssim.units import (
    format_bytes,
    format_bytes_per_s,
    format_flops_per_s,
    format_seconds,
    format_si,
    parse_bytes,
    parse_bytes_per_s,
    parse_flops_per_s,
    parse_seconds,
    quote,
)

SPELLINGS = [
    (parse_seconds, "1.5 us", 1.5e-6),
    (parse_seconds, "1.5 µs", 1.5e-6),
    (parse_seconds, "1.5 μs", 1.5e-6),  # the Greek letter, not the micro sign
    (parse_seconds, "  3ms ", 3e-3),
    (parse_seconds, "+2e-3 s", 2e-3),
    (parse_seconds, "40 ns", 40e-9),
    (parse_seconds, "7 ps", 7e-12),
    (parse_seconds, "4 min", 240.0),
    (parse_seconds, "1.5 h", 5400.0),
    (parse_bytes, "80 GiB", 80 * 2**30),
    (parse_bytes, "25 MB", 25_000_000),
    (parse_bytes, "25 MiB", 25 * 2**20),
    (parse_bytes, "10 Mb", 1_250_000),
    (parse_bytes, "10 Mbit", 1_250_000),
    (parse_bytes, "1.5 kB", 1500),
    (parse_bytes, "1_000 bytes", 1000),
    (parse_bytes_per_s, "25 Gbit/s", 3.125e9),
    (parse_bytes_per_s, "25 Gbps", 3.125e9),
    (parse_bytes_per_s, "100Gb/s", 12.5e9),
    (parse_bytes_per_s, "12 GBps", 12e9),
    (parse_bytes_per_s, "3.35 TB/s", 3.35e12),
    (parse_bytes_per_s, "1 GiB/s", 2.0**30),
    (parse_flops_per_s, "312 TFLOP/s", 312e12),
    (parse_flops_per_s, "989 TFLOPS", 989e12),
]


@pytest.mark.parametrize(("parse", "text", "value"), SPELLINGS, ids=[text for _, text, _ in SPELLINGS])
def test_accepted_spellings(parse, text, value):
    """Each spelling gives the nearest float, or the exact number of bytes."""
    assert parse(text) == value


@pytest.mark.parametrize(
    ("parse", "value", "message"),
    [
        (parse_bytes_per_s, 25, "did you mean '25 GB/s' or '25 Gbit/s'?"),
        (parse_bytes_per_s, "25", "did you mean '25 GB/s' or '25 Gbit/s'?"),
        (parse_bytes_per_s, 2.5, "did you mean '2.5 GB/s' or '2.5 Gbit/s'?"),
        (parse_seconds, 3, "did you mean '3 us' or '3 ms'?"),
        (parse_bytes, 25, "did you mean '25 MB' or '25 MiB'?"),
        (parse_flops_per_s, 312, "did you mean '312 GFLOP/s' or '312 TFLOP/s'?"),
    ],
)
def test_bare_numbers_are_refused_with_a_suggestion(parse, value, message):
    """A number without a unit is refused, and both things it may have meant are shown."""
    with pytest.raises(UnitError, match="with a unit") as raised:
        parse(value)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("parse", "text", "message"),
    [
        (parse_bytes_per_s, "6 GB", "which is an amount of data; did you mean '6 GB/s'?"),
        (parse_bytes, "6 GB/s", "which is a bandwidth"),
        (parse_seconds, "6 GB", "which is an amount of data"),
        (parse_flops_per_s, "3 GFLOP", "which is a number of operations; did you mean '3 GFLOP/s'?"),
        (parse_bytes_per_s, "2 us", "which is a duration"),
    ],
)
def test_a_wrong_dimension_is_named(parse, text, message):
    """A known unit of another kind is called what it is."""
    with pytest.raises(UnitError) as raised:
        parse(text)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("parse", "text", "message"),
    [
        (parse_bytes_per_s, "25 gbit/s", "did you mean '25 Gbit/s'?"),
        (parse_bytes_per_s, "25 gb/s", "did you mean '25 GB/s' or '25 Gb/s'?"),
        (parse_bytes_per_s, "25 GB / s", "did you mean '25 GB/s'?"),
        (parse_bytes, "4 KB", "did you mean '4 kB' or '4 kb' or '4 KiB'?"),
        (parse_seconds, "3 MS", "did you mean '3 ms'?"),
        (parse_flops_per_s, "3 gflops", "did you mean '3 GFLOPS'?"),
    ],
)
def test_a_misspelt_unit_gets_a_near_match(parse, text, message):
    """Case matters, and the message shows the spellings that differ only in it."""
    with pytest.raises(UnitError, match="is not a unit") as raised:
        parse(text)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    "value",
    [
        "",
        " ",
        "GB/s",
        "fast",
        "-1 GB/s",
        "0 GB/s",
        "nan GB/s",
        "inf GB/s",
        "-inf GB/s",
        math.nan,
        math.inf,
        10**400,
        "1e400 GB/s",
        "1e999999999 GB/s",
        "1e-999999999 B/s",
        "1e-400 B/s",
        "1__0 B/s",
        "0x10 B/s",
        "١ GB/s",
        True,
        None,
        [1],
        "9" * 5000,
    ],
)
def test_what_is_no_bandwidth_is_refused(value):
    """Negative, zero, not finite, out of range, or no quantity at all: always one UnitError."""
    with pytest.raises(UnitError, match=r"^must be a bandwidth.*, it is "):
        parse_bytes_per_s(value)


def test_zero_is_allowed_where_it_means_something():
    """A latency may be zero; below zero it may not be."""
    assert parse_seconds("0 s", zero_allowed=True) == 0.0
    with pytest.raises(UnitError, match="not negative"):
        parse_seconds("-1 us", zero_allowed=True)


def test_bytes_are_whole():
    """Half a byte cannot be sent, and the message says how many bytes that would be."""
    with pytest.raises(UnitError, match=r"must be whole bytes, it is '12 bit', which is 1.5 bytes"):
        parse_bytes("12 bit")


def test_unit_errors_are_input_errors_and_value_errors():
    """So that both the command line and pydantic can catch them."""
    assert issubclass(UnitError, InputError)
    assert issubclass(UnitError, ValueError)


positive = st.floats(min_value=1e-300, max_value=1e300, allow_nan=False)


@given(positive)
def test_a_duration_survives_being_written(value):
    """parse(format(x)) == x for durations."""
    assert parse_seconds(format_seconds(value)) == value


@given(positive)
def test_a_bandwidth_survives_being_written(value):
    """parse(format(x)) == x for bandwidths."""
    assert parse_bytes_per_s(format_bytes_per_s(value)) == value


@given(positive)
def test_a_compute_rate_survives_being_written(value):
    """parse(format(x)) == x for compute rates."""
    assert parse_flops_per_s(format_flops_per_s(value)) == value


@given(st.integers(min_value=1, max_value=2**63 - 1) | st.integers(0, 62).map(lambda power: 2**power))
def test_an_amount_of_data_survives_being_written(value):
    """parse(format(x)) == x for bytes, whichever prefixes are chosen."""
    assert parse_bytes(format_bytes(value)) == value


@given(positive, st.integers(1, 6))
def test_rounding_keeps_the_digits_it_promises(value, digits):
    """A rounded quantity is off by at most half a unit in its last digit."""
    half_a_unit = 0.51 * 10.0 ** (1 - digits)
    assert parse_seconds(format_seconds(value, digits)) == pytest.approx(value, rel=half_a_unit)


PREFIXES = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
PREFIXES |= {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


@given(st.integers(1, 10**5), st.sampled_from(sorted(PREFIXES)), st.sampled_from(sorted(PREFIXES)))
def test_prefix_algebra(number, one, other):
    """A prefix multiplies, a byte is eight bits, and a rate is the amount in one second."""
    size = parse_bytes(f"{number} {one}B")
    assert size * PREFIXES[other] == parse_bytes(f"{number} {other}B") * PREFIXES[one]
    assert parse_bytes(f"{8 * number} {one}bit") == size
    assert parse_bytes_per_s(f"{number} {one}b/s") == parse_bytes(f"{8 * number} {one}b") / 8
    assert parse_bytes_per_s(f"{number} {one}bps") == parse_bytes_per_s(f"{number} {one}bit/s")


@given(st.text(max_size=30))
def test_any_text_is_read_or_refused(text):
    """No text makes a parser fail in any other way than UnitError."""
    for parse in (parse_seconds, parse_bytes, parse_bytes_per_s, parse_flops_per_s):
        try:
            assert parse(text) > 0
        except UnitError:
            continue


def test_text_for_people():
    """The prefix leaves one to three digits before the point; binary prefixes are used where shorter."""
    assert format_seconds(1.5e-6) == "1.5 us"
    assert format_seconds(0.999996, digits=4) == "1 s"
    assert format_seconds(0.0) == "0 s"
    assert format_bytes(25 * 2**20) == "25 MiB"
    assert format_bytes(102_228_128) == "102.228128 MB"
    assert format_bytes(102_228_128, digits=4) == "102.2 MB"
    assert format_bytes(8_000_000_000) == "8 GB"
    assert format_bytes_per_s(3.125e9) == "3.125 GB/s"
    assert format_flops_per_s(844.8e9) == "844.8 GFLOP/s"
    assert format_si(12_345.6, "samples/s") == "12.35 ksamples/s"
    assert format_si(math.nan, "s") == "nan s"


def test_quoted_values():
    """Values are shown as a TOML file has them, and long ones are shortened."""
    assert [quote(True), quote(3), quote("a")] == ["true", "3", "'a'"]
    assert len(quote("x" * 1000)) <= 60
