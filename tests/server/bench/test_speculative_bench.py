"""`octavo bench speculative`: both clients run every answer; what their times are is no test's business."""

import json
from pathlib import Path

import pytest

from server.bench.errors import BenchError
from server.bench.speculative import PASSAGES, Compared, Pair, Timed, as_table, mean_ratio
from server.bench.speculative_run import compare
from server.cli import main
from tests.support.checkpoints import tiny_llama
from tests.support.documented import undocumented
from tests.support.fake_openai import FakeOpenAI
from tests.support.live_server import LiveServer
from tests.support.threaded_app import in_thread


def bench(file: Path, *flags: str) -> dict[str, object]:
    """What it wrote: the settings, and each passage once."""
    assert main(["bench", "speculative", "--rounds=1", f"--json={file}", *flags]) == 0
    report: dict[str, object] = json.loads(file.read_text(encoding="utf-8"))
    assert undocumented(report, "bench-engine.md") == set()
    passages = report["passages"]
    assert isinstance(passages, list)
    assert [one["name"] for one in passages] == [passage.name for passage in PASSAGES]
    assert all(len(one["pairs"]) == 1 for one in passages)
    settings = report["settings"]
    assert isinstance(settings, dict)
    return settings


def test_an_engine_here_gives_every_answer_both_ways(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = tiny_llama(tmp_path / "tiny", max_position_embeddings=2048)
    flags = (f"--model={model}", "--device=cpu", "--kv-cache-memory=16MiB", "--new-tokens=6")
    assert bench(tmp_path / "report.json", *flags) == {
        "url": None,
        "model": str(model),
        "speculative": "ngram",
        "max_draft_tokens": 8,
        "rounds": 1,
        "new_tokens": 6,
    }
    table = capsys.readouterr().out
    assert all(passage.name in table for passage in PASSAGES)
    assert "nothing to copy:" in table


def test_a_server_gives_every_answer_both_ways(octavo: LiveServer, tmp_path: Path) -> None:
    settings = bench(tmp_path / "report.json", f"--url={octavo.url}", "--new-tokens=100")
    assert (settings["url"], settings["model"]) == (octavo.url, octavo.model)
    assert settings["speculative"] is settings["max_draft_tokens"] is None


@pytest.mark.parametrize("flag", ["--speculative=ngram", "--model=x", "--threads=1"])
def test_a_server_is_not_told_how_to_compute(capsys: pytest.CaptureFixture[str], flag: str) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["bench", "speculative", "--url=http://127.0.0.1:1", flag])
    assert stopped.value.code == 2
    assert f"{flag.partition('=')[0]}: cannot be used with --url" in capsys.readouterr().err


def drafted(count: int) -> str:
    name = "octavo_drafted_tokens_total"
    return f"# TYPE {name} counter\n{name} {count}\n"


@pytest.mark.parametrize(
    ("metrics", "told"),
    [
        (drafted(7), "drafts nothing: start it with --speculative"),
        ("", "/metrics does not tell octavo_drafted_tokens_total"),
    ],
)
def test_a_server_without_drafts_is_not_measured(
    capsys: pytest.CaptureFixture[str], metrics: str, told: str
) -> None:
    server = FakeOpenAI(metrics=lambda _: metrics)
    with in_thread(server) as url:
        assert main(["bench", "speculative", f"--url={url}"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert told in line
    assert len(server.bodies) <= 3


def test_the_environment_may_hold_the_servers_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = FakeOpenAI(key="right", metrics=drafted)
    with in_thread(server) as url:
        assert main(["bench", "speculative", f"--url={url}"]) == 2
        assert "--api-key" in capsys.readouterr().err
        monkeypatch.setenv("OCTAVO_API_KEY", "right")
        bench(tmp_path / "report.json", f"--url={url}", "--new-tokens=6")


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
