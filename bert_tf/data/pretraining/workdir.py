"""The work folder of shards, with their tokens and the counts of finished shards.

`made_of.json` has the fingerprint of the text and configuration, and `sizes.json` exists once the
tokens of all shards are complete.
"""

import contextlib
import json
import os
import re

from bert_tf import console
from bert_tf.data import record_files
from bert_tf.data.pretraining.corpus import Block
from bert_tf.data.pretraining.writing import Counts
from bert_tf.errors import DamagedFile, UserError
from bert_tf.io import files, json_files, locks

# Bytes of tokens to buffer before writing.
_BUFFER_SIZE = 16_000_000

# Files of a run that was killed before writing the fingerprint.
_INCOMPLETE = re.compile(r"\.lock|made_of\.json\.tmp-\d+")


class WorkDir:
    """The work folder `path`, created by `locked`; tokens require a local folder."""

    def __init__(self, path, num_shards, fingerprint):
        self.path, self._num_shards, self._fingerprint = path, num_shards, fingerprint

    def exists(self):
        return files.system(self.path).exists(self.path)

    @contextlib.contextmanager
    def locked(self):
        """Create and lock the folder; delete its contents if they belong to different shards."""
        with locks.locked(self.path, "output_file", "makes shards"):
            path = self._join("made_of.json")
            system = files.system(self.path)
            if system.exists(path):
                is_same = files.read_text(path) == to_json(self._fingerprint)
            elif all(map(_INCOMPLETE.fullmatch, system.listdir(self.path))):
                is_same = False
            else:
                raise UserError(
                    f"`work_dir`: found no made_of.json in {self.path}, expected a folder created "
                    "by this program; remove it or choose another folder"
                )
            if not is_same:
                self._clear()
                try:
                    files.write_text(path, to_json(self._fingerprint))
                except UserError:
                    self.remove()
                    raise
            yield

    def remove(self):
        self._clear()
        system = files.system(self.path)
        # Remove the lock last, because another process may use the folder afterwards.
        for path in map(self._join, ("made_of.json", ".lock")):
            if system.exists(path):
                system.remove(path)
        if system is not files.Local:
            system.rmtree(self.path)
            return
        with contextlib.suppress(OSError):  # that process may have written files
            os.rmdir(self.path)

    def _clear(self):
        """Remove all but lock and fingerprint; sizes first, so that no run uses partial tokens."""
        system = files.system(self.path)
        names = set(system.listdir(self.path)) - {".lock", "made_of.json"}

        def remove(name):
            path = self._join(name)
            (system.rmtree if system.isdir(path) else system.remove)(path)

        if "sizes.json" in names:
            remove("sizes.json")
        record_files.map_files(remove, sorted(names - {"sizes.json"}), "removing")

    def _join(self, *names):
        return os.path.join(self.path, *names)

    def write_counts(self, shard, counts):
        files.write_text(self._counts_path(shard), to_json(counts._asdict()))

    def shards_with_counts(self):
        names = set(files.system(self.path).listdir(self.path))
        paths = map(self._counts_path, range(self._num_shards))
        return {shard for shard, path in enumerate(paths) if os.path.basename(path) in names}

    def read_counts(self):
        fields = dict.fromkeys(Counts._fields, json_files.Count)

        def read(shard):
            path = self._counts_path(shard)
            values = json_files.read(path, fields, "create_pretraining_data.py")
            return Counts(**{name: values[name] for name in fields})

        return record_files.map_files(read, range(self._num_shards), "reading the counts")

    def _counts_path(self, shard):
        return self._join(f"{shard:05d}.json")

    def has_sizes(self):
        return os.path.exists(self._join("sizes.json"))

    def read_sizes(self):
        """Return [tokens, sentences, tokens of the largest document] of each shard, or None."""
        path = self._join("sizes.json")
        if not self.has_sizes():
            return None
        console.info("reusing the tokens in %s", self.path)
        sizes = list[list[json_files.Count]]
        return json_files.read(path, sizes, "create_pretraining_data.py")

    @contextlib.contextmanager
    def writing_tokens(self):
        """Yield a `TokenWriter`; its tokens are complete if the block succeeds."""
        folder = self._join("tokens")
        if os.path.exists(folder):
            files.Local.rmtree(folder)
        files.make_folder(folder)
        try:
            writer = TokenWriter(folder, self._num_shards)
            yield writer
            writer.flush()
            files.write_text(self._join("sizes.json"), to_json(writer.sizes))
        except BaseException:
            files.Local.rmtree(folder, ignore_errors=True)
            raise

    def read_blocks(self, shard, size):
        """Return the `Block`s of a shard; raise DamagedFile if they do not match `size`."""
        path = self._join("tokens", f"{shard:05d}")
        blocks = []
        with contextlib.suppress(ValueError, FileNotFoundError), open(path, "rb") as reader:
            blocks = Block.read_all(reader.read())
        num_tokens = sum(len(block.ids) for block in blocks)
        num_sentences = sum(len(block.sentences) for block in blocks)
        if [num_tokens, num_sentences] != size[:2]:
            raise DamagedFile(f"{path}: the tokens are damaged; remove {self.path}")
        return blocks


class TokenWriter:
    """Buffered writer of blocks to one file per shard in an empty folder."""

    def __init__(self, folder, num_shards):
        self.sizes = [[0, 0, 0] for _ in range(num_shards)]
        self._folder = folder
        self._blocks = [[] for _ in range(num_shards)]
        self._num_buffered = 0

    def add(self, shard, block):
        size = self.sizes[shard]
        size[0] += len(block.ids)
        size[1] += len(block.sentences)
        size[2] = max(size[2], block.largest_document())
        self._blocks[shard].append(block)
        self._num_buffered += sum(part.nbytes for part in block)
        if self._num_buffered >= _BUFFER_SIZE:
            self.flush()

    def flush(self):
        """Write the buffered blocks; raise UserError if the disk is full."""
        for shard, blocks in enumerate(self._blocks):
            if blocks:
                path = os.path.join(self._folder, f"{shard:05d}")
                with files.naming_errors(f"{path}: cannot be written"), open(path, "ab") as writer:
                    for block in blocks:
                        block.write(writer)
                blocks.clear()
        self._num_buffered = 0


def to_json(value):
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"
