"""The pipeline: retries that learn, variants that pass the last gate, and content that depends on nothing
else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest
from synthesis_examples import FILES, Answers, plan, seed_task

from rods import tasks
from rods.config import SynthesisConfig, TasksConfig
from rods.simulation.session import open_world
from rods.synthesis import filters
from rods.synthesis.accounting import Accounts
from rods.synthesis.agents import Arguments, Judgement, Patch, Query, RefineClass, StatePatch
from rods.synthesis.pipeline import Outcome, Pipeline
from rods.synthesis.scripted import build
from rods.tasks.model import Call, Origin, Task, TaskType, Turn
from rods.tasks.profile import profile


def run(backend: Any, task: Task | None = None, key: str = "000001-seed", **more: Any) -> Outcome:
    known, seed = more.pop("known", ()), more.pop("seed", 0)
    pipeline = Pipeline(SynthesisConfig(**more), backend, seed, known)
    return asyncio.run(pipeline.run(task or seed_task(), key))


def test_a_good_first_attempt() -> None:
    outcome = run(Answers())
    (task,) = outcome.tasks
    assert (outcome.attempts, outcome.failures, outcome.reason) == (1, (), "")
    assert task.origin is Origin.VARIANT
    assert task.id.startswith("seed~")
    assert task.seed_id == "seed"
    assert task.provenance["attempts"] == 1
    assert task.provenance["backend"] == "prepared"
    assert filters.failed_turns(task) == ()


def test_a_variant_of_a_variant_keeps_the_root() -> None:
    parent = replace(seed_task(), id="seed~abc", seed_id="seed", origin=Origin.VARIANT, kind="count")
    (task,) = run(Answers(), parent).tasks
    assert (task.seed_id, task.kind, task.provenance["parent"]) == ("seed", "count", "seed~abc")


def test_a_failed_call_is_patched_and_the_plan_made_again() -> None:
    def arguments(inputs: Any) -> Arguments:
        """Reads a word that only the patched state holds."""
        if inputs["function"] == "touch":
            return Arguments(arguments={"file_name": "plan.md"})
        name = "notes.txt" if "patched" in str(inputs["state"]) else "gone.txt"
        return Arguments(arguments={"file_name": name, "mode": "w"})

    path = r"root.workspace.contents.notes\.txt.content"
    patch = Patch(patches=[StatePatch(class_name="GorillaFileSystem", path=path, value="patched")])
    backend = Answers(arguments=arguments, patch=patch)
    outcome = run(backend)
    (task,) = outcome.tasks
    assert outcome.attempts == 2
    assert outcome.errors == {"vm_exec_failed": 1}
    assert "patched" in str(task.initial_state)
    assert "patched" not in str(FILES)
    plans = [inputs for agent, inputs, _ in backend.asked if agent == "planner"]
    assert plans[1]["history"][0]["function"] == "wc"
    assert plans[1]["blocklist"] == []


def test_without_a_patch_the_failed_call_is_blocked() -> None:
    backend = Answers(arguments=Arguments(arguments={"file_name": "gone.txt"}))
    outcome = run(backend)
    assert outcome.tasks == ()
    assert outcome.attempts == 3
    assert outcome.errors == {"vm_exec_failed": 1, "duplicate_func": 2}
    assert "gone.txt" in outcome.reason
    blocked = [inputs["blocklist"] for agent, inputs, _ in backend.asked if agent == "planner"]
    assert [len(calls) for calls in blocked] == [0, 1, 1]
    # The last failure is not worth a patch: no attempt is left that could use it.
    assert backend.agents().count("patch") == 1


def test_a_refused_patch_is_told_to_the_planner() -> None:
    wrong = Patch(patches=[StatePatch(class_name="GorillaFileSystem", path="nowhere", value=1)])
    backend = Answers(arguments=Arguments(arguments={"file_name": "gone.txt"}), patch=wrong)
    run(backend)
    second = [inputs for agent, inputs, _ in backend.asked if agent == "planner"][1]
    assert "Config Patch gave no usable change" in second["history"][0]["detail"]


def test_a_rejected_dialogue_is_planned_again_without_a_patch() -> None:
    backend = Answers(
        judge=[Judgement(accepted=False, issues=["no"]), Judgement(accepted=True)],
        refine_class=RefineClass(verdict="gt_unfixable"),
    )
    outcome = run(backend)
    assert (len(outcome.tasks), outcome.attempts) == (1, 2)
    assert outcome.errors == {"conversation_construct_failed": 1}
    assert "patch" not in backend.agents()


def test_every_attempt_asks_with_seeds_of_its_own() -> None:
    backend = Answers(judge=Judgement(accepted=False), refine_class=RefineClass(verdict="gt_unfixable"))
    run(backend)
    seeds = [rng_seed for agent, _, rng_seed in backend.asked if agent == "planner"]
    assert len(set(seeds)) == 3


def test_duplicates_of_known_content_are_refused() -> None:
    (task,) = run(Answers()).tasks
    outcome = run(Answers(), known=[task])
    assert outcome.tasks == ()
    assert outcome.errors == {"duplicate_func": 3}


def test_a_retry_told_nothing_is_blind() -> None:
    path = r"root.workspace.contents.notes\.txt.content"
    patch = Patch(patches=[StatePatch(class_name="GorillaFileSystem", path=path, value="patched")])
    failing = Arguments(arguments={"file_name": "gone.txt"})
    backends = {retry: Answers(arguments=failing, patch=patch) for retry in ("guided", "blind")}
    outcomes = {retry: run(backend, retry=retry) for retry, backend in backends.items()}
    told = {
        retry: [
            (len(inputs["history"]), "patched" in str(inputs["state"]))
            for agent, inputs, _ in backend.asked
            if agent == "planner"
        ]
        for retry, backend in backends.items()
    }
    assert told == {
        "guided": [(0, False), (1, True), (2, True)],
        "blind": [(0, False), (0, False), (0, False)],
    }
    assert "patch" not in backends["blind"].agents()
    # Without a blocklist the same call fails in the simulator again and again; the records keep it all.
    assert outcomes["blind"].errors == {"vm_exec_failed": 3}


def test_patches_add_up_and_config_patch_reads_the_failures_before() -> None:
    """Two preconditions, one patch an attempt: the third attempt has both."""
    names = {"a": "notes.txt", "b": "more.txt"}
    contents = {name: {"type": "file", "content": "closed"} for name in names.values()}
    root = {"workspace": {"type": "directory", "contents": contents}}
    turns = (
        Turn("Count a.", (Call("wc", {"file_name": "notes.txt", "mode": "l"}),)),
        Turn("Count b.", (Call("wc", {"file_name": "more.txt", "mode": "l"}),)),
    )
    seed = Task("seed", TaskType.BASE, ("GorillaFileSystem",), {"GorillaFileSystem": {"root": root}}, turns)

    def arguments(inputs: Any) -> Arguments:
        opened = str(inputs["state"]).count("open")
        name = list(names.values())[inputs["turn"]] if opened > inputs["turn"] else "gone.txt"
        return Arguments(arguments={"file_name": name, "mode": "w"})

    def patch(inputs: Any) -> Patch:
        name = list(names.values())[len(inputs["history"])].replace(".", r"\.")
        path = f"root.workspace.contents.{name}.content"
        return Patch(patches=[StatePatch(class_name="GorillaFileSystem", path=path, value="open")])

    backend = Answers(planner=plan(["wc"], ["wc"]), arguments=arguments, patch=patch)
    outcome = run(backend, seed)
    assert outcome.errors == {"vm_exec_failed": 2}
    (task,) = outcome.tasks
    assert str(task.initial_state).count("open") == 2
    assert task.provenance["attempts"] == 3


def test_without_narrative_planning_the_graph_gives_the_functions() -> None:
    backend = Answers(arguments=_any_arguments)
    outcome = run(backend, narrative_planning=False, max_profile_distance=0.3)
    assert "planner" not in backend.agents()
    drafts = [inputs["draft"] for agent, inputs, _ in backend.asked if agent == "query"]
    assert {draft.narrative for draft in drafts} == {""}
    assert len(outcome.tasks) == 1
    assert "planner" in _asked(narrative_planning=True)


def _any_arguments(inputs: Any) -> Arguments:
    """Good values for whatever file function was sampled."""
    values = {"file_name": "notes.txt", "mode": "w", "content": "x", "lines": 1, "pattern": "one"}
    fresh = {"touch": {"file_name": "plan.md"}, "mkdir": {"dir_name": "plans"}, "cd": {"folder": "docs"}}
    wanted = inputs["doc"].parameters["properties"]
    taken = {name: value for name, value in values.items() if name in wanted}
    return Arguments(arguments=fresh.get(inputs["function"], taken))


def _asked(**config: Any) -> list[str]:
    backend = Answers()
    run(backend, **config)
    return backend.agents()


def test_without_the_coherence_rewrite_no_rewriter_is_asked() -> None:
    assert "rewriter" in _asked()
    assert "rewriter" not in _asked(coherence_rewrite=False)


def test_two_variants_of_one_seed_differ_or_are_refused() -> None:
    outcome = run(Answers(), variants_per_seed=2)
    assert len(outcome.tasks) == 1
    assert outcome.errors == {"duplicate_func": 3}


def test_a_variant_too_far_from_the_seeds_profile_is_refused() -> None:
    outcome = run(Answers(planner=plan(["wc"], ["wc"])), max_profile_distance=0.01)
    assert outcome.tasks == ()
    assert set(outcome.errors) == {"func_sample_failed"}


def test_a_variant_that_lost_the_seeds_flow_is_refused() -> None:
    """The shape is the seed's, but no call uses what another returned: only execution shows that."""
    count = Call("wc", {"file_name": "notes.txt", "mode": "c"})
    write = Call("echo", {"content": "7", "file_name": "notes.txt"})
    seed = replace(
        seed_task(), turns=(Turn("Write the number of its characters into notes.txt.", (count, write)),)
    )
    texts = {
        "wc": {"file_name": "notes.txt", "mode": "l"},
        "echo": {"content": "new", "file_name": "notes.txt"},
    }
    backend = Answers(
        planner=plan(["wc", "echo"]),
        arguments=lambda inputs: Arguments(arguments=texts[inputs["function"]]),
        query=Query(text="Count the lines of notes.txt and write 'new' into it."),
    )
    outcome = run(backend, seed)
    assert outcome.errors == {"conversation_construct_failed": 3}
    assert "Φ is 0.35 from the seed's, allowed 0.25" in outcome.reason
    assert len(run(backend, seed, max_profile_distance=0.4).tasks) == 1


def test_a_seed_without_calls_is_dropped_with_a_reason() -> None:
    turns = tuple(replace(turn, calls=()) for turn in seed_task().turns)
    outcome = run(Answers(), replace(seed_task(), turns=turns))
    assert outcome.errors == {"func_sample_failed": 1}
    assert "no turn with a call" in outcome.reason


def test_the_last_gate_catches_a_ground_truth_that_fails() -> None:
    (task,) = run(Answers()).tasks
    hidden = replace(task, withheld=("touch",))
    assert filters.failed_turns(hidden) == (1,)


# The scripted backend


@pytest.fixture(scope="module")
def scripted_seeds() -> tuple[Task, ...]:
    return tasks.load(TasksConfig(source="scripted", train_count=24, heldout_count=0)).train


@pytest.fixture(scope="module")
def bfcl_seeds() -> list[Task]:
    train = tasks.load(TasksConfig(source="bfcl")).train
    return [task for type_ in TaskType for task in [seed for seed in train if seed.type is type_][:8]]


def calls(task: Task) -> list[tuple[str, ...]]:
    return [tuple(call.name for call in turn.calls) for turn in task.turns]


def test_scripted_seeds_get_variants_of_equal_profile_in_fresh_worlds(
    scripted_seeds: tuple[Task, ...],
) -> None:
    for seed in scripted_seeds:
        (task,) = run(build(SynthesisConfig()), seed).tasks
        assert task.provenance["profile_distance"] == 0
        assert calls(task) == calls(seed)
        assert task.initial_state != seed.initial_state
        assert filters.failed_turns(task) == ()
        assert task.kind == seed.kind


def test_a_variants_content_depends_on_seed_key_and_run_seed_only(scripted_seeds: tuple[Task, ...]) -> None:
    seed, other = scripted_seeds[:2]
    backend = build(SynthesisConfig())
    first = run(backend, seed).tasks[0]
    run(backend, other)
    assert run(build(SynthesisConfig()), seed).tasks[0] == first
    renamed = replace(seed, id="another name", provenance={"x": 1})
    assert run(backend, renamed).tasks[0].content_id() == first.content_id()
    assert run(backend, seed, key="000002-seed").tasks[0].content_id() != first.content_id()
    assert run(backend, seed, seed=1).tasks[0].content_id() != first.content_id()


def test_bfcl_seeds_get_sound_variants_of_every_type(bfcl_seeds: list[Task]) -> None:
    accepted: dict[TaskType, int] = dict.fromkeys(TaskType, 0)
    for seed in bfcl_seeds:
        outcome = run(build(SynthesisConfig()), seed)
        assert bool(outcome.reason) == (not outcome.tasks)
        for task in outcome.tasks:
            accepted[task.type] += 1
            assert task.type is seed.type
            assert filters.failed_turns(task) == ()
            assert task.content_id() != seed.content_id()
            assert len([turn for turn in task.turns if not turn.calls]) == len(
                [turn for turn in seed.turns if not turn.calls]
            )
    assert min(accepted.values()) >= 2, accepted


def test_values_that_flow_stay_unsaid(bfcl_seeds: list[Task]) -> None:
    """A variant's Φ keeps the seed's flow: what the seed's user leaves to a result, the variant's does too."""
    flows = 0
    for seed in bfcl_seeds[:8]:
        for task in run(build(SynthesisConfig()), seed).tasks:
            world = open_world(task)
            results = [[world.execute(call).text for call in turn.calls] for turn in task.turns]
            flows += profile(task, results).flow
    assert flows > 0


def test_scripted_variants_without_a_story(scripted_seeds: tuple[Task, ...], bfcl_seeds: list[Task]) -> None:
    """Functions may differ from the seed's then; what is accepted is sound and of the seed's Φ."""
    made = [
        (seed, task)
        for seed in (*scripted_seeds[:8], *bfcl_seeds[:8])
        for task in run(build(SynthesisConfig()), seed, narrative_planning=False).tasks
    ]
    assert {seed.classes == ("GorillaFileSystem",) for seed, _ in made} == {True, False}
    for seed, task in made:
        assert task.initial_state == seed.initial_state
        assert filters.failed_turns(task) == ()
        assert task.provenance["profile_distance"] <= 0.25


def test_an_agent_without_a_rule_is_no_pattern() -> None:
    outcome = run(_WithoutRule(), tasks.load(TasksConfig(source="bfcl", train_count=1)).train[0])
    assert set(outcome.errors) == {"no_pattern"}


class _WithoutRule:
    """The scripted backend asked under names that it does not know."""

    provenance: Mapping[str, Any] = MappingProxyType({})
    accounts = Accounts()
    llm_calls = 0

    async def ask(self, agent: str, inputs: Any, output: Any, rng_seed: int) -> Any:
        return await build(SynthesisConfig()).ask(f"unknown {agent}", inputs, output, rng_seed)

    async def close(self) -> None: ...
