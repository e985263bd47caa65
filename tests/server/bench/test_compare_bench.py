"""`octavo bench compare` on the command line, against fake servers and a tiny Octavo."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from server.bench.compare_loads import LOADS
from server.cli import main
from tests.support.documented import DOCS, undocumented
from tests.support.fake_openai import FakeOpenAI
from tests.support.live_server import LiveServer
from tests.support.png import colours_in
from tests.support.threaded_app import in_thread

Capture = pytest.CaptureFixture[str]
FIRST = 2  # requests that warm a server up
GAUGE = 2  # requests that ask the first server how it counts


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def compare(*flags: str) -> int:
    return main(["bench", "compare", *flags])


def two(stack: ExitStack, left: FakeOpenAI, right: FakeOpenAI) -> tuple[str, str]:
    urls = (stack.enter_context(in_thread(server)) for server in (left, right))
    one, other = urls
    return f"--server=left={one}", f"--server=right={other}"


def test_both_servers_get_the_same_prompts_and_each_round_new_ones(stack: ExitStack) -> None:
    left, right = FakeOpenAI(), FakeOpenAI()
    assert compare(*two(stack, left, right), "--loads=clients-8,prefill", "--rounds=2") == 0
    left_sent = [str(body["prompt"]) for body in left.bodies[FIRST + GAUGE :]]
    assert sorted(left_sent) == sorted(str(body["prompt"]) for body in right.bodies[FIRST:])
    assert len(left_sent) == len(set(left_sent)) == 2 * (16 + 6)
    assert {len(prompt.split()) for prompt in left_sent} == {104, 512}
    assert {body["max_tokens"] for body in left.bodies[FIRST + GAUGE :]} == {64, 1}


def test_one_server_is_asked_at_a_time_and_they_take_turns_at_going_first(
    stack: ExitStack, tmp_path: Path
) -> None:
    report = tmp_path / "report.json"
    servers = two(stack, FakeOpenAI(), FakeOpenAI())
    assert compare(*servers, "--loads=prefill", "--rounds=3", f"--json={report}") == 0
    order = [(o["round"], o["server"]) for o in json.loads(report.read_text())["outcomes"]]
    assert order == [
        *((0, "left"), (0, "right")),
        *((1, "right"), (1, "left")),
        *((2, "left"), (2, "right")),
    ]


def test_what_was_measured_is_on_disk_before_the_next_load_begins(
    stack: ExitStack, tmp_path: Path
) -> None:
    report = tmp_path / "report.json"
    found: list[int] = []

    def metrics(_: int) -> str:  # asked for before and after each load
        found.append(len(json.loads(report.read_text())["outcomes"]) if report.exists() else 0)
        return ""

    url = stack.enter_context(in_thread(FakeOpenAI(metrics=metrics)))
    flags = ("--loads=prefill", "--rounds=3", f"--json={report}")
    assert compare(f"--server=only={url}", *flags) == 0
    assert found == [0, 0, 1, 1, 2, 2]


def test_an_octavos_counters_are_told_as_what_each_load_added(
    stack: ExitStack, tmp_path: Path, capsys: Capture
) -> None:
    def metrics(requests: int) -> str:
        name = "octavo_kv_copied_bytes_total"
        return f'# TYPE {name} counter\n{name}{{part="gather"}} {requests * 1e6}\n'

    report, plot = tmp_path / "report.json", tmp_path / "plot.png"
    servers = two(stack, FakeOpenAI(), FakeOpenAI(metrics=metrics))
    flags = ("--loads=prefill", "--rounds=2", f"--json={report}", f"--plot={plot}")
    assert compare(*servers, *flags) == 0
    found = json.loads(report.read_text())
    assert undocumented(found) == set()
    outcomes = found["outcomes"]
    assert [o["counters"] for o in outcomes if o["server"] == "left"] == [{}, {}]
    gathered = [o["figures"].get("kv_copied_megabytes") for o in outcomes if o["server"] == "right"]
    assert gathered == [6, 6]
    assert "K/V MB copied" in capsys.readouterr().out
    assert colours_in(plot) > 5


def test_a_failed_load_leaves_the_others_and_ends_with_1(stack: ExitStack, capsys: Capture) -> None:
    sick = FakeOpenAI(refuse=lambda body: len(str(body["prompt"]).split()) == 512)
    servers = two(stack, FakeOpenAI(), sick)
    assert compare(*servers, "--loads=single,prefill", "--rounds=1") == 1
    table = capsys.readouterr().out
    assert "round 1, prefill, right: 6 x http 400; the first: http 400: not like this" in table
    rows = [line.split() for line in table.splitlines()]
    assert ["right", "-", "-", "-", "-"] in rows
    assert sum(row[:1] == ["right"] and row[1] != "-" for row in rows) == 2  # of single


def test_each_server_may_have_its_own_model_key_and_fields(stack: ExitStack) -> None:
    left, right = FakeOpenAI(), FakeOpenAI()
    flags = ("--model=right=other", "--api-key=right=k", '--extra=right={"ignore_eos": null}')
    load = ("--loads=prefill", "--rounds=1")
    assert compare(*two(stack, left, right), *flags, *load) == 0
    assert {(body["model"], body.get("ignore_eos")) for body in left.bodies} == {("fake", True)}
    assert {(body["model"], body.get("ignore_eos")) for body in right.bodies} == {("other", None)}
    assert "authorization" not in left.headers[0]
    assert right.headers[0]["authorization"] == "Bearer k"


def test_the_environment_holds_the_key_of_whoever_has_none(
    stack: ExitStack, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    servers = two(stack, FakeOpenAI(key="mine"), FakeOpenAI(key="theirs"))
    load = ("--loads=prefill", "--rounds=1")
    assert compare(*servers, "--api-key=right=theirs", *load) == 2
    assert "asks for a valid key, give it with --api-key" in capsys.readouterr().err
    monkeypatch.setenv("OCTAVO_API_KEY", "mine")
    assert compare(*servers, "--api-key=right=theirs", *load) == 0


def test_the_seed_decides_the_prompts(stack: ExitStack) -> None:
    left, right = FakeOpenAI(), FakeOpenAI()
    one, other = two(stack, left, right)
    load = ("--loads=prefill", "--rounds=1")
    assert compare(one, *load) == compare(other, "--seed=9", *load) == 0
    sent = [str(body["prompt"]) for body in right.bodies]
    assert not {str(body["prompt"]) for body in left.bodies} & set(sent)
    assert compare(other, "--seed=9", *load) == 0
    assert [str(body["prompt"]) for body in right.bodies] == sent * 2


def test_a_load_has_the_same_prompts_whichever_others_are_chosen(stack: ExitStack) -> None:
    left, right = FakeOpenAI(), FakeOpenAI()
    one, other = two(stack, left, right)
    assert compare(one, "--seed=9", "--loads=prefill", "--rounds=1") == 0
    assert compare(other, "--seed=9", "--loads=single,prefill", "--rounds=1") == 0
    last = [str(body["prompt"]) for body in left.bodies[-6:]]
    assert [str(body["prompt"]) for body in right.bodies[-6:]] == last


def test_a_server_that_takes_too_long_is_given_up(stack: ExitStack, capsys: Capture) -> None:
    url = stack.enter_context(in_thread(FakeOpenAI(together=99)))
    assert compare(f"--server=a={url}", "--timeout=0.05") == 1
    assert "failed: timeout: a: no whole answer in 0.05 seconds" in capsys.readouterr().err


def test_where_a_first_request_fails_nothing_is_compared(stack: ExitStack, capsys: Capture) -> None:
    left, right = FakeOpenAI(), FakeOpenAI(refuse=lambda _: True)
    assert compare(*two(stack, left, right)) == 1
    assert "a request before the loads failed: http 400: right: not" in capsys.readouterr().err
    assert len(left.bodies) == FIRST


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ((), "--server: give at least one"),
        (("--server=a",), "not NAME=VALUE"),
        (("--server==http://x",), "not NAME=VALUE"),
        (("--server=a=http://x", "--server=a=http://y"), "same name"),
        (("--server=a=http://x", "--server=b=http://x/v1"), "same address"),
        (("--server=a=http://x", "--model=b=m"), "--model: 'b' is no server's name"),
        (("--server=a=http://x", "--api-key=b=m"), "--api-key: 'b' is no server's name"),
        (("--server=a=http://x", "--extra=a=3"), "no JSON object"),
        (("--server=a=http://x", "--loads=single,double"), "'double' is none of single, "),
        (("--server=a=http://x", "--rounds=0"), "--rounds"),
    ],
)
def test_bad_usage_is_refused_by_name(
    capsys: Capture, flags: tuple[str, ...], message: str
) -> None:
    with pytest.raises(SystemExit) as stopped:
        compare(*flags)
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


def test_an_address_without_a_server_is_2(capsys: Capture) -> None:
    assert compare("--server=a=http://127.0.0.1:1") == 2
    assert "http://127.0.0.1:1 cannot be reached" in capsys.readouterr().err


def test_help_names_every_load(capsys: Capture) -> None:
    with pytest.raises(SystemExit):
        compare("--help")
    said = "".join(capsys.readouterr().out.split())
    assert all(f"{load.name}:{load.says}".replace(" ", "") in said for load in LOADS)


def test_the_documentation_names_every_load() -> None:
    rows = {f"| {load.name} | {load.says} |" for load in LOADS}
    assert rows <= set((DOCS / "bench.md").read_text(encoding="utf-8").splitlines())


def test_an_octavo_decodes_while_a_long_prompt_arrives(octavo: LiveServer, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    flags = ("--loads=long-prompt", "--rounds=1", f"--json={report}")
    assert compare(f"--server=octavo={octavo.url}", *flags) == 0
    (outcome,) = json.loads(report.read_text())["outcomes"]
    figures = outcome["figures"]
    assert all(figures[key] > 0 for key in ("worst_gap_milliseconds", "steady_milliseconds"))
    assert outcome["counters"]["octavo_prompt_tokens_total"] > 3000
