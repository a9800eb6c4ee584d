"""Sizes and numbers of records of TFRecord files, without reading the files.

Programs that write TFRecord files save the numbers in a side file next to them, see `side_file`:

    {"files": {"wiki-00000-of-00040": {"size": 61337, "records": 512}, ...}}

An entry is used only if the size is that of the file. Needs TensorFlow only for remote files.
"""

import concurrent.futures
import hashlib
import json
import os
import re
import struct
from typing import NamedTuple

from bert_tf import console
from bert_tf.errors import UserError, abbreviate, reason
from bert_tf.io import files, json_files
from bert_tf.io.json_files import Count

# Number of files to access at the same time. An access to an object store takes tens of
# milliseconds, and almost no processor time.
NUM_PARALLEL = 64

_BLOCK_BYTES = 1 << 22
_LENGTH = struct.Struct("<Q")
_SHARD = re.compile(r"-\d{5}-of-\d{5}$")


class _Entry(NamedTuple):
    """The entry of a file in a side file."""

    size: Count
    records: Count


_FIELDS = {"files": dict[str, _Entry]}


def map_files(function, paths, what):
    """Return a list of `function(path)` for each file, computed in several threads.

    The progress of `what` is reported if it takes seconds. Of several exceptions, the one for the
    first file is raised.
    """
    progress = console.ProgressLog(what, "files", total=len(paths), is_brief=True)
    results = []
    with concurrent.futures.ThreadPoolExecutor(NUM_PARALLEL) as pool:
        for result in pool.map(function, paths):
            results.append(result)
            progress.add()
    progress.done()
    return results


def sizes(paths):
    """Return the sizes of files in bytes, a list; UserError if one does not exist."""
    return map_files(lambda path: files.size_and_time(path)[0], paths, "listing")


def identity(paths, sizes):
    """Return three integers that identify files by name and size: number, bytes and a digest.

    Folders do not count, so that the files can be moved.
    """
    pairs = [[os.path.basename(path), int(size)] for path, size in zip(paths, sizes, strict=True)]
    digest = hashlib.sha256(json.dumps(pairs).encode()).hexdigest()
    return [len(pairs), sum(size for _, size in pairs), int(digest[:15], 16)]


def side_file(path):
    """Return the path of the side file of a TFRecord file.

    All shards have the same one: "wiki.counts.json" for "wiki-00000-of-00040". So have sets of
    shards of a different number, such as "wiki-00000-of-00080".
    """
    return _SHARD.sub("", path) + files.RECORD_COUNTS


def write_counts(counts):
    """Write the side files of complete TFRecord files; `counts` is a dict from path to number.

    Entries of other files in them are kept.
    """
    groups: dict[str, list] = {}
    for path in counts:
        groups.setdefault(side_file(path), []).append(path)
    for side, paths in groups.items():
        _write(side, {os.path.basename(path): path for path in paths}, counts, _read(side))


def save_counts(cache, counts):
    """Write the numbers of records of files by their whole paths to the file `cache`."""
    _write(cache, {path: path for path in counts}, counts)


def _write(path, names, counts, others=None):
    entries = {
        name: {"size": size, "records": records} for name, (size, records) in (others or {}).items()
    }
    entries |= {
        name: {"size": size, "records": int(counts[source])}
        for (name, source), size in zip(names.items(), sizes(list(names.values())), strict=True)
    }
    # A line for each file.
    lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(x)}" for name, x in entries.items())
    files.write_text(path, f'{{"files": {{\n{lines}\n}}}}\n')


def read_counts(paths, sizes, cache=None):
    """Return the number of records of each file, a list; None if the side files lack a file.

    Args:
      paths: TFRecord files.
      sizes: their sizes in bytes. A side file with other sizes is ignored, which is logged.
      cache: a file of `save_counts`, which is read first; it need not exist.
    """
    if cache and (counts := _match(_read(cache), paths, sizes, [cache] * len(paths))):
        return counts
    sides = [side_file(path) for path in paths]
    distinct = list(dict.fromkeys(sides))
    entries = dict(zip(distinct, map_files(_read, distinct, "reading the counts"), strict=True))
    by_path = {
        path: entries[side].get(os.path.basename(path))
        for path, side in zip(paths, sides, strict=True)
    }
    return _match(by_path, paths, sizes, sides)


def count_records(paths):
    """Return the number of records of each file, a list, by reading the files.

    Raises:
      UserError: if a file ends within a record.
    """
    return map_files(_count, paths, "counting the records")


def _count(path):
    # A record is its length (8 bytes), a checksum (4), the data and a checksum (4).
    data, start, count = b"", 0, 0
    try:
        with files.system(path).GFile(path, "rb") as reader:
            while block := reader.read(_BLOCK_BYTES):
                data, start = data[start:] + block, max(start - len(data), 0)
                while start + 12 <= len(data):
                    start += 16 + _LENGTH.unpack_from(data, start)[0]
                    count += 1
    except files.io_errors() as error:
        raise UserError(f"{path}: cannot be read ({reason(error)})") from None
    if start != len(data):
        raise UserError(f"{path}: record {count or 1} is damaged or truncated")
    return count


def _read(path):
    """Return the entries of a side file, a dict from name to (size, records); {} without one."""
    if not files.system(path).exists(path):
        return {}
    try:
        entries = json_files.read(path, _FIELDS)["files"]
    except UserError:
        console.warning("%s: not a side file of TFRecord files, it is ignored", path)
        return {}
    return {name: (entry["size"], entry["records"]) for name, entry in entries.items()}


def _match(entries, paths, sizes, sources):
    """Return the number of records of each file, None if one is missing or has another size.

    `entries` is a dict from path to (size, records), and `sources` has the side file of each path.
    """
    counts, stale = [], []
    for path, size, source in zip(paths, sizes, sources, strict=True):
        # An empty file needs no entry.
        stored_size, count = entries.get(path) or ((None, None) if size else (0, 0))
        counts.append(count)
        if stored_size not in (None, size):
            stale.append((path, source))
    if stale:
        changed = [path for path, _ in stale]
        console.info(
            "%s is ignored: its counts were taken from files of a different size: %s",
            stale[0][1], abbreviate(changed),
        )  # fmt: skip
    return None if stale or None in counts else counts
