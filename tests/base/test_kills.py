"""Scripts that are killed at random times and restarted until they finish.

The result must equal the result of an undisturbed run, and no partial files may remain. The times
depend on a seed. BERT_TF_TEST_KILLS multiplies the number of kills:

    BERT_TF_TEST_SEED=7 BERT_TF_TEST_KILLS=2 pytest -m slow tests/base/test_kills.py
"""

import hashlib
import http.server
import io
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import threading
import time
import zipfile

import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf import checkpoints
from bert_tf.data import record_files
from bert_tf.modeling import BertPretrainer
from tests.common import QUICK_RUN, TINY, WORDS, tiny, write_model
from tests.data.pretraining_helpers import TOKENS, random_text, write_records
from tests.pipelines.conftest import write_release_folder

SEED = int(os.environ.get("BERT_TF_TEST_SEED") or random.SystemRandom().randrange(2**32))
FACTOR = float(os.environ.get("BERT_TF_TEST_KILLS") or 1)
NAME = "uncased_L-2_H-128_A-2"

pytestmark = pytest.mark.slow


class Killer:
    """Runs scripts in forks and kills them, see `forks_to_kill`."""

    def __init__(self, folder):
        program = pathlib.Path(__file__).with_name("forks_to_kill.py")
        self.log = str(folder / "log")
        self._process = subprocess.Popen(
            [sys.executable, str(program)],
            cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._process.stdout.readline() == "ready\n"

    def run(self, script, arguments, **kill):
        """Return the results of `forks_to_kill.run_and_kill`."""
        call = {"script": script, "arguments": list(map(str, arguments)), "log": self.log, **kill}
        print(json.dumps(call), file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())

    def stop(self):
        self._process.stdin.close()
        self._process.wait(60)


@pytest.fixture(scope="module")
def killer(tmp_path_factory):
    killer = Killer(tmp_path_factory.mktemp("killer"))
    yield killer
    killer.stop()


def check_kills(
    killer, number, script, make_arguments, check, folder, is_done=lambda output: False
):
    """Kill a script `number` times. Each run is killed up to 5 times and then completed.

    Args:
      killer: a `Killer`.
      number: number of kills.
      script: name of the script.
      make_arguments: function from the output folder to the arguments.
      check: function that compares the output folders of the undisturbed run and a killed run.
      folder: folder for all output.
      is_done: function that returns whether an output is complete and the script must not rerun.
    """
    rng, kills, runs = random.Random(f"{SEED}/{script}"), 0, 0
    print(f"BERT_TF_TEST_SEED={SEED}")
    whole = folder / "whole"
    undisturbed = killer.run(script, make_arguments(whole))
    assert undisturbed["status"] == 0, log(killer)
    while kills < number:
        runs += 1
        output = folder / str(runs)
        for _ in range(rng.randint(1, min(5, number - kills))):
            if rng.random() < 0.5:
                kill = {"operation": rng.randint(1, undisturbed["operations"])}
            else:
                kill = {"seconds": rng.uniform(0, undisturbed["seconds"])}
            status = killer.run(script, make_arguments(output), **kill)["status"]
            assert status in (0, -signal.SIGKILL), f"run {runs}, {kill}: {log(killer)}"
            kills += status != 0
            if is_done(output):
                break
        else:
            last = killer.run(script, make_arguments(output))
            assert last["status"] == 0, f"run {runs}: {log(killer)}"
        check(whole, output)
    print(f"{script}: {kills} kills, {runs} completed runs")


def log(killer):
    return pathlib.Path(killer.log).read_text()[-3000:]


def contents(folder):
    """Return a dict from file path to digest, without lock files and TensorBoard events."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file() and path.name != ".lock" and not path.name.startswith("events.out.")
    }  # fmt: skip


def check_same_files(whole, output):
    assert contents(output) == contents(whole)


@pytest.mark.parametrize("name", ["in_memory", "shards"])
def test_data(killer, tmp_path, name):
    (tmp_path / "vocab.txt").write_text("\n".join(TOKENS))
    (tmp_path / "a.txt").write_text(random_text(random.Random(1), 300))
    flags = ["--num_shards=3", "--num_processes=2"] if name == "shards" else []

    def arguments(output):
        paths = f"{output}/x" if name == "shards" else f"{output}/x,{output}/y"
        return [
            f"--input_file={tmp_path}/a.txt", f"--vocab_file={tmp_path}/vocab.txt", *flags,
            f"--output_file={paths}", "--dupe_factor=2", "--max_seq_length=32",
        ]  # fmt: skip

    number = round(70 * FACTOR)
    check_kills(
        killer, number, "create_pretraining_data", arguments, check_same_files, tmp_path / "out"
    )


def test_fetching(killer, tmp_path):
    rng = np.random.default_rng(0)
    names = ("bert_config.json", "vocab.txt", "bert_model.ckpt.index", "bert_model.ckpt.data-0")
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as writer:
        for name in names:
            writer.writestr(f"{NAME}/{name}", rng.bytes(50_000))
    content = data.getvalue()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            for start in range(0, len(content), 5000):
                try:
                    self.wfile.write(content[start : start + 5000])
                except OSError:  # the client was killed
                    return
                time.sleep(0.002)

        def log_message(self, *_):
            pass

    httpd = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=httpd.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{httpd.server_port}"
    check_kills(
        killer, round(100 * FACTOR), "fetch", lambda cache: [NAME, cache, url], check_same_files,
        tmp_path,
    )  # fmt: skip
    httpd.shutdown()
    httpd.server_close()


def tensors(prefix):
    source = checkpoints.ReleaseCheckpoint(str(prefix))
    return {name: source.tensor(name) for name in source.shapes}


def check_run(whole, output):
    """Compare the folders of training runs of 20 steps."""
    assert contents(output).keys() == contents(whole).keys()
    for name in ("model.ckpt-20", "best"):
        expected, found = tensors(whole / name), tensors(output / name)
        assert expected.keys() == found.keys()
        for tensor in expected:
            np.testing.assert_array_equal(found[tensor], expected[tensor], err_msg=tensor)
    for name in ("eval_results.txt", "test_results.tsv", "best/best.json"):
        if (whole / name).exists():
            assert (output / name).read_text() == (whole / name).read_text()


def test_training(killer, tmp_path):
    model = write_model(tmp_path, num_hidden_layers=1, hidden_dropout_prob=0.1)
    write_records(tmp_path / "x.tfrecord", 40)
    record_files.write_counts({str(tmp_path / "x.tfrecord"): 40})  # else a resumed run counts them

    def arguments(output):
        return [
            f"--input_file={tmp_path}/x.tfrecord", f"--output_dir={output}", *model, "--do_train",
            "--num_train_steps=20", "--save_checkpoints_steps=3", "--num_warmup_steps=4",
            "--max_seq_length=8", "--max_predictions_per_seq=2", "--train_batch_size=4",
            "--distribution_strategy=one_device", "--eval_steps=8", "--max_eval_steps=2",
            "--best_metric=masked_lm_loss", "--do_eval",
        ]  # fmt: skip

    check_kills(killer, round(20 * FACTOR), "run_pretraining", arguments, check_run, tmp_path)


def test_fine_tuning(killer, tmp_path):
    rows = "".join(f"{'a b' if i % 2 else 'c d'} {'abcdefgh'[i % 8]}\t{i % 2}\n" for i in range(40))
    for split in ("train", "dev", "test"):
        (tmp_path / f"{split}.tsv").write_text(f"text\tlabel\n{rows}")
    model = write_model(tmp_path, num_hidden_layers=1, hidden_dropout_prob=0.1)

    def arguments(output):
        return [
            f"--data_dir={tmp_path}", "--task_name=tsv", f"--output_dir={output}", *model,
            *QUICK_RUN, "--do_train", "--do_eval", "--do_predict", "--num_train_epochs=2",
            "--save_checkpoints_steps=3", "--eval_steps=8", "--best_metric=eval_loss",
        ]  # fmt: skip

    folder = tmp_path / "out"
    check_kills(killer, round(30 * FACTOR), "run_classifier", arguments, check_run, folder)


def test_fit_in_a_folder(killer, tmp_path):
    write_release_folder(tmp_path, tiny(vocab_size=len(WORDS), num_hidden_layers=1))

    def check(whole, output):
        names = contents(whole).keys()
        assert contents(output).keys() == names and "model.ckpt-20.index" in names
        first, *others = (json.loads((x / "history.json").read_text()) for x in (whole, output))
        expected, found = tensors(whole / "model.ckpt-20"), tensors(output / "model.ckpt-20")
        for name, tensor in expected.items():
            np.testing.assert_array_equal(found[name], tensor, err_msg=name)
        ((epochs, history),) = others
        assert epochs == first[0][4 - len(epochs) :]
        for name, values in history.items():
            # The means of the first epoch are over its remaining steps.
            size = len(values) - (not name.startswith("val_"))
            assert values[-size:] == pytest.approx(first[1][name][-size:]) or size < 1

    check_kills(
        killer, round(12 * FACTOR), "fit", lambda output: [tmp_path, output], check,
        tmp_path / "out",
    )  # fmt: skip


def test_vocabulary(killer, tmp_path):
    (tmp_path / "a.txt").write_text(random_text(random.Random(1), 300))

    def arguments(output):
        paths = [f"--input_file={tmp_path}/a.txt", f"--vocab_file={output}/vocab.txt"]
        return [*paths, "--vocab_size=150", "--num_unused=2"]

    number = round(30 * FACTOR)
    check_kills(
        killer, number, "bert-tf vocab learn", arguments, check_same_files, tmp_path / "out"
    )


def write_checkpoint(folder):
    """Write weights for the config of `write_model` to the prefix `model` in the same folder."""
    config = bert_tf.BertConfig.from_json_file(str(folder / "config.json"))
    weights = checkpoints.weights(BertPretrainer(config))
    checkpoints.write(str(folder / "model"), {name: x.numpy() for name, x in weights.items()})


@pytest.mark.parametrize("format", ["release", "hugging_face"])
def test_conversion(killer, tmp_path, format):
    model = write_model(tmp_path, num_hidden_layers=1, vocab_size=len(WORDS))
    write_checkpoint(tmp_path)

    def arguments(output):
        paths = [f"--input={tmp_path}/model", f"--output_dir={output}"]
        return [*paths, f"--format={format}", *model]

    number = round(30 * FACTOR)
    # The command does not write into an existing folder.
    check_kills(
        killer, number, "bert-tf convert", arguments, check_same_files, tmp_path / "out",
        pathlib.Path.exists,
    )  # fmt: skip


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


def test_export(killer, tmp_path):
    model = write_model(tmp_path, TINY, num_hidden_layers=1)
    write_checkpoint(tmp_path)

    def arguments(output):
        return [
            "--task=encoder", f"--init_checkpoint={tmp_path}/model", *model,
            f"--export_dir={output}", "--max_seq_length=8", "--inputs=ids",
        ]  # fmt: skip

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

    check_kills(killer, round(40 * FACTOR), "export_model", arguments, check, tmp_path / "out")
