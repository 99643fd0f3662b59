"""The best policy so far, by the evaluations that guide the run, as a folder that others load."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from rods.curriculum.events import EvaluationDone
from rods.exchange.atomic import write_json
from rods.exchange.rundir import RunDir
from rods.training.saving import Saver

FOLDER, FIGURE = "policy_best", "evaluation.json"


class Best:
    """Exports the policy whenever an evaluation is better than all before it.

    Args:
        run: its folder `policy_best` holds the policy, and the evaluation beside it as `evaluation.json`.
        saver: writes it.
        mode: `sampled` or `greedy`, the evaluation that counts; "" keeps none.
        mean: of the best one so far; None before the first.

    Attributes:
        mean: likewise, now.
    """

    def __init__(self, run: RunDir, saver: Saver, mode: str, mean: float | None) -> None:
        self._target = run.path / FOLDER
        self._saver = saver
        self._mode = mode
        self.mean = mean

    def consider(self, evaluations: Iterable[EvaluationDone]) -> None:
        """Keep the policy that was just evaluated if it is better; equal ones stay as they are. Collective.

        Raises:
            OSError, RuntimeError, PeerError: it could not be written.
        """
        for each in evaluations:
            if each.mode.value == self._mode and (self.mean is None or each.mean > self.mean):
                figure = partial(write_json, self._target / FIGURE, each.to_json())
                self._saver.policy(self._target, figure)
                self.mean = each.mean
