"""W&B's offline files read back."""

import json
import struct
import time

from wandb.proto import wandb_internal_pb2


def records(folder):
    """The records of the offline runs below `folder`, oldest first."""
    return [record for file in sorted(folder.rglob("*.wandb")) for record in whole(file)]


def whole(file):
    """The records of a run that was finished: W&B writes the last of them a moment after it says so."""
    until(lambda: any(record.HasField("exit") for record in written(file)))
    return written(file)


def written(file):
    """The whole records in a file of LevelDB's log format, behind 7 bytes of header.

    The file may be growing: a piece whose end is not there yet is left for the next read.
    """
    found, data, at, content = [], file.read_bytes(), 7, b""
    while at + 7 <= len(data):
        if 32768 - at % 32768 < 7:
            at += 32768 - at % 32768
            continue
        size, kind = struct.unpack_from("<HB", data, at + 4)
        if at + 7 + size > len(data):
            break
        content += data[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (1, 4):  # a whole record, or the last piece of one
            record = wandb_internal_pb2.Record()
            record.ParseFromString(content)
            found.append(record)
            content = b""
    return found


def logged(found, key):
    """Steps and values that were logged under `key`, in order."""
    told = []
    for each in found:
        items = {item.key or "/".join(item.nested_key): item.value_json for item in each.history.item}
        if key in items:
            told.append((each.history.step.num, json.loads(items[key])))
    return told


def identities(found):
    return {
        (each.run.run_id, each.run.run_group, each.run.job_type) for each in found if each.HasField("run")
    }


def until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
