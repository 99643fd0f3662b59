"""What the estimate knows about GPUs: peak rates from the makers' data sheets, and how much of them is reached."""

from __future__ import annotations

from dataclasses import dataclass

from rods.errors import RodsError

GIB = 2**30


class UnknownDeviceError(RodsError):
    """A GPU without numbers here."""


@dataclass(frozen=True)
class Device:
    """One GPU.

    Attributes:
        memory: bytes.
        flops: dense bf16 operations a second.
        bandwidth: of its memory, bytes a second.
    """

    name: str
    memory: float
    flops: float
    bandwidth: float


DEVICES = {
    device.name: device
    for device in (
        Device("a100-40g", 40 * GIB, 312e12, 1.555e12),
        Device("a100", 80 * GIB, 312e12, 2.039e12),
        Device("h100", 80 * GIB, 989e12, 3.35e12),
        Device("h200", 141e9, 989e12, 4.8e12),
    )
}
# Shares of the peak rates that trainers and engines of this kind usually reach; assumed, not measured by us.
TRAINING_SHARE = 0.35
PREFILL_SHARE = 0.45
DECODING_SHARE = 0.6
RUNTIME = 2 * GIB  # CUDA context, NCCL buffers, allocator's slack; assumed


def device(name: str) -> Device:
    """The GPU of that name; "" is the paper's A100 of 80 GB.

    Raises:
        UnknownDeviceError: not in `DEVICES`.
    """
    try:
        return DEVICES[name or "a100"]
    except KeyError:
        raise UnknownDeviceError(
            f"no numbers for a GPU called {name!r}; there are: {', '.join(DEVICES)} (--gpu)"
        ) from None
