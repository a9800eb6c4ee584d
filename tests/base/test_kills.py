"""Scripts that are killed at random times and restarted until they finish.

The result must equal the result of an undisturbed run, and no partial files may remain. The times
depend on a seed. BERT_TF_TEST_KILLS multiplies the number of kills:

    BERT_TF_TEST_SEED=7 BERT_TF_TEST_KILLS=2 pytest -m slow tests/base/test_kills.py
"""

import os
import pathlib
import random
import re
import select
import signal
import time

import numpy as np
import pytest
import tensorflow as tf

from bert_tf import checkpoints
from bert_tf.data import tfrecord
from bert_tf.modeling import BertPretrainer
from tests import fork_server
from tests.common import QUICK_RUN, digests, read_tensors, tiny, write_model
from tests.data.pretraining_helpers import TOKENS, random_text, write_records

SEED = int(os.environ.get("BERT_TF_TEST_SEED") or random.SystemRandom().randrange(2**32))
FACTOR = float(os.environ.get("BERT_TF_TEST_KILLS") or 1)
pytestmark = pytest.mark.slow


class Killer:
    """Runs scripts in forks and kills them, see `fork_server`; their output is in `log`."""

    def __init__(self, root, folder, **environment):
        self.root, self.folder, self.log = root, folder, folder / "log"
        self.address = str(folder / "server")
        self.environment = {**os.environ, "PYTHONPATH": str(root), "TF_CPP_MIN_LOG_LEVEL": "3"}
        self.environment |= environment

    def run(self, script, arguments, seconds=None, operation=0):
        """Run a script, killed after some seconds or before a file system operation.

        Returns:
          The exit status (negative if killed), the elapsed seconds and the number of operations.
        """
        words = ["-m", "bert_tf", *script.split()[1:]]
        if not script.startswith("bert-tf "):
            words = [str(self.root / f"{script}.py")]
        environment = {**self.environment, "BERT_TF_TEST_KILL": str(operation)}
        start = time.monotonic()
        with open(self.log, "a") as log, open(os.devnull) as null:
            files = [null.fileno(), log.fileno(), log.fileno()]
            process, connection = fork_server.start(
                self.address, [*words, *arguments], self.folder, environment, files
            )
        if seconds is not None and not select.select([connection], [], [], seconds)[0]:
            os.kill(process, signal.SIGKILL)
        status, operations = fork_server.wait(connection)
        return status, time.monotonic() - start, operations


@pytest.fixture(scope="module")
def killer(root, tmp_path_factory):
    killer = Killer(root, tmp_path_factory.mktemp("killer"))
    with fork_server.serving(killer.address, killer.environment):
        yield killer


def check_kills(killer, number, script, arguments, check, folder, is_done=lambda output: False):
    """Kill a script `number` times. Each run is killed up to 5 times and then completed.

    Args:
      killer: a `Killer`.
      number: number of kills, before `FACTOR`.
      script: name of the script.
      arguments: its arguments, in which OUT is the output folder.
      check: function that compares the output folders of the undisturbed run and a killed run.
      folder: folder for all output.
      is_done: function that returns whether an output is complete and the script must not rerun.
    """
    rng, kills, runs, number = random.Random(f"{SEED}/{script}"), 0, 0, round(number * FACTOR)
    print(f"BERT_TF_TEST_SEED={SEED}")

    def run(output, **kill):
        done = killer.run(script, [x.replace("OUT", str(output)) for x in arguments], **kill)
        allowed = (0, -signal.SIGKILL) if kill else (0,)
        assert done[0] in allowed, f"run {runs}, {kill}: {killer.log.read_text()[-3000:]}"
        return done

    whole = folder / "whole"
    _, seconds, operations = run(whole)
    while kills < number:
        runs += 1
        output = folder / str(runs)
        for _ in range(rng.randint(1, min(5, number - kills))):
            if rng.random() < 0.5:
                kill = {"operation": rng.randint(1, operations)}
            else:
                kill = {"seconds": rng.uniform(0, seconds)}
            kills += run(output, **kill)[0] != 0
            if is_done(output):
                break
        else:
            run(output)
        check(whole, output)
    print(f"{script}: {kills} kills, {runs} completed runs")


def contents(folder):
    """Return the `digests` of files, without lock files and TensorBoard events."""
    return {x: y for x, y in digests(folder).items() if not re.search(r"\.lock|events\.out", x)}


def check_same_files(whole, output):
    assert contents(output) == contents(whole)


SAVE = """
import os, sys
from bert_tf.io import files
text, folder = sys.argv[1:]
files.remove_partial(folder)
check = lambda folder: files.check_replaceable(folder, r"(bert_config.json|vocab.txt)", "folder")
with files.replacing(folder, check_folder=check) as (temporary,):
    for name in ("bert_config.json", "vocab.txt"):
        files.write_text(os.path.join(temporary, name), text)
"""


def test_replacing_a_preset(killer, tmp_path):
    """Before each operation, either the old or the new preset is complete."""
    folder, found = tmp_path / "work" / "preset", set()
    (tmp_path / "save.py").write_text(SAVE)

    def save(text, operation=0):
        return killer.run(str(tmp_path / "save"), [text, str(folder)], operation=operation)

    save("old")
    for operation in range(1, 1 + save("old")[2]):
        assert save("new", operation)[0] < 0
        first, second = (path.read_text() for path in folder.iterdir())
        assert first == second
        found.add(first)
        assert save("old")[0] == 0, killer.log.read_text()
        assert [path.name for path in folder.parent.iterdir()] == ["preset"]
    assert found == {"old", "new"}


def check_run(whole, output):
    """Compare the folders of training runs of 20 steps."""
    assert contents(output).keys() == contents(whole).keys()
    for name in ("model.ckpt-20", "best"):
        expected, found = read_tensors(whole / name), read_tensors(output / name)
        assert expected.keys() == found.keys()
        for tensor in expected:
            np.testing.assert_array_equal(found[tensor], expected[tensor], err_msg=tensor)
    for name in ("eval_results.txt", "test_results.tsv", "best/best.json"):
        if (whole / name).exists():
            assert (output / name).read_text() == (whole / name).read_text()


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """A folder with text, tables, records, and a model with its weights at the prefix `model`."""
    folder = tmp_path_factory.mktemp("inputs")
    (folder / "text.txt").write_text(random_text(random.Random(1), 300))
    (folder / "tokens.txt").write_text("\n".join(TOKENS))
    rows = "".join(f"{'a b' if i % 2 else 'c d'} {'abcdefgh'[i % 8]}\t{i % 2}\n" for i in range(40))
    for split in ("train", "dev", "test"):
        (folder / f"{split}.tsv").write_text(f"text\tlabel\n{rows}")
    write_records(folder / "x.tfrecord", 40)
    tfrecord.write_counts({str(folder / "x.tfrecord"): 40})  # else a resumed run counts them
    config = tiny(num_hidden_layers=1, hidden_dropout_prob=0.1)
    write_model(folder, config, hidden_dropout_prob=0.1)
    weights = checkpoints.weights(BertPretrainer(config))
    checkpoints.write(str(folder / "model"), {name: x.numpy() for name, x in weights.items()})
    return folder


MODEL = "--vocab_file=IN/vocab.txt --bert_config_file=IN/config.json "
DATA = "--input_file=IN/text.txt --vocab_file=IN/tokens.txt --dupe_factor=2 --max_seq_length=32 "
TRAIN = f"{MODEL}--output_dir=OUT --do_train --do_eval --save_checkpoints_steps=3 --eval_steps=8 "
CONVERT = f"{MODEL}--input=IN/model --output_dir=OUT "

# Script, number of kills, arguments, comparison.
SCRIPTS = {
    "data": ("create_pretraining_data", 70, f"{DATA}--output_file=OUT/x,OUT/y", check_same_files),
    "shards": ("create_pretraining_data", 70,
               f"{DATA}--output_file=OUT/x --num_shards=3 --num_processes=2", check_same_files),
    "vocabulary": ("bert-tf vocab learn", 30, "--input_file=IN/text.txt "
                   "--vocab_file=OUT/vocab.txt --vocab_size=150 --num_unused=2", check_same_files),
    "pre-training": ("run_pretraining", 20, f"{TRAIN}--input_file=IN/x.tfrecord "
                     "--num_train_steps=20 --num_warmup_steps=4 --max_predictions_per_seq=2 "
                     "--max_eval_steps=2 --best_metric=masked_lm_loss", check_run),
    "fine-tuning": ("run_classifier", 30, f"{TRAIN}--data_dir=IN --task_name=tsv --do_predict "
                    "--num_train_epochs=2 --best_metric=eval_loss", check_run),
    "release": ("bert-tf convert", 30, f"{CONVERT}--format=release", check_same_files),
    "hugging_face": ("bert-tf convert", 30, f"{CONVERT}--format=hugging_face", check_same_files),
}  # fmt: skip


def arguments_of(name, inputs):
    script, _, arguments, _ = SCRIPTS[name]
    arguments = arguments.replace("IN/", f"{inputs}/").replace("=IN ", f"={inputs} ").split()
    return [*arguments, *(QUICK_RUN if script.startswith("run_") else [])]


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts(killer, inputs, tmp_path, name):
    script, number, _, check = SCRIPTS[name]
    arguments = arguments_of(name, inputs)
    # This command does not write into an existing folder.
    is_done = (pathlib.Path.exists,) if script == "bert-tf convert" else ()
    check_kills(killer, number, script, arguments, check, tmp_path / "out", *is_done)


@pytest.mark.parametrize("name", ["fine-tuning", "pre-training"])
def test_training_on_jax(root, inputs, tmp_path, name):
    pytest.importorskip("jax")
    cache = str(tmp_path / "cache")
    killer = Killer(root, tmp_path, KERAS_BACKEND="jax", JAX_COMPILATION_CACHE_DIR=cache)
    arguments = [x for x in arguments_of(name, inputs) if "distribution" not in x]
    with fork_server.serving(killer.address, killer.environment):
        check_kills(killer, 10, SCRIPTS[name][0], arguments, check_run, tmp_path / "out")


def sizes(version):
    """Return the sorted shapes of the variables of a SavedModel."""
    reader = tf.train.load_checkpoint(str(version / "variables" / "variables"))
    return sorted(map(tuple, reader.get_variable_to_shape_map().values()))


def answers(version):
    signature = tf.saved_model.load(str(version)).signatures["serving_default"]
    inputs = {name: [[2, 5, 3]] for name in ("input_ids", "input_mask", "segment_ids")}
    inputs["segment_ids"] = [[0, 0, 0]]
    outputs = signature(**{name: tf.constant(x, tf.int32) for name, x in inputs.items()})
    return outputs["pooled_output"].numpy()


def test_export(killer, inputs, tmp_path):
    def check(whole, output):
        """Compare each exported version; a run killed after the rename has exported two."""
        expected, found = contents(whole), contents(output)
        versions = sorted({name.partition("/")[0] for name in found if "/" in name})
        assert set(versions) <= set("123456")
        for version in versions:
            files = {x.partition("/")[2]: y for x, y in found.items() if x.startswith(version)}
            assert {f"1/{name}" for name in files} == {x for x in expected if "/" in x}
            for name in files:
                # The order of the graph and the index varies.
                if not name.endswith((".pb", ".index")) and ".data-" not in name:
                    assert files[name] == expected[f"1/{name}"], name
            assert sizes(output / version) == sizes(whole / "1")
        assert {x for x in found if "/" not in x} == {"batching_parameters.txt", "README.md"}
        np.testing.assert_array_equal(answers(output / versions[-1]), answers(whole / "1"))

    arguments = f"{MODEL}--task=encoder --init_checkpoint=IN/model --max_seq_length=8 --inputs=ids"
    arguments = [*arguments.replace("IN/", f"{inputs}/").split(), "--export_dir=OUT"]
    check_kills(killer, 40, "export_model", arguments, check, tmp_path / "out")
