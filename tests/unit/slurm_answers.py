"""What Slurm 22.05.8 printed on a private cluster, and a scheduler that prints it again.

Job 1: a heterogeneous job whose second component was cancelled. 3: ended with status 3. 4: completed. 5: requeued
after 3 s, now in its second start. 6, 7, 8: waiting for resources, for job 6, for a person. 999: no such job.
"""

from __future__ import annotations

from collections.abc import Sequence

from launchers.scheduler import Answer

SQUEUE = """\
1+1|CANCELLED|1796028335|1796028335|0:05|3-00:00:00|n2|None
4|COMPLETED|1796028335|1796028335|0:02|365-00:00:00|n3|None
3|FAILED|1796028335|1796028335|0:01|365-00:00:00|n3|NonZeroExitCode
6|PENDING|1796028335|1796287535|0:00|10:00||Resources
7|PENDING|1796028335|N/A|0:00|10:00||Dependency
8|PENDING|1796028335|N/A|0:00|10:00||JobHeldUser
1+0|RUNNING|1796028335|1796028335|1:12|3-00:00:00|n1|None
5|RUNNING|1796028338|1796028344|1:03|10:00|n2|None
"""
SACCT = """\
1+0|RUNNING|1796028335|1796028335|Unknown|73|n1|billing=2,cpu=2,gres/gpu=8,mem=200M,node=1||0:0
1+1|CANCELLED by 0|1796028335|1796028335|1796028340|5|n2|billing=1,cpu=1,gres/gpu=8,mem=100M,node=1||0:0
3|FAILED|1796028335|1796028335|1796028336|1|n3|billing=1,cpu=1,gres/gpu=1,mem=100M,node=1||3:0
4|COMPLETED|1796028335|1796028335|1796028337|2|n3|billing=1,cpu=1,gres/gpu=2,mem=100M,node=1||0:0
5|REQUEUED|1796028335|1796028335|1796028338|3|n4|billing=1,cpu=1,gres/gpu=8,mem=100M,node=1||0:0
6|PENDING|1796028335|Unknown|Unknown|0|None assigned||0|0:0
7|PENDING|1796028335|Unknown|Unknown|0|None assigned||0|0:0
8|PENDING|1796028335|Unknown|Unknown|0|None assigned||0|0:0
5|RUNNING|1796028338|1796028344|Unknown|64|n2|billing=1,cpu=1,gres/gpu=8,mem=100M,node=1||0:0
"""


class FakeSlurm:
    """Answers squeue and sacct from texts, for the jobs that it is asked for; keeps what it was asked.

    Args:
        squeue, sacct: what each knows; None for a command that fails.
    """

    def __init__(self, squeue: str | None = SQUEUE, sacct: str | None = SACCT) -> None:
        self._texts = {"squeue": squeue, "sacct": sacct}
        self.asked: list[tuple[str, list[str]]] = []

    def __call__(self, command: Sequence[str]) -> Answer:
        (jobs,) = (part.removeprefix("--jobs=") for part in command if part.startswith("--jobs="))
        wanted = jobs.split(",")
        self.asked.append((command[0], wanted))
        text = self._texts[command[0]]
        if text is None:
            return Answer("", f"{command[0]} failed: Unable to contact slurm controller (connect failure)")
        kept = [line for line in text.splitlines() if line.split("|")[0].split("+")[0] in wanted]
        return Answer("".join(f"{line}\n" for line in kept))
