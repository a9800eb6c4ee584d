"""Creation of instances from a corpus of any size, in shards, by several processes or machines.

First all documents are tokenized, and their tokens are written to one file per shard. Then each
shard is created as a separate corpus, with a random generator seeded by the text "SEED/SHARD". The
result depends only on text, configuration and number of shards, and memory only on the size of a
shard.

The shards OUTPUT-00000-of-00004 etc. have their fingerprint in OUTPUT.json and their record counts
in OUTPUT.counts.json. During creation, OUTPUT.work has tokens and counts (see `writing`).
"""

import dataclasses
import functools
import hashlib
import itertools
import json
import os
import random
import re

from bert_tf import console
from bert_tf.data import tfrecord
from bert_tf.data.pretraining import writing
from bert_tf.data.pretraining.corpus import Corpus, iter_chunks, tokenize_chunk
from bert_tf.data.pretraining.instances import create_instances, find_compiled
from bert_tf.data.pretraining.writing import Counts
from bert_tf.errors import UserError, shown
from bert_tf.io import files, json_files, processes
from bert_tf.tokenization.settings import extra_settings

# Bump when the shards change for the same text and configuration.
_VERSION = 2

# Runners that Beam finds only by their full class names.
_RUNNERS = {"DaskRunner": "apache_beam.runners.dask.dask_runner.DaskRunner"}


class Shards:
    """The shards of a source; `path` is the prefix of their file names. `work_dir` is local."""

    def __init__(self, source, path, tokenizer, config, num_shards, work_dir=None):
        self.source, self.config, self.num_shards = source, config, num_shards
        self.vocab = tokenizer.vocab
        by_spaces = config.word_boundaries == "spaces"
        self.tokenize = functools.partial(tokenize_chunk, tokenizer, by_spaces)
        vocab = "\n".join(f"{token}\t{index}" for token, index in self.vocab.items())
        fingerprint = {
            **source.fingerprint(),
            "vocabulary": hashlib.sha256(vocab.encode("utf-8", "surrogatepass")).hexdigest(),
            "do_lower_case": tokenizer.basic_tokenizer.do_lower_case,
            **extra_settings(tokenizer.settings),
            **dataclasses.asdict(config),
            "num_shards": num_shards,
            "version": _VERSION,
        }
        # A JSON round trip, so that it equals a saved fingerprint.
        self._fingerprint = json.loads(json.dumps(fingerprint))
        self._path, self._metadata_path = path, f"{path}.json"
        # A subfolder protects other files in the user's folder.
        folder, name = os.path.split(f"{path}.work")
        folder = folder if work_dir is None else work_dir
        self._work_dir = writing.WorkDir(os.path.join(folder, name), num_shards, self._fingerprint)

    def paths(self):
        count = self.num_shards
        return [f"{self._path}-{shard:05d}-of-{count:05d}" for shard in range(count)]

    def existing(self):
        folder = os.path.dirname(self._path)
        if folder and not files.is_folder(folder):
            return set()
        names = set(files.list_folder(folder))
        return {path for path in self.paths() if os.path.basename(path) in names}

    def create(self, num_processes=1):
        """Create the missing shards, and return and log the `Counts` of all.

        Raises UserError if existing files have a different configuration or input.
        """
        if "://" in self._work_dir.path:
            raise UserError(f"`work_dir`: found {self._work_dir.path}, expected a local folder")
        return self.create_with(lambda: self._create_missing(num_processes))

    def create_with(self, create_missing):
        """Like `create`, but the function `create_missing` creates the missing shards."""
        metadata = self._read_metadata()
        is_complete = self._is_complete(metadata)
        if is_complete:
            console.info("all %d shards exist", self.num_shards)
        else:
            files.check_writable(self._metadata_path, "output_file")
        if not is_complete or files.exists(self._work_dir.path):
            with self._work_dir.locked():
                # Another process may have created them since.
                metadata = self._read_metadata()
                if not self._is_complete(metadata):
                    metadata = self._complete(create_missing)
                self._work_dir.remove()
        counts = [Counts(**shard) for shard in metadata["shards"]]
        paths, numbers = self.paths(), [shard.instances for shard in counts]
        if tfrecord.read_counts(paths, tfrecord.sizes(paths)) != numbers:
            files.remove_partial(self._path)  # and partial side files
            tfrecord.write_counts(dict(zip(paths, numbers, strict=True)))
        console.info("shards: %s to %s", paths[0], os.path.basename(paths[-1]))
        if num_empty := sum(not shard.instances for shard in counts):
            console.warning(
                "%d of %d shards are empty: there are %d documents; use a smaller `num_shards`",
                num_empty, len(counts), sum(shard.documents for shard in counts),
            )  # fmt: skip
        writing.warn_about_limits(counts, self.config)
        total = sum(counts, Counts())
        total.log(self.config)
        return total

    def _is_complete(self, metadata):
        return "shards" in metadata and len(self.existing()) == self.num_shards

    def _complete(self, create_missing):
        metadata = {"made_of": self._fingerprint}
        files.write_text(self._metadata_path, writing.to_json(metadata))
        self._remove_temporary_files()
        existing, missing = self.existing(), set(self.missing())
        for shard, path in enumerate(self.paths()):
            if path in existing:
                problem = ", but has no counts and is created again" if shard in missing else ""
                console.info("%s exists%s", path, problem)
        try:
            create_missing()
        except UserError:
            # Without results there is nothing to resume.
            if not self.existing() and not self._work_dir.read_sizes():
                self._work_dir.remove()
                files.remove(self._metadata_path)
            raise
        self._remove_temporary_files()  # of workers that were lost
        counts = self._work_dir.read_counts()
        total = sum(counts, Counts())
        if not total.instances:
            tfrecord.map_files(files.remove, [*self.paths(), self._metadata_path], "removing")
            self._work_dir.remove()
            writing.check_has_instances(self.source, total.tokens, total.instances)
        metadata["shards"] = [shard._asdict() for shard in counts]
        files.write_text(self._metadata_path, writing.to_json(metadata))
        return metadata

    def missing(self):
        """Return the indices of shards without file or counts, as with an earlier `work_dir`."""
        existing, with_counts = self.existing(), self._work_dir.shards_with_counts()
        pairs = enumerate(self.paths())
        return [i for i, path in pairs if path not in existing or i not in with_counts]

    def check_unchanged(self):
        """Raise UserError if the source has changed since this object was created."""
        if self.source.fingerprint()["input"] != self._fingerprint["input"]:
            raise UserError(f"{self.source.name}: the text changed; remove {self._metadata_path}")

    def _read_metadata(self):
        path = self._metadata_path
        if not files.exists(path):
            if existing := self.existing():
                found = f"found {min(existing)} without {path}, its configuration"
                raise UserError(f"`output_file`: {found}; remove it or choose another name")
            return {"made_of": self._fingerprint}
        try:
            metadata = json_files.read(path, {"made_of": dict}, "create_pretraining_data.py")
        except UserError as error:
            raise UserError(f"`output_file`: {error}") from None
        saved, current = metadata["made_of"], self._fingerprint
        if name := next((name for name in current if saved.get(name) != current[name]), None):
            old, new = saved.get(name), current[name]
            if name == "input" and isinstance(old, list):
                # Only show the first file that differs.
                pairs = itertools.zip_longest(old, new)
                old, new = next(pair for pair in pairs if pair[0] != pair[1])
            raise UserError(
                f"`output_file`: the existing shards were made with {name}={shown(old, 200)}, "
                f"expected {shown(new, 200)}; remove them and {path}, or choose another name"
            )
        return metadata

    def _remove_temporary_files(self):
        folder, prefix = os.path.split(self._path)
        files.remove_temporary(folder, re.escape(prefix) + r"(-\d{5}-of-\d{5}|(\.counts)?\.json)")

    def _create_missing(self, num_processes):
        if self._work_dir.read_sizes():
            console.info("reusing the tokens in %s", self._work_dir.path)
        else:
            self._write_tokens(num_processes)
        sizes, missing = self._work_dir.read_sizes(), self.missing()
        num_tokens = sum(sizes[shard][0] for shard in missing)
        num_tokens //= max(1, min(num_processes, len(missing)))
        find_compiled(num_tokens, self.config)  # before the processes are forked
        thousands = [sizes[shard][0] / 1000 for shard in missing]
        progress = console.ProgressLog("creating shards", "thousand tokens", sum(thousands))
        items = [(shard, sizes[shard], num_tokens) for shard in missing]
        # Remote files are written by TensorFlow, which does not work in a fork.
        fork = "://" not in self._path
        created = processes.map_in_processes(self._create_from_tokens, items, num_processes, fork)
        for count, _ in zip(thousands, created, strict=True):
            progress.add(count)
        progress.done()

    def _write_tokens(self, num_processes):
        with self._work_dir.writing_tokens() as add:
            with console.progress("tokenizing", self.source) as on_progress:
                chunks = iter_chunks(self.source.documents(), self.num_shards, on_progress)
                for blocks in processes.map_in_processes(self.tokenize, chunks, num_processes):
                    for shard, block in blocks:
                        add(shard, block)
            self.check_unchanged()

    def _create_from_tokens(self, item):
        shard, size, num_tokens = item
        self.create_shard(shard, self._work_dir.read_blocks(shard, size[1]), num_tokens)

    def create_shard(self, shard, blocks, num_tokens=None):
        """Create a shard from its `Block`s, in the order of its documents.

        `num_tokens` is the total size of this process's shards, by default the size of this shard.
        """
        vocab, config = self.vocab, self.config
        corpus = Corpus.from_blocks(blocks)
        del blocks
        rng = random.Random(f"{config.random_seed}/{shard}")
        num_tokens = len(corpus.ids) if num_tokens is None else num_tokens
        compiled = find_compiled(num_tokens, config)
        instances = create_instances(corpus, vocab, config, rng, compiled=compiled)
        # The counts are saved before the shard, so that a restart finds both.
        self._work_dir.write_counts(shard, Counts.from_instances(instances, corpus, vocab, config))
        writing.write([self.paths()[shard]], instances, corpus, vocab, config)


def create_with_beam(shards, runner, options):
    """Create the missing `Shards` with an Apache Beam runner; return the `Counts` of all.

    All workers must be able to access the input and the output. `options` is a list of Beam's flags
    such as ["--project=mine"]. Raises UserError if Beam is not installed or rejects a flag.
    """
    try:
        import apache_beam as beam
        from apache_beam.options.pipeline_options import PipelineOptions
    except ImportError:
        raise UserError("`runner` requires Apache Beam: pip install '.[beam]' in a clone") from None
    try:
        options = PipelineOptions(options, runner=_RUNNERS.get(runner, runner))
        pipeline = beam.Pipeline(options=options)
    except (ValueError, SystemExit) as error:  # Beam exits on flags that it cannot parse
        raise UserError(f"`runner={runner}`: {error}") from None

    def create():
        missing = shards.missing()
        blocks = (
            pipeline
            | "files" >> beam.Create(range(shards.source.num_files))
            | beam.Reshuffle()
            | "tokenize" >> beam.FlatMap(_tokenize_file, shards, frozenset(missing))
        )
        # Shards without documents are created too.
        all_missing = pipeline | "shards" >> beam.Create([(shard, None) for shard in missing])
        _ = (
            (blocks, all_missing)
            | beam.Flatten()
            | beam.GroupByKey()
            | "make" >> beam.Map(_create_grouped, shards)
        )
        try:
            console.info(
                "creating %d shards with %s, after all texts are tokenized", len(missing), runner
            )
            pipeline.run().wait_until_finish()
        except Exception as error:  # its class depends on the runner
            # Beam wraps the `UserError` of a worker.
            pattern = r"(?:UserError|DamagedFile): (.+?)(?: \[while running .*)?$"
            match = re.search(pattern, f"{type(error).__name__}: {error}", re.MULTILINE)
            message = match and match[1]
            if type(error).__name__ == "KilledWorker":  # of Dask
                message = (
                    "several workers that processed the same part were lost; run the command "
                    "again, which keeps the complete shards"
                )
            if not message:
                raise
            raise UserError(message) from None
        shards.check_unchanged()

    return shards.create_with(create)


def _tokenize_file(file, shards, missing):
    """Yield (shard, ((file, chunk), `Block`)) for missing shards."""
    for number, chunk in enumerate(iter_chunks(shards.source.documents([file]), shards.num_shards)):
        for shard, block in shards.tokenize(chunk):
            if shard in missing:
                yield shard, ((file, number), tuple(block))


def _create_grouped(shard_and_values, shards):
    """Create a shard; its blocks arrive in any order."""
    shard, values = shard_and_values
    blocks = sorted(filter(None, values), key=lambda value: value[0])
    shards.create_shard(shard, [block for _, block in blocks])
