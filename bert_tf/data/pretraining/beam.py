"""Creation of shards with Apache Beam on any number of machines, as in `Shards.create`."""

import contextlib
import re
import threading

from bert_tf import console
from bert_tf.data.pretraining.corpus import iter_chunks
from bert_tf.errors import UserError

# Runners whose names Beam does not know.
_RUNNERS = {"DaskRunner": "apache_beam.runners.dask.dask_runner.DaskRunner"}


def create_shards(shards, runner, options):
    """Create the missing `Shards` with a Beam runner; return the `Counts` of all.

    All workers must be able to access the input and the output. `options` is a list of Beam's flags
    such as ["--project=mine"]. Raises UserError if Beam is not installed or rejects a flag.
    """
    try:
        import apache_beam as beam
        from apache_beam.options.pipeline_options import PipelineOptions
    except ImportError:
        raise UserError("`runner` requires Apache Beam: pip install 'bert_tf[beam]'") from None
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
            | "make" >> beam.Map(_create_shard, shards)
        )
        try:
            with _progress(shards, len(missing), runner):
                pipeline.run().wait_until_finish()
        except Exception as error:  # its class depends on the runner
            message = extract_user_error(error)
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


@contextlib.contextmanager
def _progress(shards, num_missing, runner):
    console.info("creating %d shards with %s, after all texts are tokenized", num_missing, runner)
    finished = threading.Event()
    progress = console.ProgressLog("creating", "shards", shards.num_shards, len(shards.existing()))

    def watch():
        while not finished.wait(console.SECONDS_PER_LINE):
            if created := len(shards.existing()) - progress.count:
                progress.add(created)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        finished.set()
        thread.join()


def extract_user_error(error):
    """Return the message of a worker's `UserError`, which Beam wraps, or None."""
    pattern = r"(?:UserError|DamagedFile): (.+?)(?: \[while running .*)?$"
    match = re.search(pattern, f"{type(error).__name__}: {error}", re.MULTILINE)
    return match and match[1]


def _tokenize_file(file, shards, missing):
    """Yield (shard, ((file, chunk), `Block`)) for missing shards."""
    documents = shards.source.read_documents(file)
    for number, chunk in enumerate(iter_chunks(documents, shards.num_shards)):
        for shard, block in shards.tokenize(chunk):
            if shard in missing:
                yield shard, ((file, number), tuple(block))


def _create_shard(shard_and_values, shards):
    """Create a shard; its blocks arrive in any order."""
    shard, values = shard_and_values
    blocks = sorted(filter(None, values), key=lambda value: value[0])
    shards.create_shard(shard, [block for _, block in blocks])
