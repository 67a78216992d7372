import pytest

from torch_grama.nn.arguments import choose, list_nearest_first

COLOURS = {"red": 1, "green": 2, "grey": 3}


def test_a_known_word_gives_its_entry():
    assert choose("colour", "green", COLOURS) == 2


def test_an_unknown_word_lists_all_with_the_nearest_first():
    with pytest.raises(ValueError, match=r"^Expected 'colour' to be one of 'grey', 'green', 'red'"):
        choose("colour", "gray", COLOURS)


def test_the_message_says_what_came():
    with pytest.raises(ValueError, match=r"\(got 'gray'\)$"):
        choose("colour", "gray", COLOURS)


@pytest.mark.parametrize("word", [None, 3, ("red",), ["red"]])
def test_what_is_no_word_is_refused_like_an_unknown_one(word):
    with pytest.raises(ValueError, match="Expected 'colour' to be one of"):
        choose("colour", word, COLOURS)


def test_upper_case_does_not_hide_the_nearest_word():
    assert list_nearest_first("GREEN", COLOURS).startswith("'green'")
