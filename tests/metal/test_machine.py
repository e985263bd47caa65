"""Instruction levels, threads and the way the extension is found."""

import shutil
import subprocess
import sys
import threading
from pathlib import Path

import mlx.core as mx
import pytest

import metal
from tests.metal import batches
from tests.metal.batches import Shape


def test_the_best_level_runs_unless_another_is_asked_for() -> None:
    assert metal.instruction_level() == metal.instruction_levels()[-1]


def test_a_plain_level_is_always_there() -> None:
    assert metal.instruction_levels()[0] == "plain"


def test_an_unknown_level_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"\[set_instruction_level\] expected plain.*, got mmx"):
        metal.set_instruction_level("mmx")


@pytest.mark.usefixtures("level")
def test_levels_agree_up_to_rounding() -> None:
    mx.random.seed(1)
    x, weight = mx.random.normal((5, 300)), mx.random.normal((40, 300))
    assert mx.allclose(metal.linear(x, metal.pack_linear(weight)), x @ weight.T, atol=1e-4)


@pytest.mark.parametrize("n", [0, -3])
def test_less_than_one_thread_is_refused(n: int) -> None:
    with pytest.raises(ValueError, match=rf"\[set_num_threads\] .* at least 1 thread, got {n}"):
        metal.set_num_threads(n)


def test_the_number_of_threads_is_what_was_set() -> None:
    before = metal.num_threads()
    metal.set_num_threads(before + 2)
    after = metal.num_threads()
    metal.set_num_threads(before)
    assert (after, metal.num_threads()) == (before + 2, before)


def test_threads_may_change_while_work_is_queued() -> None:
    before = metal.num_threads()
    packed = metal.pack_linear(mx.random.normal((512, 512)))
    x = mx.random.normal((64, 512))
    expected = metal.linear(x, packed)
    mx.eval(expected)
    for n in (1, 3, 2, 4, 1):
        results = [metal.linear(x, packed) for _ in range(4)]
        mx.async_eval(results)
        metal.set_num_threads(n)
        assert all(mx.array_equal(result, expected) for result in results)
    metal.set_num_threads(before)


def test_two_streams_compute_at_the_same_time() -> None:
    batch = batches.make(Shape(((600, 40), (300, 1))))
    expected = batch.attend()
    failures: list[int] = []

    def work(number: int) -> None:
        with mx.stream(mx.new_stream(mx.cpu)):
            for _ in range(10):
                if not mx.array_equal(batch.attend(), expected):
                    failures.append(number)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_without_the_built_extension_the_import_names_the_build_command(tmp_path: Path) -> None:
    package = tmp_path / "metal"
    package.mkdir()
    for source in Path(metal.__file__).parent.glob("*.py"):
        shutil.copy(source, package)
    code = (
        "import sys\n"
        "sys.meta_path = [f for f in sys.meta_path if 'Redirect' not in type(f).__name__]\n"
        f"sys.path.insert(0, {str(tmp_path)!r})\n"
        "import metal\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert "ImportError: the compiled module metal._ext is missing" in run.stderr
    assert "python -m pip install -e ." in run.stderr
