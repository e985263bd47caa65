"""Ten prompts of different kinds and lengths."""

SMOLLM2_PROMPTS = (
    "The capital of France is",
    "Once upon a time, in a small house by the sea, there lived",
    "def fibonacci(n):\n    ",
    "<|im_start|>user\nName three colours.<|im_end|>\n<|im_start|>assistant\n",
    "Water boils at 100 degrees Celsius because",
    "1, 2, 3, 4, 5, 6, 7,",
    "Die Hauptstadt von Deutschland heißt Berlin. La capitale de la France est",
    '{"name": "octavo", "pages": 8, "sizes": [',
    "In printing, an octavo is a book format in which each sheet of paper is folded three times, "
    "so that it makes eight leaves, or sixteen pages. The name says nothing about the size of the "
    "page, for sheets of paper came in many sizes. Smaller formats are the duodecimo, with twelve "
    "leaves to the sheet, and the sextodecimo, with sixteen; larger ones are the quarto, with "
    "four, and the folio, with two. A reader of the seventeenth century would have",
    "A",
)


def tiny_prompts(vocab_size: int) -> list[list[int]]:
    """Ten prompts of 1 to 100 token ids for models that know no language."""
    lengths = (1, 2, 3, 5, 8, 13, 21, 34, 60, 100)
    return [
        [3 + (7 * start + 11 * place) % (vocab_size - 3) for place in range(length)]
        for start, length in enumerate(lengths)
    ]
