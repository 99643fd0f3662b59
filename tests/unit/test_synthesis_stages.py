"""Each stage on prepared answers: what passes, what fails, and with which kind of the taxonomy."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

import pytest
from synthesis_examples import FILES, Answers, context, plan, seed_task

from rods.synthesis import adversary, critique, executor, filters, grounding, planner, rules
from rods.synthesis.agents import (
    Arguments,
    BackendUnavailableError,
    Judgement,
    MalformedAnswerError,
    MissingFunction,
    MissingParameter,
    NoPatternError,
    NoPromptError,
    Patch,
    Query,
    RefineClass,
    Rewrite,
    StatePatch,
    Verification,
)
from rods.synthesis.context import Draft, ExecutedTurn
from rods.synthesis.errors import (
    FAILURES,
    ConversationConstructFailure,
    DecomposeFailure,
    DuplicateFuncFailure,
    FuncSampleFailure,
    NoPatternFailure,
    NoPromptsFailure,
    ParamGenFailure,
    PipelineFailure,
    QueryGenFailure,
    QueryVerifyFailure,
    QueryVerifyNoTagFailure,
    Route,
    SynthesisError,
    VmExecFailure,
)
from rods.synthesis.planner import Outline
from rods.synthesis.similarity import Corpus
from rods.tasks.model import Call, Task, TaskType, Turn

OUTLINE = Outline("A story.", (("wc",), ("touch",)), FILES)


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(coroutine)


def fails(coroutine: Coroutine[Any, Any, Any], kind: type[SynthesisError]) -> SynthesisError:
    with pytest.raises(SynthesisError) as caught:
        asyncio.run(coroutine)
    assert type(caught.value) is kind, str(caught.value)
    return caught.value


def draft(*queries: str) -> Draft:
    turns = (
        ExecutedTurn(
            (Call("wc", {"file_name": "notes.txt", "mode": "w"}),), ('{"count": 2, "type": "words"}',)
        ),
        ExecutedTurn((Call("touch", {"file_name": "plan.md"}),), ("None",)),
    )
    return Draft("A story.", FILES, turns, queries or ("How many words are in notes.txt?", "Add plan.md."))


# The taxonomy


def test_the_taxonomy_is_the_papers() -> None:
    patched = {name for name, failure in FAILURES.items() if failure.route is Route.PATCH}
    assert patched == {"param_gen_failed", "decompose_failed", "func_sample_failed", "vm_exec_failed"}
    assert len(FAILURES) == 12
    assert len({failure.guidance for failure in FAILURES.values()}) == 12


@pytest.mark.parametrize("failure", FAILURES.values())
def test_a_failure_crosses_processes_and_takes_remarks(failure: type[SynthesisError]) -> None:
    made = failure("detail", "f", 1, "{}").extended("more")
    back = pickle.loads(pickle.dumps(made))
    assert type(back) is failure
    assert (back.detail, back.function, back.turn, back.call) == ("detail; more", "f", 1, "{}")
    assert back.to_json()["type"] == failure.kind


def test_a_failure_says_the_papers_four_fields() -> None:
    failure = VmExecFailure("market closed", function="place_order", turn=1)
    expected = {"type": "vm_exec_failed", "function": "place_order", "turn": 1, "detail": "market closed"}
    assert failure.to_json() == expected
    assert "place_order in turn 2: market closed" in str(failure)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (MalformedAnswerError("x"), FuncSampleFailure),
        (NoPatternError("x"), NoPatternFailure),
        (NoPromptError("x"), NoPromptsFailure),
        (BackendUnavailableError("x"), PipelineFailure),
    ],
)
def test_every_backend_error_has_its_kind(error: Exception, kind: type[SynthesisError]) -> None:
    fails(planner.plan(context(Answers(planner=error)), FILES, (), ()), kind)


# Stage 1


def test_a_plan_of_the_seeds_shape_is_taken() -> None:
    made = run(planner.plan(context(Answers()), FILES, (), ()))
    assert made.functions == (("wc",), ("touch",))
    assert made.initial_state is FILES


def test_the_planner_reads_history_guidance_and_blocklist() -> None:
    backend = Answers()
    failure = VmExecFailure("no such file", function="wc", turn=0)
    run(planner.plan(context(backend), FILES, (failure,), ("blocked",)))
    inputs = backend.asked[0][1]
    assert inputs["history"][0]["detail"] == "no such file"
    assert inputs["history"][0]["guidance"] == VmExecFailure.guidance
    assert inputs["blocklist"] == ["blocked"]


def test_composites_are_decomposed_where_their_parts_exist() -> None:
    docs = context(Answers()).seed.docs
    assert planner.decompose(["make_directory_and_enter", "ls"], docs, 0) == ("mkdir", "cd", "ls")
    assert "order_at_market_price" not in planner.composites(docs)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (plan(["fly"], ["swim"]), FuncSampleFailure),
        (plan(["wc"], ["order_at_market_price"]), DecomposeFailure),
        (plan(), FuncSampleFailure),
        (plan(["fly", "swim", "run"], ["touch"]), FuncSampleFailure),
        (plan(["wc"] * 4, ["touch"] * 4), FuncSampleFailure),
        (plan(["wc"], ["touch"], initial_state={"TradingBot": {}}), FuncSampleFailure),
    ],
)
def test_plans_that_are_refused(answer: Any, kind: type[SynthesisError]) -> None:
    fails(planner.plan(context(Answers(planner=answer)), FILES, (), ()), kind)


@pytest.mark.parametrize("answer", [plan(["wc"], ["fly"]), plan(["wc"], [])])
def test_a_plan_with_one_wrong_function_is_mended_from_the_api_graph(answer: Any) -> None:
    first, second = run(planner.plan(context(Answers(planner=answer)), FILES, (), ())).functions
    assert first == ("wc",)
    assert len(second) == 1
    assert second[0] in context(Answers()).seed.docs


# Stage 2


def test_calls_run_in_the_simulator_and_see_what_came_before() -> None:
    backend = Answers()
    first, second = run(executor.execute(context(backend), OUTLINE, ()))
    assert first.results == ('{"count": 2, "type": "words"}',)
    inputs = backend.asked[1][1]
    assert inputs["done"] == (first,)
    assert "notes.txt" in str(inputs["state"])
    assert second.calls == (Call("touch", {"file_name": "plan.md"}),)


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        ({"file_name": "gone.txt", "mode": "l"}, VmExecFailure),
        ({"file_name": 3}, ParamGenFailure),
        ({"mode": "l"}, ParamGenFailure),
        ({"file_name": "notes.txt", "colour": "red"}, ParamGenFailure),
    ],
)
def test_arguments_that_fail(arguments: dict, kind: type[SynthesisError]) -> None:
    backend = Answers(arguments=Arguments(arguments=arguments))
    failure = fails(executor.execute(context(backend), OUTLINE, ()), kind)
    assert (failure.function, failure.turn) == ("wc", 0)
    assert bool(failure.call) == (kind is VmExecFailure)


def test_a_blocked_call_and_a_call_repeated_at_once_are_duplicates() -> None:
    blocked = executor.call_text(Call("touch", {"file_name": "plan.md"}))
    failure = fails(executor.execute(context(Answers()), OUTLINE, (blocked,)), DuplicateFuncFailure)
    assert failure.turn == 1
    twice = Outline("A story.", (("wc", "wc"),), FILES)
    fails(executor.execute(context(Answers()), twice, ()), DuplicateFuncFailure)


def test_a_state_that_does_not_load_is_a_failure_of_the_simulator() -> None:
    broken = Outline("A story.", (("wc",),), {"GorillaFileSystem": {"root": 5}})
    fails(executor.execute(context(Answers()), broken, ()), VmExecFailure)


FAILURE = VmExecFailure("empty", function="wc", turn=0)


def content_patch(value: Any, file: str = r"notes\.txt") -> Patch:
    path = f"root.workspace.contents.{file}.content"
    return Patch(patches=[StatePatch(class_name="GorillaFileSystem", path=path, value=value)])


def test_config_patch_changes_a_copy_of_the_state() -> None:
    patched = run(executor.repair(context(Answers(patch=content_patch("new"))), FILES, FAILURE))
    contents = patched["GorillaFileSystem"]["root"]["workspace"]["contents"]
    assert contents["notes.txt"]["content"] == "new"
    assert FILES["GorillaFileSystem"]["root"]["workspace"]["contents"]["notes.txt"]["content"] == "one\ntwo"


def test_no_patch_and_refused_patches() -> None:
    assert run(executor.repair(context(Answers()), FILES, FAILURE)) is None
    for wrong in (content_patch(5), content_patch("x", "gone")):
        fails(executor.repair(context(Answers(patch=wrong)), FILES, FAILURE), VmExecFailure)


# Stage 3


def test_messages_are_written_verified_and_rewritten() -> None:
    backend = Answers(rewriter=Rewrite(queries=[" One. ", "Two."]))
    made = run(grounding.ground(context(backend), draft().with_queries(())))
    assert made.queries == ("One.", "Two.")
    assert backend.agents() == ["query", "verifier", "query", "verifier", "rewriter"]


def test_the_rewrite_can_be_switched_off() -> None:
    backend = Answers()
    made = run(grounding.ground(context(backend, coherence_rewrite=False), draft().with_queries(())))
    assert made.queries == ("How many words are in notes.txt?", "Add an empty plan.md.")
    assert "rewriter" not in backend.agents()


@pytest.mark.parametrize(
    ("answers", "kind"),
    [
        ({"query": Query(text="  ")}, QueryGenFailure),
        ({"query": MalformedAnswerError("x")}, QueryGenFailure),
        ({"verifier": Verification(covered=[0], verdict="no")}, QueryVerifyFailure),
        ({"verifier": Verification(covered=[], verdict="yes")}, QueryVerifyFailure),
        ({"verifier": Verification(covered=[0], verdict=None)}, QueryVerifyNoTagFailure),
        ({"verifier": MalformedAnswerError("x")}, QueryVerifyNoTagFailure),
        ({"rewriter": Rewrite(queries=["only one"])}, QueryGenFailure),
        ({"rewriter": Rewrite(queries=["one", " "])}, QueryGenFailure),
    ],
)
def test_messages_that_fail(answers: dict, kind: type[SynthesisError]) -> None:
    fails(grounding.ground(context(Answers(**answers)), draft().with_queries(())), kind)


# Stage 4


def test_names_in_messages() -> None:
    docs = context(Answers()).seed.docs
    calls = [Call("touch", {"file_name": "dir_name.txt"})]
    fine = ["Sort it, find the path and touch up the name.", "Make 'dir_name.txt'."]
    assert rules.named_functions(fine, calls, docs) == []
    for bad in ("Set the file_name.", "Run sort() on it.", "Use `sort`.", "dir_name: x"):
        assert rules.named_functions([bad], calls, docs), bad


def test_camel_case_names_are_found() -> None:
    from rods.simulation.functions import documentation

    docs = documentation(["VehicleControlAPI"])
    assert rules.named_functions(["Please lockDoors now"], [], docs) == ["turn 1 names 'lockDoors'"]
    assert rules.named_functions(["Please lock the doors"], [], docs) == []


def test_sizes_of_arguments() -> None:
    calls = [Call("f", {"a": "x" * 201}), Call("g", {"b": {"c": ["y"] * 6}}), Call("h", {"d": ["z" * 300]})]
    found = rules.oversized(calls, 200, 5)
    assert [text.split(":")[0] for text in found] == ["f", "g", "h"]
    assert rules.oversized([Call("f", {"a": "x" * 200, "b": list("abcde")})], 200, 5) == []


def test_an_accepted_dialogue_is_not_touched() -> None:
    assert run(critique.critique(context(Answers()), draft())) == draft()


def test_a_fixable_dialogue_is_refined_once_and_judged_again() -> None:
    backend = Answers(
        judge=[Judgement(accepted=False, issues=["stiff"]), Judgement(accepted=True)],
        refine_class=RefineClass(verdict="query_fixable"),
        refiner=Rewrite(queries=["Count the words of notes.txt.", "Then add plan.md."]),
    )
    made = run(critique.critique(context(backend), draft()))
    assert made.queries == ("Count the words of notes.txt.", "Then add plan.md.")
    assert backend.agents() == ["judge", "refine_class", "refiner", "judge"]
    assert backend.asked[2][1]["issues"] == ("stiff",)


NO = Judgement(accepted=False, issues=["wrong"])


@pytest.mark.parametrize(
    "answers",
    [
        {"judge": NO, "refine_class": RefineClass(verdict="gt_unfixable")},
        {
            "judge": NO,
            "refine_class": RefineClass(verdict="query_fixable"),
            "refiner": Rewrite(queries=["One.", "Two."]),
        },
        {"judge": Judgement(accepted=False), "refine_class": RefineClass(verdict="gt_unfixable")},
    ],
)
def test_a_dialogue_that_stays_rejected(answers: dict) -> None:
    fails(critique.critique(context(Answers(**answers)), draft()), ConversationConstructFailure)


def test_the_rules_speak_before_the_judge() -> None:
    backend = Answers(refine_class=RefineClass(verdict="gt_unfixable"))
    spoken = draft("Use `wc` please.", "Add plan.md.")
    failure = fails(critique.critique(context(backend), spoken), ConversationConstructFailure)
    assert "names 'wc'" in failure.detail
    assert "judge" not in backend.agents()


def test_rules_find_what_a_message_does_not_lead_to_and_the_refiner_hears_of_it() -> None:
    backend = Answers(
        refine_class=RefineClass(verdict="query_fixable"),
        refiner=Rewrite(queries=["Count the words of notes.txt.", "Then add plan.md."]),
    )
    made = run(critique.critique(context(backend), draft("Count the words of notes.txt.", "Add another.")))
    assert made.queries[1] == "Then add plan.md."
    (issue,) = backend.asked[0][1]["issues"]
    assert issue == "turn 2: touch has file_name='plan.md', which nothing leads to"
    assert backend.agents() == ["refine_class", "refiner", "judge"]


# What is refused before any message is written


def executed(*calls: Call, results: tuple[str, ...] = ("",)) -> Draft:
    return Draft("A story.", FILES, (ExecutedTurn(calls, results),))


def checked(
    made: Draft, known: tuple[Task, ...] = (), type_: TaskType = TaskType.BASE, **config: Any
) -> None:
    filters.check_executed(context(Answers(), seed_task(type_), **config), made, Corpus(known, 0.9), ())


def test_the_seeds_own_calls_on_its_own_state_are_no_variant() -> None:
    calls = [call for turn in seed_task().turns for call in turn.calls]
    with pytest.raises(DuplicateFuncFailure, match=r"1\.00 like seed"):
        checked(executed(*calls), (seed_task(),))
    checked(executed(*calls))
    checked(executed(Call("ls", {})), (seed_task(),))


def test_large_arguments_and_short_results_of_long_context() -> None:
    with pytest.raises(ConversationConstructFailure, match="a string of 9 characters, allowed 8"):
        checked(executed(Call("touch", {"file_name": "notes.txt"})), max_string=8)
    short = executed(Call("ls", {}), results=("x" * 99,))
    with pytest.raises(
        ConversationConstructFailure, match="has 99 characters, a long_context task needs 100"
    ):
        checked(short, type_=TaskType.LONG_CONTEXT, min_long_observation=100)
    checked(short, type_=TaskType.LONG_CONTEXT, min_long_observation=99)
    checked(short, min_long_observation=100)


def test_functions_are_available_in_their_turns() -> None:
    hidden = replace(seed_task(), withheld=("touch",))
    first, second = hidden.turns
    assert rules.unavailable(seed_task()) == []
    assert rules.unavailable(replace(hidden, turns=(first, replace(second, restored=("touch",))))) == []
    assert rules.unavailable(hidden) == ["turn 2 calls the withheld touch", "touch is withheld for good"]
    late = (first, second, Turn("Now you can.", (), restored=("touch",)))
    assert rules.unavailable(replace(hidden, turns=late)) == ["turn 2 calls the withheld touch"]


# Stage 5


def test_base_and_long_context_get_no_added_turn() -> None:
    for type_ in (TaskType.BASE, TaskType.LONG_CONTEXT):
        turns, withheld = run(adversary.challenge(context(Answers(), seed_task(type_)), draft()))
        assert [turn.query for turn in turns] == list(draft().queries)
        assert withheld == ()


def test_miss_func_hides_and_restores() -> None:
    backend = Answers(miss_func=MissingFunction(turn=1, function="touch"))
    turns, withheld = run(adversary.challenge(context(backend, seed_task(TaskType.MISS_FUNC)), draft()))
    assert withheld == ("touch",)
    assert [len(turn.calls) for turn in turns] == [1, 0, 1]
    assert turns[1].query == "Add plan.md."
    assert turns[2].restored == ("touch",)


def test_miss_param_asks_first_and_gives_then() -> None:
    answer = MissingParameter(
        turn=1,
        function="touch",
        parameter="file_name",
        blurred="Add a file.",
        clarification="Call it plan.md.",
    )
    seed = seed_task(TaskType.MISS_PARAM)
    turns, withheld = run(adversary.challenge(context(Answers(miss_param=answer), seed), draft()))
    assert withheld == ()
    assert [(turn.query, len(turn.calls)) for turn in turns[1:]] == [
        ("Add a file.", 0),
        ("Call it plan.md.", 1),
    ]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"turn": 5}, "not called in that turn"),
        ({"turn": -1}, "not called in that turn"),
        ({"function": "ls"}, "not called in that turn"),
        ({"parameter": "colour"}, "no argument"),
        ({"blurred": "Add plan.md."}, "can be known"),
        ({"blurred": " "}, "blurred message is empty"),
        ({"clarification": "You know."}, "does not give"),
    ],
)
def test_a_missing_parameter_that_is_none(change: dict, why: str) -> None:
    good = {"turn": 1, "function": "touch", "parameter": "file_name"}
    answer = MissingParameter(**{**good, "blurred": "Add it.", "clarification": "It is plan.md.", **change})
    seed = seed_task(TaskType.MISS_PARAM)
    failure = fails(
        adversary.challenge(context(Answers(miss_param=answer), seed), draft()),
        ConversationConstructFailure,
    )
    assert why in failure.detail


def test_a_value_that_an_earlier_message_gives_is_not_missing() -> None:
    answer = MissingParameter(
        turn=1, function="touch", parameter="file_name", blurred="Add it.", clarification="It is plan.md."
    )
    seed = seed_task(TaskType.MISS_PARAM)
    known = draft("My plan.md is gone; how many words are in notes.txt?", "Add plan.md.")
    fails(
        adversary.challenge(context(Answers(miss_param=answer), seed), known),
        ConversationConstructFailure,
    )


def test_a_function_needed_earlier_cannot_be_hidden_later() -> None:
    turn = ExecutedTurn((Call("touch", {"file_name": "a.txt"}),), ("None",))
    twice = Draft("A story.", FILES, (turn, turn), ("Add a.txt.", "Again."))
    backend = Answers(miss_func=MissingFunction(turn=1, function="touch"))
    failure = fails(
        adversary.challenge(context(backend, seed_task(TaskType.MISS_FUNC)), twice),
        ConversationConstructFailure,
    )
    assert "needed before" in failure.detail
