"""What can be said of the shipped text without running it."""

import hashlib
from itertools import product
from pathlib import Path

import pytest

from metal.kernels.embed import cpp_source, kernel_source
from tests.metal_emulator.address_space_gate import check_address_spaces
from tests.metal_emulator.kernel_signature import instances
from tests.metal_emulator.launch_logic import LaunchLogic, with_instances
from tests.metal_emulator.numbers import BFLOAT, FLOAT, HALF
from tests.metal_emulator.paged_case import AttentionCase, CacheUpdateCase
from tests.metal_emulator.source_rules import check_rules

ELEMENTS = (FLOAT, HALF, BFLOAT)
HEAD_DIMS = (64, 80, 96, 128, 256)
BATCHES = ({"queries": (1,), "contexts": (9,)}, {"queries": (9, 1), "contexts": (9, 9000)})


@pytest.fixture(scope="module")
def every_kernel(launch_logic: LaunchLogic, source: str) -> str:
    """The text with every kernel that the launch logic can ask for at these head sizes."""
    cases = [CacheUpdateCase((1,), p, v) for p, v in product(ELEMENTS, ELEMENTS)]
    for q, p, d, kv_heads, batch in product(ELEMENTS, ELEMENTS, HEAD_DIMS, (8, 4, 2), BATCHES):
        cases.append(
            AttentionCase(**batch, q_type=q, page_type=p, head_dim=d, q_heads=8, kv_heads=kv_heads)
        )
    return with_instances(
        source, [launch for case in cases for launch in launch_logic.plan(case).launches]
    )


def test_the_text_keeps_the_rules(every_kernel: str) -> None:
    assert check_rules(every_kernel) == []


def test_every_kernel_has_the_right_types_and_address_spaces(every_kernel: str) -> None:
    assert check_address_spaces(every_kernel) == []


def test_every_kernel_covers_all_types_and_head_sizes(every_kernel: str) -> None:
    names = {instance.host_name for instance in instances(every_kernel)}
    for element, d in product(("float", "half", "bfloat"), HEAD_DIMS):
        assert f"paged_attention_merge_{element}_{d}" in names
        assert f"paged_attention_prefill_{element}_{element}_{d}" in names
        assert f"paged_attention_decode_{element}_{element}_{element}_{d}_1_false" in names


def test_the_library_name_changes_with_the_text(source: str) -> None:
    digest = hashlib.sha256(source.encode()).hexdigest()[:16]
    assert f'"octavo_1_2_3_{digest}_"' in cpp_source(source, "1.2.3")


def test_an_include_that_is_nowhere_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "kernels.metal").write_text('#include "gone.h"\n')
    with pytest.raises(FileNotFoundError, match=r"gone\.h is in none of"):
        kernel_source((tmp_path,))


def test_a_file_that_is_included_twice_stands_in_the_text_once(source: str) -> None:
    assert source.count("struct AttentionParams {") == 1
