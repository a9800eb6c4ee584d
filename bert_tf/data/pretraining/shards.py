"""A corpus of any size in shards, each made by itself: by many processes, and one after a restart.

Document d of file f belongs to shard (f + d) mod `num_shards`. First all documents are tokenized
and dealt to a file of tokens for each shard, then each shard is made of its file as if it were a
whole corpus, by a generator of its own, which is seeded by the text "SEED/SHARD". So what is made
depends on text, settings and the number of shards alone, and what is held in memory on the size of
a shard.

Beside OUTPUT-00000-of-00004 and so on lies OUTPUT.json, which says what they are made of; while
they are made, OUTPUT.work holds the tokens and what was counted (`work`).
"""

import hashlib
import itertools
import json
import os
import random
import re

from bert_tf import console, files, processes
from bert_tf.data.pretraining.corpus import Corpus, Tokenize, chunks
from bert_tf.data.pretraining.in_memory import check_instances, check_text
from bert_tf.data.pretraining.instances import create_instances
from bert_tf.data.pretraining.workdir import Work, as_text
from bert_tf.data.pretraining.writing import Counts, warn_of_limits, write
from bert_tf.errors import UserError

# To be raised when the same text and settings make other shards.
_VERSION = 2

# What a process holds apart from its shard, and for each token, sentence and instance of that; all
# of it measured, see benchmarks/RESULTS.md.
_PROCESS_MB = 130
_TOKEN, _SENTENCE, _INSTANCE, _MASK = 8, 12, 80, 12


def seeded(settings, shard):
    """The random generator of a shard."""
    return random.Random(f"{settings.random_seed}/{shard}")


def shard_path(path, shard, num_shards):
    """The name of a shard's file."""
    return f"{path}-{shard:05d}-of-{num_shards:05d}"


class Shards:
    """The shards of a source; `make` makes those that are missing.

    Attributes:
      source, settings, num_shards, vocab: what they are made of.
      tokenize: the function for chunks of its documents.
    """

    def __init__(self, source, path, tokenizer, settings, num_shards, work_dir=None):
        """Takes what the shards are made of.

        Args:
          source: one of `sources`.
          path: what their names begin with.
          tokenizer: a `FullTokenizer`.
          settings: `Settings`.
          num_shards: how many there are.
          work_dir: a local folder for tokens, in which one of our own is made and removed; None for
            that of `path`.
        """
        self.source, self.settings, self.num_shards = source, settings, num_shards
        self.vocab = tokenizer.vocab
        self.tokenize = Tokenize(tokenizer, settings.word_boundaries == "spaces")
        vocab = "\n".join(f"{piece}\t{index}" for piece, index in tokenizer.vocab.items())
        made_of = {
            "input": source.made_of(),
            **source.settings(),
            "vocabulary": hashlib.sha256(vocab.encode("utf-8", "surrogatepass")).hexdigest(),
            "do_lower_case": tokenizer.basic_tokenizer.do_lower_case,
            **settings._asdict(),
            "num_shards": num_shards,
            "version": _VERSION,
        }
        # As it is when it is read again.
        self._made_of = json.loads(json.dumps(made_of))
        self._path = path
        # A folder of our own: what else is in one that the user names must stay.
        folder = os.path.dirname(path) if work_dir is None else work_dir
        name = f"{os.path.basename(path)}.work"
        self._work = Work(os.path.join(folder, name), num_shards, self._made_of)

    def paths(self):
        """The files of all shards."""
        return [shard_path(self._path, i, self.num_shards) for i in range(self.num_shards)]

    def make(self, num_processes=1, max_memory_mb=0):
        """Makes the shards that are missing and prints the table of all.

        Args:
          num_processes: how many to tokenize and make shards by.
          max_memory_mb: what all processes may hold together; 0 for any.

        Returns:
          `Counts` of all shards.

        Raises:
          UserError: if the files there are of other settings or input, the source cannot be read,
            or a shard needs more memory.
        """
        if "://" in self._work.path:
            raise UserError(
                f"`work_dir` must be a local folder for the tokens, not {self._work.path}"
            )

        def make():
            sizes = self._deal(num_processes)
            self._check_memory(sizes, num_processes, max_memory_mb)
            self._make_missing(sizes, num_processes)

        return self.made_by(make)

    def made_by(self, make):
        """Has `make` make the shards that are missing, and what was counted of each.

        Returns: as `make`.
        """
        note = self._check_note()
        is_done = self._is_done(note)
        if is_done:
            console.info("all %d shards are there already", self.num_shards)
        if not is_done or self._work.exists():
            with self._work.held():
                # Another process may have made them since.
                note = self._check_note()
                if not self._is_done(note):
                    note = self._make_rest(note, make)
                self._work.remove()
        counts = [Counts(**found) for found in note["shards"]]
        warn_of_limits(counts, self.settings)
        total = sum(counts, Counts())
        total.tell(self.settings)
        return total

    def _is_done(self, note):
        system = files.system(self._path)
        return "shards" in note and all(map(system.exists, self.paths()))

    def _make_rest(self, note, make):
        """Has `make` make what is missing; returns the note of all."""
        files.make_folder(os.path.dirname(self._path))
        self._clear_left_overs()
        files.write_text(self._note_path, as_text(note))
        for shard, path in enumerate(self.paths()):
            if not files.system(path).exists(path):
                continue
            if "shards" in note:
                self._work.write_counts(shard, Counts(**note["shards"][shard]))
            if self._work.counts(shard):
                console.info("%s is there already", path)
            else:
                console.info("%s is there, but not what was counted of it: it is made again", path)
        make()
        counts = list(map(self._work.counts, range(self.num_shards)))
        total = sum(counts, Counts())
        if not total.instances:
            for path in [*self.paths(), self._note_path]:
                files.system(path).remove(path)
            self._work.remove()
            check_text(self.source, total.tokens)
            check_instances(self.source, total.instances)
        note = {"made_of": self._made_of, "shards": [found._asdict() for found in counts]}
        files.write_text(self._note_path, as_text(note))
        return note

    def missing(self):
        """The numbers of the shards that are not there, or of which it is not known what they are.

        What was counted of a shard may lie in the work folder of another `work_dir`.
        """
        return [
            shard
            for shard, path in enumerate(self.paths())
            if not (files.system(path).exists(path) and self._work.counts(shard))
        ]

    def check_unchanged(self):
        """UserError if the source is not what it was before it was read."""
        if self.source.made_of() != self._made_of["input"]:
            raise UserError(
                f"{self.source.name}: changed while it was read; remove "
                f"{self._note_path} and start again"
            )

    @property
    def _note_path(self):
        return f"{self._path}.json"

    def _check_note(self):
        """The note of the shards there, a new one if there are none; UserError if of others."""
        system = files.system(self._path)
        there = [path for path in self.paths() if system.exists(path)]
        path = self._note_path
        if not system.exists(path):
            if there:
                raise UserError(
                    f"`output_file`: {there[0]} is there, and no {path} says what it is made of; "
                    "remove it or name another file"
                )
            return {"made_of": self._made_of}
        try:
            note = json.loads(files.read_text(path))
            made_of = dict(note["made_of"])
        except (ValueError, KeyError, TypeError):
            raise UserError(f"`output_file`: {path} is not a note of this program") from None
        now = self._made_of
        changed = [name for name in now if made_of.get(name) != now[name]]
        if changed:
            name = changed[0]
            was, wanted = made_of.get(name), now[name]
            if name == "input" and isinstance(was, list):
                # The first file that is another, and not the beginning of a long list.
                pairs = itertools.zip_longest(was, wanted)
                was, wanted = next(pair for pair in pairs if pair[0] != pair[1])
            was, wanted = (json.dumps(x)[-60:] for x in (was, wanted))
            raise UserError(
                f"`output_file`: {path} says that the shards there are of {name} {was}, not "
                f"{wanted}; remove it and them, or name another file"
            )
        return note

    def _clear_left_overs(self):
        """Removes what a run that was killed was writing."""
        folder, start = os.path.split(self._path)
        system = files.system(folder)
        names = re.compile(re.escape(start) + r"(-\d{5}-of-\d{5}|\.json)\.tmp-\d+")
        for name in filter(names.fullmatch, system.listdir(folder or ".")):
            system.remove(os.path.join(folder, name))

    def _deal(self, num_processes):
        """Has the tokens of each shard in the work folder; returns their sizes."""
        sizes = self._work.sizes()
        if sizes:
            return sizes
        with self._work.dealing() as dealer:
            with console.progress("tokenizing", self.source) as told:
                dealt = chunks(self.source.documents(), self.num_shards, told)
                for blocks in processes.shared_map(self.tokenize, dealt, num_processes):
                    for shard, block in blocks:
                        dealer.add(shard, block)
            self.check_unchanged()
        return dealer.sizes

    def _check_memory(self, sizes, num_processes, max_memory_mb):
        """UserError if the shards need more memory than is allowed."""
        each = max(self._needs_mb(tokens, sentences) for tokens, sentences, _ in sizes)
        # One more reads and waits.
        needed = num_processes * (_PROCESS_MB + each) + (_PROCESS_MB if num_processes > 1 else 0)
        console.info(
            "the largest of %d shards takes about %.0f MB, all processes together %.0f MB",
            self.num_shards, each, needed,
        )  # fmt: skip
        if not max_memory_mb or needed <= max_memory_mb:
            return
        left = max_memory_mb - _PROCESS_MB * (num_processes + (num_processes > 1))
        largest = max(size[2] for size in sizes)
        if left <= 0:
            advice = "that is not enough without any shard"
        elif num_processes * self._needs_mb(largest, 1) > left:
            # No number of shards cuts it.
            advice = (
                f"one document of {largest:,} tokens is too large for it, whatever `num_shards` is "
                "(blank lines separate documents)"
            )
        else:
            # As if they were dealt evenly.
            enough = int(self.num_shards * each * num_processes / left * 1.2) + 1
            advice = f"`num_shards={enough}` is about enough (with {self._note_path} removed)"
        raise UserError(
            f"`max_memory_mb={max_memory_mb}` is not enough for {self.num_shards} shards in "
            f"{num_processes} processes, which take about {needed:.0f} MB; {advice}"
        )

    def _needs_mb(self, tokens, sentences):
        settings = self.settings
        # Random next sentences and ends of documents leave instances that are not full.
        instances = settings.dupe_factor * (1.6 * tokens / settings.max_seq_length + 1)
        masks = 0 if settings.dynamic_masking else settings.max_predictions_per_seq
        each = _INSTANCE + _MASK * min(masks, settings.wanted(settings.max_seq_length))
        return (tokens * _TOKEN + sentences * _SENTENCE + instances * each) / 1e6

    def _make_missing(self, sizes, num_processes):
        missing = self.missing()
        thousands = [sizes[shard][0] / 1000 for shard in missing]
        ticker = console.Ticker("making shards", "thousand tokens", sum(thousands))
        # Who writes to other file systems does it by TensorFlow, which a fork may not use.
        made = processes.shared_map(
            self._make_of_tokens,
            [(shard, sizes[shard]) for shard in missing],
            num_processes,
            fork="://" not in self._path,
        )
        for count, _ in zip(thousands, made, strict=True):
            ticker.add(count)
        ticker.done()

    def _make_of_tokens(self, shard_and_size):
        self.make_shard(shard_and_size[0], self._work.blocks(*shard_and_size))

    def make_shard(self, shard, blocks):
        """Makes a shard of its `Block`s, in the order of its documents."""
        vocab, settings = self.vocab, self.settings
        corpus = Corpus.of(blocks)
        del blocks
        made = create_instances(corpus, vocab, settings, seeded(settings, shard))
        # What was counted is there before the shard is, so that a restart has it.
        self._work.write_counts(shard, Counts.of(made, corpus, vocab, settings))
        write([self.paths()[shard]], made, corpus, vocab, settings)
