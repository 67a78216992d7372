import pytest

from torch_grama.runs.words import clip, format_bytes, format_metric, format_seconds


@pytest.mark.parametrize(
    ("size", "text"), [(5, "5 bytes"), (1500, "1.5 kB"), (50_000_000, "50 MB"), (3e9, "3.0 GB")]
)
def test_sizes(size, text):
    assert format_bytes(size) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(3.21, "3.2 s"), (75, "1 min 15 s"), (7300, "2 h 01 min")]
)
def test_time_spans(seconds, text):
    assert format_seconds(seconds) == text


def test_a_long_text_ends_in_a_sign():
    assert clip("abc", 3) == "abc"
    assert clip("abcd", 3) == "ab…"


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0.0000"), (0.86512, "0.8651"), (-0.001, "-0.0010"), (3.6e-8, "3.60e-08")],
)
def test_small_values_are_not_printed_as_zero(value, text):
    assert format_metric(value) == text
