"""The reader of W&B's offline files, on which the tests of tracking rest: files that are still being written."""

import struct

from wandb.proto import wandb_internal_pb2
from wandb_files import written

HEADER = b":W&B\xc3\xbe\x00"


def pieces(record, *cuts):
    """A record in LevelDB's framing, split at `cuts` (the reader does not look at checksums)."""
    body = record.SerializeToString()
    bounds = [0, *cuts, len(body)]
    kinds = [1] if not cuts else [2, *[3] * (len(cuts) - 1), 4]
    return b"".join(
        struct.pack("<IHB", 0, end - start, kind) + body[start:end]
        for kind, start, end in zip(kinds, bounds, bounds[1:], strict=False)
    )


def test_a_file_cut_anywhere_gives_its_whole_records(tmp_path):
    records = [wandb_internal_pb2.Record(num=number, uuid="x" * 20) for number in (1, 2, 3)]
    framed = [pieces(records[0]), pieces(records[1], 3, 11), pieces(records[2])]
    data = HEADER + b"".join(framed)
    ends = [len(HEADER + b"".join(framed[:count])) for count in range(1, 4)]
    file = tmp_path / "run.wandb"
    for size in range(len(data) + 1):
        file.write_bytes(data[:size])
        assert written(file) == records[: sum(end <= size for end in ends)]
