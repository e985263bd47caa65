"""`octavo bench serve` on the command line, against a fake server and a tiny Octavo."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from server.cli import main
from tests.support.documented import undocumented
from tests.support.fake_openai import FakeOpenAI, uncounted_answer, words_answer
from tests.support.live_server import LiveServer
from tests.support.png import colours_in
from tests.support.threaded_app import in_thread

Capture = pytest.CaptureFixture[str]
PLAIN = ("--warm-up=0", "--prompt-words=5:9", "--new-tokens=2:4", "--requests=6")


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def bench(url: str, *flags: str) -> int:
    return main(["bench", "serve", "--url", url, *flags])


def prompts(server: FakeOpenAI) -> list[str]:
    return [str(body["prompt"]) for body in server.bodies]


def test_the_clients_are_as_many_as_asked_and_no_more(stack: ExitStack) -> None:
    server = FakeOpenAI(together=4)
    assert bench(stack.enter_context(in_thread(server)), *PLAIN, "--concurrency=4") == 0
    assert server.most_running == 4
    assert len(server.bodies) == 6


def test_arrivals_at_a_rate_wait_for_nobody(stack: ExitStack) -> None:
    server = FakeOpenAI(together=6)
    assert bench(stack.enter_context(in_thread(server)), *PLAIN, "--rate=100000") == 0
    assert server.most_running == 6


def test_a_sweep_measures_each_load_with_prompts_of_its_own(
    stack: ExitStack, capsys: Capture
) -> None:
    server = FakeOpenAI()
    assert bench(stack.enter_context(in_thread(server)), *PLAIN, "--concurrency=1,3") == 0
    assert len(set(prompts(server))) == 12
    table = capsys.readouterr().out
    assert "1 client   0 of 6" in table
    assert "3 clients  0 of 6" in table
    assert table.count("between tokens") == 2


def test_flags_decide_what_is_sent(stack: ExitStack) -> None:
    server = FakeOpenAI()
    url = stack.enter_context(in_thread(server))
    flags = ("--model=other", "--api-key=k", '--extra={"ignore_eos": null, "min_p": 0.5}')
    assert bench(f"{url}/v1/", *PLAIN, *flags, "--shared-prefix=1", "--chat") == 0
    body = server.bodies[0]
    assert (body["model"], body["min_p"], "ignore_eos" in body) == ("other", 0.5, False)
    assert server.headers[0]["authorization"] == "Bearer k"
    assert set(server.paths) == {"/v1/chat/completions"}
    sent = sorted((str(body["messages"][0]["content"]) for body in server.bodies), key=len)  # type: ignore[index]
    assert all(text.startswith(sent[0]) for text in sent)
    assert {int(str(body["max_tokens"])) for body in server.bodies} <= {2, 3, 4}


def test_a_run_without_a_seed_says_which_it_drew(stack: ExitStack, capsys: Capture) -> None:
    server = FakeOpenAI()
    url = stack.enter_context(in_thread(server))
    assert bench(url, *PLAIN) == bench(url, *PLAIN) == 0
    assert len(set(prompts(server))) == 12
    seed = capsys.readouterr().out.split()[-1]
    assert bench(url, *PLAIN, f"--seed={seed}") == 0
    assert set(prompts(server)[6:12]) == set(prompts(server)[12:])


def test_the_seed_decides_the_prompts(stack: ExitStack) -> None:
    server = FakeOpenAI()
    url = stack.enter_context(in_thread(server))
    for seed in ("0", "0", "5"):
        assert bench(url, *PLAIN, f"--seed={seed}") == 0
    first, again, other = (set(prompts(server)[i : i + 6]) for i in (0, 6, 12))
    assert first == again
    assert {len(prompt.split()) for prompt in first | other} <= {5, 6, 7, 8, 9}
    assert not first & other


def test_a_prompt_has_so_many_tokens_as_the_server_counts(
    stack: ExitStack, capsys: Capture
) -> None:
    server = FakeOpenAI(lambda body: words_answer({**body, "prompt": f"a b {body['prompt']}"}))
    flags = ("--prompt-tokens=50:50", "--warm-up=2", "--requests=4", "--new-tokens=3:3")
    assert bench(stack.enter_context(in_thread(server)), *flags) == 0
    lengths = [len(prompt.split()) for prompt in prompts(server)]
    assert lengths == [20, 60, *[48] * 6]  # the gauge, two to warm up, the load
    assert len(set(prompts(server))) == 8
    assert "50.0 prompt tokens and 3.0 new tokens a request" in capsys.readouterr().out


def test_a_server_that_does_not_count_is_said_to(stack: ExitStack, capsys: Capture) -> None:
    url = stack.enter_context(in_thread(FakeOpenAI(uncounted_answer)))
    assert bench(url, "--requests=2", "--new-tokens=3:3", "--prompt-tokens=9:9") == 0
    said = capsys.readouterr()
    assert "a word stands for one" in said.err
    assert "3.0 new tokens a request, one for each chunk: the server does not count" in said.out


def test_a_failed_request_is_counted_by_kind_and_ends_with_1(
    stack: ExitStack, capsys: Capture
) -> None:
    server = FakeOpenAI(refuse=lambda body: body["max_tokens"] == 3)
    assert bench(stack.enter_context(in_thread(server)), *PLAIN, "--seed=0") == 1
    refused = [body["max_tokens"] for body in server.bodies].count(3)
    assert 0 < refused < 6
    table = capsys.readouterr().out
    assert f"{refused} of 6" in table
    assert f"failed: {refused} x http 400; the first: http 400: not like this" in table


def test_a_request_that_takes_too_long_is_given_up(stack: ExitStack, capsys: Capture) -> None:
    url = stack.enter_context(in_thread(FakeOpenAI(together=99)))
    assert bench(url, *PLAIN, "--timeout=0.05") == 1
    assert "failed: 6 x timeout; the first: timeout: no whole answer" in capsys.readouterr().out


def test_figures_that_cannot_be_written_are_shown(
    stack: ExitStack, tmp_path: Path, capsys: Capture
) -> None:
    report = tmp_path / "report.json"

    def answer(body: dict[str, object]) -> bytes:
        report.mkdir(exist_ok=True)
        return words_answer(body)

    url = stack.enter_context(in_thread(FakeOpenAI(answer)))
    assert bench(url, *PLAIN, f"--json={report}") == 1
    said = capsys.readouterr()
    assert "0 of 6" in said.out
    assert said.err.splitlines()[-1] == f"octavo: {report}: Is a directory"


def test_where_the_first_request_fails_nothing_is_measured(
    stack: ExitStack, capsys: Capture
) -> None:
    server = FakeOpenAI(refuse=lambda _: True)
    assert bench(stack.enter_context(in_thread(server)), "--requests=5") == 1
    assert capsys.readouterr().err.splitlines()[-1] == (
        "octavo: a request before the load failed: http 400: not like this"
    )
    assert len(server.bodies) == 1


def drafts(requests: int) -> str:
    """Eight tokens drafted for each request, six of them accepted."""
    return "".join(
        f"# TYPE octavo_{name}_total counter\noctavo_{name}_total {each * requests}\n"
        for name, each in (("drafted_tokens", 8), ("accepted_tokens", 6))
    )


def test_drafts_in_a_load_are_told(stack: ExitStack, tmp_path: Path, capsys: Capture) -> None:
    report = tmp_path / "report.json"
    url = stack.enter_context(in_thread(FakeOpenAI(metrics=drafts)))
    assert bench(url, *PLAIN, "--concurrency=2", f"--json={report}") == 0
    table = capsys.readouterr().out
    assert "2 clients: 48 tokens drafted, 75% of them accepted" in table
    assert "random words fall into loops" in table
    assert "ms for each token after the first" in table
    (point,) = json.loads(report.read_text())["points"]
    assert point["counters"]["octavo_drafted_tokens_total"] == 48


def test_a_load_without_drafts_has_no_note_of_them(stack: ExitStack, capsys: Capture) -> None:
    url = stack.enter_context(in_thread(FakeOpenAI(metrics=lambda _: drafts(7))))
    assert bench(url, *PLAIN) == 0
    table = capsys.readouterr().out
    assert "draft" not in table.lower()
    assert "for each token" not in table


def test_a_server_that_asks_for_a_key_is_told_with_the_flag(
    stack: ExitStack, capsys: Capture
) -> None:
    url = stack.enter_context(in_thread(FakeOpenAI(key="right")))
    assert bench(url, *PLAIN) == 2
    assert capsys.readouterr().err == (
        f"octavo: {url} asks for a valid key, give it with --api-key\n"
    )


def test_a_request_without_its_key_is_told_with_the_flag(stack: ExitStack, capsys: Capture) -> None:
    url = stack.enter_context(in_thread(FakeOpenAI(key="right", open_list=True)))
    assert bench(url, "--requests=1", "--api-key=wrong") == 1
    assert (
        "http 401: asks for a valid key, give it with --api-key: who are you?"
        in capsys.readouterr().err
    )


def test_the_environment_may_hold_the_key(
    stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = stack.enter_context(in_thread(FakeOpenAI(key="right")))
    monkeypatch.setenv("OCTAVO_API_KEY", "right")
    assert bench(url, *PLAIN) == 0
    assert bench(url, *PLAIN, "--api-key=wrong") == 2


def test_help_says_where_the_key_comes_from(capsys: Capture) -> None:
    with pytest.raises(SystemExit):
        main(["bench", "serve", "--help"])
    assert "OCTAVO_API_KEY" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--rate=1", "--concurrency=2"), "--rate"),
        (("--prompt-words=1:2", "--prompt-tokens=1:2"), "--prompt-words"),
        (("--concurrency=2,0",), "--concurrency"),
        (("--concurrency=",), "--concurrency"),
        (("--url=127.0.0.1:8000",), "no address such as"),
        (("--url=http://",), "no address such as"),
        (("--rate=0",), "--rate"),
        (("--rate=1,x",), "--rate"),
        (("--extra=[]",), "no JSON object"),
        (("--extra={",), "not JSON"),
        (("--shared-prefix=1.5",), "--shared-prefix"),
        (('--extra={"temperature": NaN}',), "--extra: '{\"temperature\": NaN}' is not JSON"),
        (('--extra={"temperature": 1e999}',), "is not JSON"),
        (('--extra={"prompt": "\\ud800"}',), "is not JSON"),
        (("--extra=" + "[" * 100_000,), "is nested too deep"),
        (("--model=\udcff",), r"--model: '\udcff' is not UTF-8"),
        (("--url=http://x/\udcff",), "no address such as"),
        (("--api-key=\u00e9",), "--api-key: a key must be printable ASCII"),
        (("--api-key=a\nb",), "--api-key: a key must be printable ASCII"),
        (("--prompt-tokens=1:99999999",), "LOW <= HIGH <= 1,000,000"),
        (("--new-tokens=1:" + "9" * 5000,), "LOW <= HIGH <= 1,000,000"),
        (("--requests=101", "--prompt-words=1:1000000"), "--requests: 101 prompts of 1,000,000"),
        (("--warm-up=1000000",), "--warm-up: 1,000,000 prompts of 128"),
        (("--plot=x.jpg",), "does not end in .png"),
        (("--json=/no/such/folder/x",), "cannot be written"),
        (("--json=.",), "is a folder"),
    ],
)
def test_bad_usage_is_refused_by_name_before_anything_is_sent(
    capsys: Capture, flags: tuple[str, ...], message: str
) -> None:
    with pytest.raises(SystemExit) as stopped:
        bench("http://127.0.0.1:1", *flags)
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1", "https://127.0.0.1:1", "http://[::1]:1", "http://x:port"]
)
def test_an_address_without_a_server_is_one_line_and_2(capsys: Capture, url: str) -> None:
    for model in ((), ("--model=x",)):
        assert bench(url, *model) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith(f"octavo: {url} cannot be reached: ")


def test_an_octavo_is_measured_with_a_plot_and_all_figures_as_json(
    octavo: LiveServer, tmp_path: Path, capsys: Capture
) -> None:
    report, plot = tmp_path / "report.json", tmp_path / "plot.PNG"
    load = ("--requests=5", "--prompt-tokens=60:80", "--new-tokens=3:6", "--concurrency=1,4")
    assert bench(octavo.url, *load, "--seed=0", f"--json={report}", f"--plot={plot}") == 0
    assert "0 of 5" in capsys.readouterr().out
    assert colours_in(plot) > 5
    found = json.loads(report.read_text())
    assert undocumented(found) == set()
    assert found["model"] == octavo.model
    assert found["load"]["prompt"] == {"low": 60, "high": 80}
    assert [point["clients"] for point in found["points"]] == [1, 4]
    for point in found["points"]:
        requests = point["requests"]
        assert point["failures"] == {}
        assert point["tokens_counted_by_server"]
        assert all(40 <= request["prompt_tokens"] <= 100 for request in requests)
        assert all(3 <= request["output_tokens"] <= 6 for request in requests)
        assert sum(r["output_tokens"] for r in requests) == point["output_tokens"]
        assert all(0 < request["first_token"] <= request["seconds"] for request in requests)
        assert 0 < point["first_token"]["p50"] <= point["first_token"]["p99"]
