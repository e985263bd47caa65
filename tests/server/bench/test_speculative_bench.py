"""`octavo bench speculative`: both clients run every answer; what their times are is no test's business."""

import json
from pathlib import Path

import pytest

from server.bench.errors import BenchError
from server.bench.speculative import PASSAGES, Compared, Pair, Timed, as_table, mean_ratio
from server.bench.speculative_run import compare
from server.cli import main
from tests.support.checkpoints import tiny_llama
from tests.support.live_server import LiveServer


def bench(file: Path, *flags: str) -> list[dict[str, object]]:
    few = ("--rounds=1", "--new-tokens=6", f"--json={file}")
    assert main(["bench", "speculative", *few, *flags]) == 0
    report: list[dict[str, object]] = json.loads(file.read_text(encoding="utf-8"))
    return report


def names(report: list[dict[str, object]]) -> list[object]:
    return [dict(one["passage"])["name"] for one in report]  # type: ignore[call-overload]


def test_an_engine_here_gives_every_answer_both_ways(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = tiny_llama(tmp_path / "tiny", max_position_embeddings=2048)
    report = bench(
        tmp_path / "report.json", f"--model={model}", "--device=cpu", "--kv-cache-memory=16MiB"
    )
    assert names(report) == [passage.name for passage in PASSAGES]
    table = capsys.readouterr().out
    assert all(passage.name in table for passage in PASSAGES)
    assert "nothing to copy:" in table


def test_a_server_gives_every_answer_both_ways(octavo: LiveServer, tmp_path: Path) -> None:
    report = bench(tmp_path / "report.json", f"--url={octavo.url}")
    assert names(report) == [passage.name for passage in PASSAGES]


def pair(plain: float, drafted: float) -> Pair:
    return Pair(Timed(11, 10 / plain), Timed(11, 10 / drafted))


def test_the_median_of_pairs_decides() -> None:
    pairs = (pair(10, 20), pair(5, 15), pair(100, 10))
    assert Compared(PASSAGES[0], pairs).ratio == pytest.approx(2)


def test_each_kind_of_passage_has_a_mean_of_its_own() -> None:
    compared = [
        Compared(passage, (pair(10, 20 if passage.repeats_prompt else 10),)) for passage in PASSAGES
    ]
    assert mean_ratio(compared, repeats_prompt=True) == pytest.approx(2)
    assert mean_ratio(compared, repeats_prompt=False) == pytest.approx(1)
    assert "repeating its prompt: 2.00 times" in as_table(compared)


class Changing:
    """A client whose answers with drafts are longer."""

    async def ask(self, _: object, *, drafts: bool) -> Timed:
        return Timed(12 if drafts else 11, 1.0)


async def test_answers_that_differ_are_no_measurement() -> None:
    with pytest.raises(BenchError, match="is not the one without"):
        await compare(Changing(), PASSAGES[0], 1)
