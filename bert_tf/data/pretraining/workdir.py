"""The folder that shards are made in: the tokens of each, and what was counted of it.

In it `made_of.json` says what all of it is made of: of anything else nothing is used again.
`sizes.json` is there once all tokens are.
"""

import contextlib
import errno
import json
import os
import re

from bert_tf import console, files
from bert_tf.data.pretraining.corpus import Block
from bert_tf.data.pretraining.writing import Counts
from bert_tf.errors import DamagedFile, UserError

# Bytes of tokens to hold back before they are written.
_HELD_BACK = 16_000_000

# What a run may leave that was killed before it wrote its first note.
_OF_NOBODY = re.compile(r"\.lock|made_of\.json\.tmp-\d+")


class Work:
    """A work folder.

    Attributes:
      path: where it is. Tokens are local; counts may be on any file system.
    """

    def __init__(self, path, num_shards, made_of):
        """Takes where it is and what it is for.

        Args:
          path: the folder, which is made and removed here.
          num_shards: how many shards there are.
          made_of: what they are made of, as JSON has it.
        """
        self.path = path
        self._num_shards, self._made_of = num_shards, made_of

    def exists(self):
        """Whether the folder is there."""
        return files.system(self.path).exists(self.path)

    @contextlib.contextmanager
    def held(self):
        """Holds the folder for this process; what is there of other text or settings goes.

        Raises:
          UserError: if another process holds it, or the folder is not one of these.
        """
        with files.locked(self.path, "output_file", "makes shards"):
            note = self._at("made_of.json")
            system = files.system(self.path)
            if system.exists(note):
                is_same = files.read_text(note) == as_text(self._made_of)
            elif all(map(_OF_NOBODY.fullmatch, system.listdir(self.path))):
                is_same = False
            else:
                raise UserError(
                    f"`work_dir`: {self.path} is there and was not made by this program (it has no "
                    "made_of.json); remove it or name another folder"
                )
            if not is_same:
                self._clear()
                files.write_text(note, as_text(self._made_of))
            yield

    def remove(self):
        """Removes the folder, which must be held."""
        self._clear()
        system = files.system(self.path)
        # The lock last: from then on another process may be in there.
        for path in map(self._at, ("made_of.json", ".lock")):
            if system.exists(path):
                system.remove(path)
        if system is not files.Local:
            system.rmtree(self.path)
            return
        try:
            os.rmdir(self.path)
        except OSError as error:
            if error.errno != errno.ENOTEMPTY:
                raise

    def _clear(self):
        """Removes all but lock and note; sizes first, without which no tokens are used."""
        system = files.system(self.path)
        names = set(system.listdir(self.path)) - {".lock", "made_of.json"}
        for name in sorted(names, key=lambda name: name != "sizes.json"):
            path = self._at(name)
            (system.rmtree if system.isdir(path) else system.remove)(path)

    def _at(self, *names):
        return os.path.join(self.path, *names)

    def write_counts(self, shard, counts):
        """Keeps the `Counts` of a shard."""
        files.write_text(self._counts_path(shard), as_text(counts._asdict()))

    def counts(self, shard):
        """Those that are kept, or None."""
        path = self._counts_path(shard)
        if not files.system(path).exists(path):
            return None
        return Counts(**json.loads(files.read_text(path)))

    def _counts_path(self, shard):
        return self._at(f"{shard:05d}.json")

    def sizes(self):
        """For each shard its tokens, sentences and tokens of its largest document.

        None if not all tokens are there.
        """
        path = self._at("sizes.json")
        if not os.path.exists(path):
            return None
        console.info("the tokens in %s are used again", self.path)
        return json.loads(files.read_text(path))

    @contextlib.contextmanager
    def dealing(self):
        """Yields a `Dealer`; its tokens are there if the block succeeds."""
        tokens = self._at("tokens")
        if os.path.exists(tokens):
            files.Local.rmtree(tokens)
        files.make_folder(tokens)
        dealer = Dealer(tokens, self._num_shards)
        yield dealer
        dealer.flush()
        for name in os.listdir(tokens):
            with open(os.path.join(tokens, name), "r+b") as written:
                os.fsync(written.fileno())
        files.write_text(self._at("sizes.json"), as_text(dealer.sizes))

    def blocks(self, shard, size):
        """The `Block`s of a shard, whose size is given; DamagedFile if they are not those."""
        path = self._at("tokens", f"{shard:05d}")
        blocks = []
        with contextlib.suppress(DamagedFile, FileNotFoundError), open(path, "rb") as reader:
            blocks = Block.read_all(path, reader)
        found = [sum(len(block.ids) for block in blocks)]
        found.append(sum(len(block.sentences) for block in blocks))
        if found != size[:2]:
            raise DamagedFile(f"{path}: not the tokens that were written; remove {self.path}")
        return blocks


class Dealer:
    """Appends blocks to the files of many shards, some megabytes at a time.

    Attributes:
      sizes: as `Work.sizes`.
    """

    def __init__(self, folder, num_shards):
        """Takes an empty folder for the files."""
        self.sizes = [[0, 0, 0] for _ in range(num_shards)]
        self._folder = folder
        self._blocks = [[] for _ in range(num_shards)]
        self._held = 0

    def add(self, shard, block):
        """Appends a `Block` to a shard."""
        size = self.sizes[shard]
        size[0] += len(block.ids)
        size[1] += len(block.sentences)
        size[2] = max(size[2], block.largest())
        self._blocks[shard].append(block)
        self._held += sum(part.nbytes for part in block)
        if self._held >= _HELD_BACK:
            self.flush()

    def flush(self):
        """Writes what is held back."""
        for shard, blocks in enumerate(self._blocks):
            if blocks:
                with open(os.path.join(self._folder, f"{shard:05d}"), "ab") as writer:
                    for block in blocks:
                        block.write(writer)
                blocks.clear()
        self._held = 0


def as_text(value):
    """JSON that people can read."""
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"
