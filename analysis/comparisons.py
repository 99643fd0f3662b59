"""Systems beside each other and beside the paper, each difference with its interval."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from analysis import scores, system_names
from analysis.paper import Paper, Row
from analysis.scores import ACCURACY, OFFICIAL, REWARD, Score
from analysis.seeds import MIN_SEEDS, Paired, Summary, paired, summary
from analysis.systems import System, differing, settings
from rods.evaluation.statistics import Interval, paired_bootstrap, wilson

OVERALL = "overall"
_CAPACITY = "buffer.capacity"
PREFERRED = (OFFICIAL, *REWARD.values(), *ACCURACY.values())


@dataclass(frozen=True)
class Scored:
    """A system and what each of its runs scored.

    Attributes:
        scores: by measure, then by seed.
    """

    system: System
    scores: Mapping[str, Mapping[int, Score]]

    def values(self, measure: str, part: str = OVERALL) -> dict[int, float]:
        """Score by seed, of all tasks or of one type; seeds without it are left out."""
        own = self.scores.get(measure, {})
        if part == OVERALL:
            return {seed: score.value for seed, score in own.items()}
        return {seed: score.by_type[part] for seed, score in own.items() if part in score.by_type}

    def tasks(self, measure: str) -> frozenset[str]:
        """The tasks that any of the runs was scored on."""
        return frozenset(task for score in self.scores.get(measure, {}).values() for task in score.tasks)


@dataclass(frozen=True)
class BesidePaper:
    """One figure of the paper's tables, in per cent.

    Attributes:
        tasks: how many there are, of all runs together.
        ours, low, high: mean over seeds, and its 95% interval: Student's, for a single run Wilson's over tasks.
        theirs: the paper's one figure, which is taken as it is: it has no interval of its own. None: not in it.
    """

    system: str
    part: str
    seeds: int
    tasks: int
    ours: float
    low: float
    high: float
    theirs: float | None

    @property
    def difference(self) -> tuple[float, float, float] | None:
        """Ours less theirs, and the ends of its interval."""
        if self.theirs is None:
            return None
        return self.ours - self.theirs, self.low - self.theirs, self.high - self.theirs


@dataclass(frozen=True)
class Against:
    """One system less a reference on one measure.

    Attributes:
        paired: over common seeds; None without one.
        tasks: how many both were scored on.
        by_task: interval of the difference over those, averaged over seeds first; None without any.
        paper: the paper's difference in the measure's unit; None where its tables do not have both.
    """

    system: System
    reference: System
    measure: str
    paired: Paired | None
    tasks: int
    by_task: Interval | None
    paper: float | None

    @property
    def few(self) -> bool:
        """Whether there are too few seeds to conclude from."""
        return self.paired is None or self.paired.count < MIN_SEEDS


def score(systems: Sequence[System]) -> list[Scored]:
    """The scores of every run.

    Raises:
        ScoreError: a result file that holds something else.
    """
    return [_scored(system) for system in systems]


def summaries(scored: Scored) -> dict[str, Summary]:
    """Mean over seeds by measure."""
    return {measure: summary([each.value for each in own.values()]) for measure, own in scored.scores.items()}


def beside_paper(all_: Sequence[Scored], paper: Paper) -> list[BesidePaper]:
    """The paper's main table, for systems that have the official measure: overall and by type."""
    rows: list[BesidePaper] = []
    for scored in all_:
        found = _published(scored.system, paper)
        own = scored.scores.get(OFFICIAL, {})
        kinds = sorted({kind for each in own.values() for kind in each.by_type})
        for part in (OVERALL, *kinds) if own else ():
            theirs = None if found is None else found.get(part)
            rows.append(_beside(scored, part, theirs))
    return rows


def against(ours: Sequence[Scored], references: Sequence[Scored], paper: Paper) -> list[Against]:
    """Every system with every reference, on each measure that both have."""
    return [
        _compare(mine, reference, measure, paper)
        for reference in references
        for mine in ours
        for measure in sorted(mine.scores.keys() & reference.scores.keys(), key=rank)
    ]


def ablations(all_: Sequence[Scored], paper: Paper) -> list[Against]:
    """Every ablation with the whole system of the same experiment, on each measure that both have.

    Of several whole systems (such as others of `buffer.capacity`) it is the one with most settings in common.
    """
    found: list[Against] = []
    for each in all_:
        own = [
            other
            for other in all_
            if not other.system.ablation and other.system.experiment == each.system.experiment
        ]
        if each.system.ablation and own:
            whole = min(own, key=lambda other: differing(other.system.config, each.system.config))
            found += against([each], [whole], paper)
    return found


def capacities(all_: Sequence[Scored]) -> dict[str, dict[int, dict[int, float]]]:
    """Scores by system without its capacity, then by P_max, then by seed; where at least two P_max were run."""
    found: dict[tuple[tuple[str, str], ...], list[Scored]] = defaultdict(list)
    for each in all_:
        others = {key: value for key, value in settings(each.system.config).items() if key != _CAPACITY}
        found[tuple(others.items())].append(each)
    swept = {own: curve for own, curve in found.items() if len(curve) > 1 and all(x.scores for x in curve)}
    names = system_names.names([dict(own) for own in swept])
    return dict(_curve(name, curve) for name, curve in zip(names, swept.values(), strict=True))


def rank(measure: str) -> tuple[int, str]:
    """Those that conclusions are drawn from come first."""
    return (PREFERRED.index(measure) if measure in PREFERRED else len(PREFERRED)), measure


def _scored(system: System) -> Scored:
    found: dict[str, dict[int, Score]] = defaultdict(dict)
    for seed, run in system.runs.items():
        for measure, own in scores.of_run(run).items():
            found[measure][seed] = own
    return Scored(system, dict(found))


def _curve(name: str, systems: Sequence[Scored]) -> tuple[str, dict[int, dict[int, float]]]:
    """Name with measure, and scores by capacity and seed, of systems that differ in their capacity only."""
    measure = min(set.intersection(*(set(each.scores) for each in systems)), key=rank)
    points = {int(each.system.config["buffer"]["capacity"]): each.values(measure) for each in systems}
    return f"{name}: {measure}", dict(sorted(points.items()))


def _published(system: System, paper: Paper) -> Row | None:
    """The paper's row of a system; of a model that was only evaluated, that of the model before training."""
    only = system.config.get("evaluation", {})
    if only.get("enabled"):
        return paper.untrained(only["policy"])
    return paper.find(system.experiment, system.ablation)


def _beside(scored: Scored, part: str, theirs: float | None) -> BesidePaper:
    values = list(scored.values(OFFICIAL, part).values())
    over_seeds = summary(values)
    verdicts = {
        task: passed
        for each in scored.scores[OFFICIAL].values()
        for task, passed in each.tasks.items()
        if part in (OVERALL, each.types[task])
    }
    if over_seeds.half is None:
        interval = wilson(round(sum(verdicts.values())), len(verdicts))
    else:
        interval = Interval(over_seeds.mean - over_seeds.half, over_seeds.mean + over_seeds.half)
    name = scored.system.name
    low, high = 100 * interval.low, 100 * interval.high
    return BesidePaper(name, part, over_seeds.count, len(verdicts), 100 * over_seeds.mean, low, high, theirs)


def _compare(mine: Scored, reference: Scored, measure: str, paper: Paper) -> Against:
    published = None
    if measure == OFFICIAL:
        rows = [_published(each.system, paper) for each in (mine, reference)]
        figures = [None if row is None else row.get(OVERALL) for row in rows]
        if figures[0] is not None and figures[1] is not None:
            published = (figures[0] - figures[1]) / 100
    return Against(
        mine.system,
        reference.system,
        measure,
        paired(mine.values(measure), reference.values(measure)),
        len(mine.tasks(measure) & reference.tasks(measure)),
        _over_tasks(mine.scores[measure], reference.scores[measure]),
        published,
    )


def _over_tasks(ours: Mapping[int, Score], theirs: Mapping[int, Score]) -> Interval | None:
    mine, other = _rates(ours), _rates(theirs)
    kinds = {task: kind for each in ours.values() for task, kind in each.types.items()}
    differences: dict[str, list[float]] = defaultdict(list)
    for task in sorted(mine.keys() & other.keys()):
        differences[kinds.get(task, "")].append(mine[task] - other[task])
    return paired_bootstrap(differences) if differences else None


def _rates(by_seed: Mapping[int, Score]) -> dict[str, float]:
    """Score of each task, averaged over the runs."""
    found: dict[str, list[float]] = defaultdict(list)
    for each in by_seed.values():
        for task, own in each.tasks.items():
            found[task].append(own)
    return {task: fmean(values) for task, values in found.items()}
