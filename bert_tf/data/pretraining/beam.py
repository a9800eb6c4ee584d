"""Shards made by Apache Beam, on one machine or many: the same files as `Shards.make` makes.

Files are read by one worker each, dealt by their shards, and each shard is made by one worker. All
of them must see the input and the output.
"""

import re

from bert_tf.data.pretraining.corpus import chunks
from bert_tf.errors import UserError


def make(shards, runner, options):
    """Makes the shards that are missing.

    Args:
      shards: `Shards`.
      runner: the name of a Beam runner, as "DirectRunner".
      options: list of Beam's flags, as "--project=mine".

    Returns:
      `Counts` of all shards.

    Raises:
      UserError: without Beam, for flags that it does not know, and as `Shards.make`.
    """
    try:
        import apache_beam as beam
        from apache_beam.options.pipeline_options import PipelineOptions
    except ImportError:
        raise UserError("`runner` wants Apache Beam: pip install 'bert_tf[beam]'") from None
    try:
        options = PipelineOptions(options, runner=runner)
        pipeline = beam.Pipeline(options=options)
    except (ValueError, SystemExit) as error:  # so it takes leave of flags that it cannot read
        raise UserError(f"`runner={runner}`: {error}") from None

    def run():
        missing = shards.missing()
        dealt = (
            pipeline
            | "files" >> beam.Create(range(shards.source.num_files))
            | beam.Reshuffle()
            | "tokenize" >> beam.FlatMap(_Deal(shards, missing))
        )
        # So that a shard without documents is made too.
        all_missing = pipeline | "shards" >> beam.Create([(shard, None) for shard in missing])
        _ = (
            (dealt, all_missing)
            | beam.Flatten()
            | beam.GroupByKey()
            | "make" >> beam.MapTuple(_Make(shards))
        )
        try:
            pipeline.run().wait_until_finish()
        except Exception as error:  # of another class with each runner
            found = of_user(error)
            if not found:
                raise
            raise UserError(found) from None
        shards.check_unchanged()

    return shards.made_by(run)


def of_user(error):
    """The sentence of a worker's `UserError`, which Beam adds to or quotes; None if of another."""
    pattern = r"(?:UserError|DamagedFile): (.+?)(?: \[while running .*)?$"
    found = re.search(pattern, f"{type(error).__name__}: {error}", re.MULTILINE)
    return found and found[1]


class _Deal:
    """The number of a file to pairs of a shard and ((file, chunk), `Block`)."""

    def __init__(self, shards, missing):
        self._shards, self._missing = shards, frozenset(missing)

    def __call__(self, file):
        shards = self._shards
        documents = shards.source.documents_of(file)
        for number, chunk in enumerate(chunks(documents, shards.num_shards)):
            for shard, block in shards.tokenize(chunk):
                if shard in self._missing:
                    yield shard, ((file, number), tuple(block))


class _Make:
    """A shard and its blocks in any order to its file."""

    def __init__(self, shards):
        self._shards = shards

    def __call__(self, shard, found):
        # Beam gives them in any order.
        in_order = sorted(filter(None, found), key=lambda one: one[0])
        self._shards.make_shard(shard, [block for _, block in in_order])
        return shard
