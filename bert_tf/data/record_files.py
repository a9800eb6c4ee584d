"""Sizes and record counts of TFRecord files.

The scripts save the counts of TFRecord files in a side file next to them:

    {"files": {"wiki-00000-of-00040": {"size": 61337, "records": 512}, ...}}

An entry is valid only if its size matches the file. Only remote files require TensorFlow.
"""

import concurrent.futures
import hashlib
import json
import os
import re
from typing import NamedTuple

from bert_tf import console
from bert_tf.errors import UserError
from bert_tf.io import files, json_files
from bert_tf.io.json_files import Count

# Number of files to access in parallel. An object store takes tens of milliseconds per access.
NUM_PARALLEL = 64

_SHARD = re.compile(r"-\d{5}-of-\d{5}$")


class _Entry(NamedTuple):
    size: Count
    records: Count


_FIELDS = {"files": dict[str, _Entry]}


def map_files(function, paths, what):
    """Return the list of `function(path)` in threads; log slow progress as `what`."""
    progress = console.ProgressLog(what, "files", total=len(paths), is_brief=True)
    results = []
    with concurrent.futures.ThreadPoolExecutor(NUM_PARALLEL) as pool:
        for result in pool.map(function, paths):
            results.append(result)
            progress.add()
    progress.done()
    return results


def sizes(paths):
    """Return the file sizes in bytes; UserError if a file does not exist."""
    return map_files(lambda path: files.size_and_time(path)[0], paths, "listing")


def identity(paths, sizes):
    """Return count, total bytes and a digest of names and sizes; the folder does not matter."""
    pairs = [[os.path.basename(path), int(size)] for path, size in zip(paths, sizes, strict=True)]
    digest = hashlib.sha256(json.dumps(pairs).encode()).hexdigest()
    return [len(pairs), sum(size for _, size in pairs), int(digest[:15], 16)]


def side_file(path):
    """Return "wiki.counts.json" for all shards like "wiki-00000-of-00040"."""
    return _SHARD.sub("", path) + files.RECORD_COUNTS


def write_counts(counts):
    """Write the side files for a dict from path to count; keep existing entries for other files."""
    groups: dict[str, list] = {}
    for path in counts:
        groups.setdefault(side_file(path), []).append(path)
    for side, paths in groups.items():
        try:
            _write(side, {os.path.basename(path): path for path in paths}, counts, _read(side))
        except UserError as error:  # complete shards may be in a read-only folder
            console.warning("%s; a resumed run will count the records", error)


def save_counts(cache, counts):
    """Write record counts, by full path, to the file `cache`."""
    _write(cache, {path: path for path in counts}, counts)


def _write(path, names, counts, others=None):
    entries = {
        name: {"size": size, "records": records} for name, (size, records) in (others or {}).items()
    }
    entries |= {
        name: {"size": size, "records": int(counts[source])}
        for (name, source), size in zip(names.items(), sizes(list(names.values())), strict=True)
    }
    # One line per file.
    lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(x)}" for name, x in entries.items())
    files.write_text(path, f'{{"files": {{\n{lines}\n}}}}\n')


def read_counts(paths, sizes, cache=None):
    """Return record counts from `cache` or side files; None if one is missing or outdated."""
    if cache and (counts := _match(_read(cache), paths, sizes)):
        return counts
    sides = [side_file(path) for path in paths]
    distinct = list(dict.fromkeys(sides))
    entries = dict(zip(distinct, map_files(_read, distinct, "reading the counts"), strict=True))
    by_path = {
        path: entries[side].get(os.path.basename(path))
        for path, side in zip(paths, sides, strict=True)
    }
    return _match(by_path, paths, sizes)


def count_records(paths):
    """Return the list of record counts by reading the files; UserError if one is truncated."""
    return map_files(_count, paths, "counting the records")


def _count(path):
    import tensorflow as tf

    records = tf.data.TFRecordDataset(path)
    with files.naming_errors(f"{path}: cannot be read"):
        return int(records.reduce(0, lambda count, _: count + 1))


def _read(path):
    if not files.exists(path):
        return {}
    try:
        entries = json_files.read(path, _FIELDS)["files"]
    except UserError:
        console.warning("%s is ignored, because it is not a side file of TFRecord files", path)
        return {}
    return {name: (entry["size"], entry["records"]) for name, entry in entries.items()}


def _match(entries, paths, sizes):
    # An empty file needs no entry.
    found = [entries.get(path) or (0, 0) for path in paths]
    return [count for _, count in found] if [size for size, _ in found] == sizes else None
