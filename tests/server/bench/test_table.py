from server.bench.table import table


def test_words_stand_left_and_numbers_right() -> None:
    assert table(("name", "n", "x"), [("a", "1.5", "-"), ("bcdef", "10", "3.0")]) == (
        "name     n    x\na      1.5    -\nbcdef   10  3.0"
    )
