"""The study: does RODS beat a static pool in the smallest world? Many short runs, their summaries, and one page.

    python -m benchmarks.study run --hours 4     make runs, two at a time; what is finished is skipped
    python -m benchmarks.study status            which there are
    python -m benchmarks.study tables            docs/study.md out of the summaries; nothing is run

A run is an arm (a system) with a seed. The seed makes its training tasks, their order and all draws; the held-out tasks
are the same for all. A finished run leaves one small file in `results/`, and the page is made of these files alone.
"""
