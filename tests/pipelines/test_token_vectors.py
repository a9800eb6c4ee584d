"""Vectors of tokens and words, and the files that they are written to."""

import itertools
import json
import os
import shutil
import subprocess
import sys
import types

import numpy as np
import pytest
import scripts_alone
import tensorflow as tf
from bert_tf.pipelines.tokens import TextVectors
from test_modeling import TINY
from test_workers import worker_environments

import bert_tf
from bert_tf import checkpoints, pipelines
from bert_tf.modeling import LAYER_COMBINATIONS, BertPretrainer
from bert_tf.pipelines import runner, writers

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghij", *(f"##{c}" for c in "abc")]
DEEP = bert_tf.BertConfig.from_dict(
    {**TINY.to_dict(), "num_hidden_layers": 6, "vocab_size": len(WORDS)}
)
LINES = ["a b ||| c", "", "d ||| e ||| f g", "  jab ||| ", "a b c d e f g h i j a b", "zz a"]
TOKENS = [
    "[CLS] a b [SEP] c [SEP]",
    "[CLS] [SEP]",
    "[CLS] d | | | e [SEP] f g [SEP]",
    "[CLS] j ##a ##b | | | [SEP]",
    "[CLS] a b c d e f g h i j [SEP]",
    "[CLS] [UNK] a [SEP]",
]
TOKENS = [text.replace("|", "[UNK]") for text in TOKENS]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A release folder with random weights, a vocabulary and texts."""
    folder = tmp_path_factory.mktemp("features")
    model = BertPretrainer(DEEP)
    rng = np.random.default_rng(0)
    tensors = {
        name: v.numpy() + 0.3 * rng.normal(size=v.shape).astype("float32")
        for name, v in checkpoints.weights(model).items()
    }
    checkpoints.write(str(folder / "bert_model.ckpt"), tensors)
    (folder / "bert_config.json").write_text(DEEP.to_json_string())
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    (folder / "texts.txt").write_text("".join(f"{line}\n" for line in LINES))
    return folder


@pytest.fixture(scope="module")
def outputs(folder):
    """For each line the outputs of the model, one text at a time and without padding."""
    model = bert_tf.BertModel.from_preset(str(folder))
    found = []
    for tokens in TOKENS:
        ids = [WORDS.index(token) for token in tokens.split()]
        first = ids.index(3) + 1
        batch = {
            "input_ids": np.int32([ids]),
            "input_mask": np.int32([[1] * len(ids)]),
            "segment_ids": np.int32([[0] * first + [1] * (len(ids) - first)]),
        }
        values = model(batch)
        layers = [x.numpy()[0] for x in values["all_encoder_layers"]]
        found.append((layers, values["embedding_output"].numpy()[0]))
    return found


@pytest.fixture(scope="module")
def encoder(folder):
    """The model and its tokenizer."""
    made = pipelines.TokenVectors.from_preset(str(folder / "bert_model.ckpt"), max_seq_length=12)
    return made.model, made.tokenizer


def vectors(encoder, **options):
    return pipelines.TokenVectors(*encoder, batch_size=4, **{"max_seq_length": 12, **options})


def test_script_writes_what_the_release_does(root, folder, outputs, tmp_path):
    flags = {
        "input_file": folder / "texts.txt",
        "output_file": tmp_path / "out.jsonl",
        "layers": "-1,0,-4",
        "bert_config_file": folder / "bert_config.json",
        "init_checkpoint": folder / "bert_model.ckpt",
        "vocab_file": folder / "vocab.txt",
        "max_seq_length": 12,
        "do_lower_case": True,
        "batch_size": 2,
        "use_one_hot_embeddings": False,
    }
    command = [sys.executable, str(root / "extract_features.py")]
    command += [f"--{name}={value}" for name, value in flags.items()]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "1 texts are longer than --max_seq_length=12" in done.stderr
    lines = (tmp_path / "out.jsonl").read_text().splitlines()
    assert len(lines) == len(LINES)
    for i, line in enumerate(lines):
        found = json.loads(line)
        assert list(found) == ["linex_index", "features"]
        assert found["linex_index"] == i
        assert [token["token"] for token in found["features"]] == TOKENS[i].split()
        for place, token in enumerate(found["features"]):
            assert list(token) == ["token", "layers"]
            assert [layer["index"] for layer in token["layers"]] == [-1, 0, -4]
            for layer in token["layers"]:
                assert list(layer) == ["index", "values"]
                assert layer["values"] == [round(x, 6) for x in layer["values"]]
                expected = outputs[i][0][layer["index"]][place]
                np.testing.assert_allclose(layer["values"], expected, atol=1e-5, rtol=0)


def test_numbers_are_rounded_as_python_does():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(50, 1, 200)).astype("float32")
    values[0, 0] = np.arange(200) / 128  # as far from both neighbours
    values[1, 0] = -np.arange(200) / 2**20
    values[2, 0] *= 1e-6
    given = TextVectors(0, ["a"] * 50, [-1], values)
    found = json.loads(writers.json_line(given))["features"]
    for token, row in zip(found, values, strict=True):
        assert token["layers"][0]["values"] == [round(float(x), 6) for x in row[0]]


WEIGHTS = [0.5, 0.25, 1.0, 2.0, 0.75, 1.5]


@pytest.mark.parametrize("is_weighted", [False, True])
def test_the_ways_of_the_paper(encoder, outputs, is_weighted):
    def added(layers):
        weights = WEIGHTS[: len(layers)] if is_weighted else [1 / len(layers)] * len(layers)
        return np.einsum("l,lth->th", weights, np.array(layers))

    expected = {
        "embeddings": lambda layers, embedded: embedded,
        "second_to_last": lambda layers, _: layers[-2],
        "last": lambda layers, _: layers[-1],
        "concat_last_four": lambda layers, _: np.concatenate(layers[-4:], -1),
        "weighted_sum_last_four": lambda layers, _: added(layers[-4:]),
        "weighted_sum_all": lambda layers, _: added(layers),
    }
    assert set(expected) == set(LAYER_COMBINATIONS)
    for way in LAYER_COMBINATIONS:
        weights = None
        if is_weighted:
            if not way.startswith("weighted"):
                continue
            weights = WEIGHTS[: 4 if "four" in way else 6]
        made = vectors(encoder, way=way, layer_weights=weights)(LINES[:2])
        for found, (layers, embedded) in zip(made, outputs[:2], strict=True):
            assert found.names == [way]
            np.testing.assert_allclose(
                found.values[:, 0], expected[way](layers, embedded), atol=2e-5, rtol=0
            )


def test_words(encoder, outputs, caplog):
    for kind in ("first", "mean"):
        found = list(vectors(encoder, words=kind)(LINES))
        assert found[2].tokens == ["d", "|||", "e", "f", "g"]
        assert found[1].values.shape == (0, 1, 16)
        assert found[4].tokens == list("abcdefghij")  # "a b" was cut off
        jab = outputs[3][0][-1][1:4]
        expected = jab[0] if kind == "first" else jab.mean(0)
        np.testing.assert_allclose(found[3].values[0, 0], expected, atol=1e-5)
        np.testing.assert_allclose(found[0].values[2, 0], outputs[0][0][-1][4], atol=1e-5)
    (found,) = vectors(encoder, words="first")(["a \u200b b"])
    assert found.tokens == ["a", "b"]
    assert "1 words have no token" in caplog.text


def test_strategies_agree_and_order_is_kept(folder, encoder):
    rng = np.random.default_rng(0)
    lines = [" ".join(rng.choice(list("abcdefghij"), rng.integers(0, 10))) for _ in range(75)]
    expected = list(vectors(encoder)(lines))
    # Over the ends of windows, each of which is sorted by length.
    in_windows = vectors(encoder)
    in_windows._runner._window = 16
    for a, b in zip(expected, in_windows(lines), strict=True):
        assert (a.index, a.tokens) == (b.index, b.tokens)
        np.testing.assert_allclose(a.values, b.values, atol=1e-5)
    reduction = tf.distribute.ReductionToOneDevice()
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"], cross_device_ops=reduction)
    copied = pipelines.TokenVectors.from_preset(
        str(folder), strategy=strategy, batch_size=4, max_seq_length=12
    )
    found = list(copied(lines))
    assert [x.index for x in found] == list(range(75))
    for a, b, line in zip(expected, found, lines, strict=True):
        assert a.tokens == b.tokens == ["[CLS]", *line.split(), "[SEP]"]
        np.testing.assert_allclose(a.values, b.values, atol=1e-5)
    with pytest.raises(bert_tf.UserError, match="--batch_size=3 does not divide over"):
        pipelines.TokenVectors(
            copied.model, copied.tokenizer, strategy=strategy, batch_size=3, max_seq_length=12
        )


def test_batches_are_no_larger_than_they_must_be(encoder, monkeypatch):
    """Off TPU a single text is a batch of one; on it, shapes are all the same and static."""
    shapes = []

    def seen(batch):
        shapes.append(tuple(batch["input_ids"].shape))
        return {"ids": batch["input_ids"]}

    rows = [runner.Row(i, [2, *[5] * i, 3], [0] * (i + 2)) for i in range(6)]
    for multiple, expected in ((8, [(None, None)]), (None, [(4, 12)])):
        shapes.clear()
        monkeypatch.setattr(runner, "length_multiple", lambda *_, multiple=multiple: multiple)
        made = runner.Runner(seen, tf.distribute.get_strategy(), 4, 12)
        found = list(made.run(rows, "counting"))
        assert [item for item, _ in found] == list(range(6))
        assert shapes == expected  # traced once
        sizes = [len(values["ids"]) for _, values in found]
        assert sizes == ([8] * 6 if multiple else [12] * 6)
        (one,) = made.run(rows[:1], "counting")
        assert one[1]["ids"].tolist() == [2, 3] + [0] * (sizes[0] - 2)
    made = runner.Runner(seen, tf.distribute.get_strategy(), 4, 12)
    assert made._batch(rows[:1])["input_ids"].shape == (4, 12)
    monkeypatch.undo()
    made = runner.Runner(seen, tf.distribute.get_strategy(), 4, 12)
    assert made._batch(rows[:1])["input_ids"].shape == (1, 8)


def test_input_is_read_as_it_is_needed_and_its_errors_stay_what_they_are(encoder):
    read = []

    def texts():
        for i in itertools.count():
            read.append(i)
            if i == 5000:
                raise bert_tf.UserError("line 5000")
            yield "a b"

    made = vectors(encoder)
    stream = made(texts())
    next(stream)
    assert len(read) < 2000
    with pytest.raises(bert_tf.UserError, match=r"^line 5000$"):
        list(stream)


def test_compact_file(encoder, tmp_path):
    found = list(vectors(encoder, layers=(0, -1))(LINES))
    for dtype in ("float32", "float16"):
        path = str(tmp_path / dtype)
        with pipelines.vector_writer(path, "tfrecord", dtype) as write:
            for text in found:
                write(text)
        again = list(pipelines.read_vectors(path))
        for text, (index, tokens, names, values) in zip(found, again, strict=True):
            assert (index, tokens, names) == (text.index, text.tokens, ["0", "-1"])
            assert values.dtype == dtype
            np.testing.assert_array_equal(values, text.values.astype(dtype))
    for form, dtype in (("npz", "float32"), ("tfrecord", "float64")):
        with (
            pytest.raises(bert_tf.UserError, match=r"new: '.*' is not one of"),
            pipelines.vector_writer(str(tmp_path / "new"), form, dtype),
        ):
            pass
    assert not (tmp_path / "new").exists()
    (tmp_path / "other").write_bytes(b"no records")
    with pytest.raises(bert_tf.UserError, match="other: not a TFRecord file"):
        list(pipelines.read_vectors(str(tmp_path / "other")))


def test_one_text_is_not_taken_for_many(encoder):
    with pytest.raises(TypeError, match="a list of texts was expected, not one text"):
        list(vectors(encoder)("the cabin"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layers": [7]}, "--layers: there is no layer 7, the model has 6: 0 to 5, or -1 to -6"),
        ({"layers": []}, "--layers: at least one was expected"),
        ({"words": "last"}, "--words: 'last' is not one of first, mean"),
        ({"way": "weighted_sum_all", "layer_weights": [1.0]}, "1 numbers, .* wants 6"),
        ({"max_seq_length": 13}, "--max_seq_length=13 is more than"),
        ({"max_seq_length": 4}, "--max_seq_length=4 is less than 5"),
    ],
)
def test_mistakes(encoder, options, message):
    with pytest.raises(bert_tf.UserError, match=message):
        vectors(encoder, **options)


def test_files_are_found_beside_the_weights(folder, tmp_path):
    found = pipelines.files_of(str(folder / "bert_model.ckpt"))
    assert found.vocab == str(folder / "vocab.txt")
    assert found.do_lower_case is None
    with pytest.raises(bert_tf.UserError, match="--bert_config_file: there is no config beside"):
        pipelines.files_of(str(tmp_path)).open()


@pytest.mark.parametrize(
    ("name", "lower"), [("wwm_cased_L-24_H-1024_A-16", False), ("multilingual_L-2_H-3_A-4", True)]
)
def test_casing_is_that_of_a_published_name(folder, tmp_path, caplog, name, lower):
    caplog.set_level("INFO")
    shutil.copytree(folder, tmp_path / name)
    for path in (tmp_path / name, tmp_path / name / "bert_model.ckpt"):
        _, tokenizer = pipelines.files_of(str(path)).open()
        assert tokenizer.basic_tokenizer.do_lower_case is lower
        assert caplog.messages[-1] == f"text is {'' if lower else 'not '}lower-cased"
    # What settings say goes before it.
    (tmp_path / name / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": not lower}))
    assert pipelines.files_of(str(tmp_path / name)).do_lower_case is not lower


def test_casing_of_which_nothing_is_known_is_said(folder, caplog):
    _, tokenizer = pipelines.files_of(str(folder)).open()
    assert tokenizer.basic_tokenizer.do_lower_case
    assert "says whether its text is lower-cased: it is taken to be" in caplog.text


def test_a_strategy_of_several_processes_is_refused(encoder, monkeypatch):
    monkeypatch.setattr(runner, "Workers", lambda _: types.SimpleNamespace(is_several=True))
    with pytest.raises(bert_tf.UserError, match="TF_CONFIG names several workers"):
        vectors(encoder)


def test_several_workers_are_refused(root, folder, tmp_path, monkeypatch):
    """By one process alone, before it waits for another; all four scripts begin in this way."""
    monkeypatch.setenv("TF_CONFIG", worker_environments()[1])
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "bert_tf",
            "embed",
            f"--init_checkpoint={folder}",
            f"--export_dir={tmp_path}/export",
        ],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "error: TF_CONFIG names several workers, but" in done.stderr
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize(
    ("script", "given", "message"),
    [
        ("bert_tf.cli.embed", ["--export_dir=e", "--float16"], "--float16 wants --output_file"),
        ("bert_tf.cli.embed", ["--input_file=IN", "--query=a", "--version=0"], "--version wants"),
        (
            "bert_tf.cli.embed",
            ["--input_file=IN", "--output_file=OUT", "--num_nearest=5"],
            "--num_nearest wants --query or --interactive",
        ),
        (
            "bert_tf.cli.fill_mask",
            ["--text=a", "--perplexity", "--num_best=5"],
            "--num_best has no eff",
        ),
        ("extract_features", ["--input_file=IN", "--output_file=OUT", "--layers="], "--layers= is"),
        (
            "extract_features",
            ["--input_file=IN", "--output_file=OUT", "--way=weighted_sum_all", "--layer_weights="],
            "--layer_weights= is empty; leave it out",
        ),
        (
            "bert_tf.cli.attention",
            ["--text=a", "--output_file=OUT.html", "--heads="],
            "--heads= is empty",
        ),
    ],
)
def test_flags_that_would_do_nothing_are_refused(tmp_path, script, given, message):
    (tmp_path / "in.txt").write_text("a\n")
    paths = {"IN": f"{tmp_path}/in.txt", "OUT": f"{tmp_path}/out"}
    with scripts_alone.imported(script) as run_script:
        for word, path in paths.items():
            given = [flag.replace(word, path) for flag in given]
        with pytest.raises(bert_tf.UserError, match=message):
            run_script(script, *given)
    assert os.listdir(tmp_path) == ["in.txt"]


def test_files_as_flags(folder):
    found = pipelines.files_of(str(folder))
    assert found.flags == {
        "init_checkpoint": str(folder),
        "bert_config_file": str(folder / "bert_config.json"),
        "vocab_file": str(folder / "vocab.txt"),
    }
    assert found._replace(do_lower_case=False).flags["do_lower_case"] is False
