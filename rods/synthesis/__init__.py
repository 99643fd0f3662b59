"""New tasks at the policy's capability boundary: from one seed task, in five stages, to variants of equal Φ.

Read `pipeline` first: it holds the order of the stages (`planner`, `executor`, `grounding`, `critique`,
`adversary`, then the `filters`) and what an attempt learns from the one before. Who answers for the agents
is a backend behind `agents.Backend`: `scripted` (rules and templates, no language model) or `llm`.
"""
