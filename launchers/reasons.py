"""Why a job waits: Slurm's words (squeue(1), "JOB REASON CODES"), each as a phrase for a person."""

from __future__ import annotations

_PHRASES = {
    "Resources": "waits for free nodes",
    "Priority": "jobs of higher priority are before it",
    "Dependency": "waits for another job",
    "DependencyNeverSatisfied": "waits for a job that can no longer end as asked: cancel it",
    "BeginTime": "waits for its begin time (after a requeue: about two minutes)",
    "JobHeldUser": "held by its owner: scontrol release JOB",
    "JobHeldAdmin": "held by an administrator: ask the site",
    "JobLaunchFailure": "its start failed: look at the nodes, then scontrol release JOB",
    "launch_failed_requeued_held": "its start failed and it is held: scontrol release JOB",
    "JobArrayTaskLimit": "as many of its array as may run do",
    "PartitionDown": "the partition is down",
    "PartitionInactive": "the partition is inactive",
    "PartitionNodeLimit": "more nodes than the partition allows",
    "PartitionTimeLimit": "a longer time limit than the partition allows: lower cluster.time_hours",
    "PartitionConfig": "more than the partition can give: see sinfo",
    "BadConstraints": "no node has what it asks for: see cluster.extra and gpu_type",
    "Reservation": "waits for its reservation",
    "Licenses": "waits for a licence",
    "AccountNotAllowed": "the account may not use the partition: set cluster.account",
    "InvalidAccount": "the account is not known: set cluster.account",
    "InvalidQOS": "the QOS is not known: set cluster.qos",
}
_FAMILIES = (
    ("ReqNodeNotAvail", "a node it asks for is not available (maintenance?)"),
    ("Nodes_required_for_job_are_DOWN", "nodes it needs are down or reserved"),
    ("QOS", "a limit of the QOS is reached"),
    ("Assoc", "a limit of the account is reached"),
    ("MaxJobsPer", "as many jobs as you may have are there"),
)


def phrase(reason: str) -> str:
    """`reason` as a phrase; one that is not known stays as Slurm has it, "" stays "".

    Args:
        reason: squeue's word, as "Resources" or "QOSMaxGRESPerUser".
    """
    if reason in _PHRASES:
        return _PHRASES[reason]
    known = (text for prefix, text in _FAMILIES if reason.startswith(prefix))
    text = next(known, "")
    return f"{text} ({reason})" if text else reason
