"""What a view copies: the holders of pages and the progress of sequences."""

from engine.engine_view import EngineView, take_view
from tests.support.stepper import Stepper, make_request, text

B = 4  # page size


def view_of(stepper: Stepper) -> EngineView:
    return take_view(stepper.pool, stepper.scheduler.running, stepper.scheduler.waiting)


def test_an_idle_engine_holds_nothing() -> None:
    view = view_of(Stepper(num_pages=8, page_size=B))
    assert (view.page_size, view.num_pages, view.num_touched) == (B, 8, 0)
    assert (dict(view.holders), view.cached, view.sequences) == ({}, (), ())


def test_a_sequence_shows_its_pages_and_how_far_it_is() -> None:
    stepper = Stepper(num_pages=8, page_size=B, budget=6)
    stepper.add(make_request("a", text(10), 3))
    stepper.step()
    (sequence,) = view_of(stepper).sequences
    assert (sequence.request_id, sequence.indexes, sequence.is_running) == ("a", (0,), True)
    assert (len(sequence.page_ids), sequence.context_len) == (2, 6)
    assert (sequence.num_computed_tokens, sequence.num_prompt_tokens) == (6, 10)
    stepper.step()
    (sequence,) = view_of(stepper).sequences
    assert (sequence.num_generated_tokens, sequence.max_tokens) == (1, 3)


def test_who_waits_comes_after_who_runs() -> None:
    stepper = Stepper(num_pages=8, page_size=B, max_num_seqs=1)
    for name in ("a", "b"):
        stepper.add(make_request(name, text(3)))
    stepper.step()
    shown = [(s.request_id, s.is_running) for s in view_of(stepper).sequences]
    assert shown == [("a", True), ("b", False)]


def test_shared_pages_count_their_holders_and_cached_ones_have_none() -> None:
    stepper = Stepper(num_pages=8, page_size=B)
    stepper.add(make_request("a", text(6), 4, n=2))
    stepper.step()
    view = view_of(stepper)
    assert 2 in view.holders.values()
    assert len(view.sequences) == 2
    stepper.run()
    assert view_of(stepper).holders == {}
    assert len(view_of(stepper).cached) == stepper.pool.num_cached > 0


def test_a_view_stays_as_it_was_taken() -> None:
    stepper = Stepper(num_pages=8, page_size=B)
    stepper.add(make_request("a", text(6), 4))
    stepper.step()
    view = view_of(stepper)
    held = dict(view.holders)
    stepper.run()
    assert view.holders == held
