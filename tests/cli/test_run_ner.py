"""run_ner.py by its flags: from columns to tags, scores and entities in a text."""

import json
import pathlib

import numpy as np
import pytest
import scripts_alone
import tensorflow as tf
from test_modeling import TINY
from test_scripts import results

import bert_tf
from bert_tf.serving import token_classification as serving
from bert_tf.tasks import token_classification as tagging
from bert_tf.tokenization import GraphTokenizer

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghisAB.,'-()\"", "##b", "##c",
         "\u5317"]  # fmt: skip

SMALL = [
    "--max_seq_length=10", "--train_batch_size=4", "--distribution_strategy=one_device",
    "--learning_rate=5e-3", "--num_train_epochs=12",
]  # fmt: skip

# "A" and "B" are names, of several words where they stand together, "a" and "b" places; all else is
# nothing. Some do not fit into one window.
_RNG = np.random.default_rng(0)
SENTENCES = [
    "c A d",
    "c d e f g h i c d a b c d",
    *(
        " ".join(_RNG.choice([*"cdefghiABABabab.,()'", "'s"], size))
        for size in range(1, 15)
        for _ in "123"
    ),
]


def tags_of(words):
    found = []
    for word in words:
        label = "PER" if word in "AB" else "LOC" if word in "ab" else ""
        tag = f"I-{label}" if label else "O"
        found.append(tag)
    return found


def columns(sentences, tag=tags_of):
    lines = []
    for i, text in enumerate(sentences):
        if i % 3 == 0:
            lines += ["-DOCSTART- -X- O", ""]
        words = text.split()
        lines += [f"{word} x {t}" for word, t in zip(words, tag(words), strict=True)]
        lines.append("")
    return "\n".join(lines)


# Texts and the words that they are cut into.
CHUNKS = {
    "c A B, d (a) 'A's.": "c|A|B|,|d|(|a|)|'|A|'s|.",
    "(a) 'A's. \"a\"": "(|a|)|'|A|'s|.|\"|a|\"",
    "a-b a.b a.b. -": "a-b|a.b|a.b|.|-",
    "A's' 's s a'b 'c": "A|'s|'|'s|s|a'b|'|c",
    "a\u5317\u5317b, \u5317": "a|\u5317|\u5317|b|,|\u5317",
    "abc\u200bz ..a..": "abc\u200bz|.|.|a|.|.",
    "": "",
}


@pytest.fixture
def run(heard, tmp_path):
    """Runs a script with these flags in this process; returns what it said."""
    changed = {"initializer_range": 0.2, "vocab_size": len(WORDS)}
    given = [*scripts_alone.write_model(tmp_path, TINY, WORDS, **changed), *SMALL]
    for part in ("train", "dev", "test"):
        (tmp_path / f"{part}.txt").write_text(columns(SENTENCES))
    start = heard("run_ner", "export_model")

    def run_with_model(script, *flags):
        more = given if script == "run_ner" and "--do_train" in flags else []
        return start(script, *more, *flags)

    return run_with_model


def test_entities_from_training_to_a_text(run, tmp_path):
    """What is trained is scored, written and exported; all of it tells the same."""
    out = tmp_path / "out"
    said = run("run_ner", "--do_train", "--do_eval", "--do_predict", f"--data_dir={tmp_path}",
               f"--output_dir={out}", "--report")  # fmt: skip
    assert "the data are tagged by iob1, the model learns iob2: O, B-LOC, I-LOC" in said
    found = results(out / "eval_results.txt")
    assert float(found["eval_f1"]) > 0.5  # 0 at first
    # The test set with a further column, else as it was; it is the development set.
    lines = (out / "test_predictions.txt").read_text().split("\n")[:-1]
    assert [line.rpartition(" ")[0] for line in lines] == columns(SENTENCES).split("\n")
    pairs = [line.split()[2:] for line in lines if line and not line.startswith("-DOC")]
    right = sum(true == tag for true, tag in pairs) / len(pairs)
    assert float(found["eval_accuracy"]) == pytest.approx(right)
    row = (out / "eval_report.txt").read_text().split("\n")[-2].split()
    assert row[:4] == ["all", *(f"{float(found[f'eval_{name}']):.4f}"
                                for name in ("precision", "recall", "f1"))]  # fmt: skip

    # On the same folder other tags, or others by the same names, are told before anything is made.
    made = (out / "train.tf_record").stat().st_mtime_ns
    for flags, message in (
        (["--do_train", "--learn_scheme=iob1"], "other learn_scheme: iob2 there, iob1 now"),
        (["--do_train", "--learn_scheme=iobes"], "other learn_scheme: iob2 there, iobes now"),
        (["--do_predict", "--learn_scheme=iob1"], "--learn_scheme=iob1, but the run in .* iob2"),
        (
            ["--do_predict", "--tag_scheme=none"],
            "--tag_scheme=none cannot be combined",
        ),
    ):
        with pytest.raises(bert_tf.UserError, match=message):
            run("run_ner", *flags, f"--data_dir={tmp_path}", f"--output_dir={out}")
    assert (out / "train.tf_record").stat().st_mtime_ns == made

    # The same words as texts, with what they are joined by; without --do_train as it was trained.
    texts = [
        "c A B, d (a) 'A's.",
        "",
        "c d  A",
        " ".join("ABCabcABdeABbaABcaB" * 2),
        "a",
        "A\u3000B.",
    ]
    words = [CHUNKS.get(text) or text.replace(".", " .").replace(" ", "|") for text in texts]
    words = [list(filter(None, x.replace("\u3000", "|").split("|"))) for x in words]
    tests = "\n\n".join("\n".join(x) for x in words if x)
    (tmp_path / "texts.txt").write_text(tests + "\n")
    said = run("run_ner", "--do_predict", f"--test_file={tmp_path}/texts.txt",
               f"--output_dir={out}", "--output_scheme=iobes")  # fmt: skip
    assert "as in" in said
    blocks = iter((out / "test_predictions.txt").read_text().strip().split("\n\n"))
    run("export_model", f"--model_dir={out}", f"--export_dir={tmp_path}/export")
    loaded = tf.saved_model.load(f"{tmp_path}/export/1").signatures["serving_default"]
    values = {name: x.numpy() for name, x in loaded(text=tf.constant(texts)).items()}
    some = 0
    for i, (text, row) in enumerate(zip(texts, words, strict=True)):
        tags = [line.split()[-1] for line in next(blocks).split("\n")] if row else []
        at, places = 0, []
        for word in row:
            at = text.index(word, at)
            places.append((at, at := at + len(word)))
        expected = [
            (text[places[start][0] : places[end - 1][1]].encode(), label.encode(),
             places[start][0], places[end - 1][1])
            for label, start, end in tagging.schemes.spans_from_tags(tags)
        ]  # fmt: skip
        some += len(expected)
        names = ("entity", "label", "start", "end")
        got = list(zip(*(values[name][i].tolist() for name in names), strict=True))
        size = len(got) - len(expected)
        assert got == expected + [(b"", b"", -1, -1)] * size
        assert (values["score"][i][: len(expected)] > 0.2).all()
    assert some > 10
    assert (pathlib.Path(tmp_path) / "export/1/assets.extra/labels.txt").read_text().startswith("O")

    # What is written for transformers, which has no pooler, scores the same.
    pytest.importorskip("safetensors")
    folder = str(tmp_path / "hf")
    bert_tf.checkpoints.convert(bert_tf.training.latest(str(out)), folder, "hugging_face")
    run("run_ner", "--do_eval", f"--data_dir={tmp_path}", f"--output_dir={tmp_path}/of_hf",
        f"--init_checkpoint={folder}", f"--bert_config_file={folder}/config.json",
        f"--vocab_file={folder}/vocab.txt", "--max_seq_length=10")  # fmt: skip
    again = results(tmp_path / "of_hf" / "eval_results.txt")
    assert again["eval_f1"] == found["eval_f1"] and again["eval_accuracy"] == found["eval_accuracy"]

    # Their folder says what its text is to be like.
    pathlib.Path(folder, "tokenizer_config.json").write_text('{"do_lower_case": true}')
    of_hf = [
        "--do_eval",
        f"--data_dir={tmp_path}",
        f"--init_checkpoint={folder}",
        "--max_seq_length=10",
        f"--bert_config_file={folder}/config.json",
        f"--vocab_file={folder}/vocab.txt",
    ]
    said = run("run_ner", *of_hf, f"--output_dir={tmp_path}/b")
    assert f"as beside {folder}: do_lower_case=True" in said
    said = run("run_ner", *of_hf, f"--output_dir={tmp_path}/c", "--do_lower_case=false")
    assert f"--do_lower_case=False, and beside {folder} stands that it is True" in said


def test_names_and_documents(run, tmp_path):
    """Tags without spans (parts of speech), whole documents, all in IOBES."""
    out = tmp_path / "pos"
    data = [f"--data_dir={tmp_path}", f"--output_dir={out}"]
    said = run("run_ner", "--do_train", "--do_eval", *data, "--tag_column=0", "--report",
               "--word_column=2", "--num_train_epochs=1")  # fmt: skip
    assert "tagged by none" in said and set(results(out / "eval_results.txt")) == {
        "eval_accuracy", "eval_loss", "loss", "global_step"
    }  # fmt: skip
    assert "confusion matrix" in (out / "eval_report.txt").read_text()

    out = tmp_path / "documents"
    run("run_ner", "--do_train", "--do_eval", f"--data_dir={tmp_path}", f"--output_dir={out}",
        "--document_context", "--learn_scheme=iobes")  # fmt: skip
    note = json.loads((out / "train.tf_record.json").read_text())
    assert note["document_context"] and "S-PER" in note["tags"]
    assert float(results(out / "eval_results.txt")["eval_f1"]) > 0.3


def test_a_bilstm_learns_on_features_that_stay_as_they_are(run, tmp_path):
    config = bert_tf.BertConfig.from_json_file(f"{tmp_path}/config.json")
    names = bert_tf.checkpoints.weights(bert_tf.BertModel(config))
    first = {name: variable.numpy() for name, variable in names.items()}
    bert_tf.checkpoints.release.write(f"{tmp_path}/bert.ckpt", first)
    out = tmp_path / "out"
    run("run_ner", "--do_train", "--do_eval", "--features_only",
        "--layer_combination=weighted_sum_all",
        "--feature_lstm_size=6", f"--data_dir={tmp_path}", f"--output_dir={out}",
        f"--init_checkpoint={tmp_path}/bert.ckpt", "--learning_rate=1e-2")  # fmt: skip
    assert float(results(out / "eval_results.txt")["eval_f1"]) > 0.3
    trained = bert_tf.checkpoints.ReleaseCheckpoint(bert_tf.training.latest(str(out)))
    for name, value in first.items():
        np.testing.assert_array_equal(trained.tensor(name), value, name)
    assert np.abs(trained.tensor("features/layer_weights")).max() > 0
    # The rest of the way, on its own flags.
    run("run_ner", "--do_predict", f"--test_file={tmp_path}/test.txt", f"--output_dir={out}")
    run("export_model", f"--model_dir={out}", f"--export_dir={tmp_path}/export")
    with pytest.raises(bert_tf.UserError, match="no class of transformers has the weights"):
        bert_tf.checkpoints.convert(bert_tf.training.latest(str(out)), f"{tmp_path}/hf",
                                    "hugging_face")  # fmt: skip


@pytest.mark.slow  # the loop is the same for every task
def test_two_devices_make_the_same_steps(run, tmp_path, monkeypatch):
    """On uneven numbers of words; a sentence that cannot be used is left out."""
    with open(tmp_path / "train.txt", "a") as train:
        train.write("c x O\nA x PER\n")
    two = tf.distribute.MirroredStrategy(
        ["CPU:0", "CPU:1"], cross_device_ops=tf.distribute.ReductionToOneDevice()
    )
    found = []
    for strategy in (tf.distribute.OneDeviceStrategy("CPU:0"), two):
        monkeypatch.setattr(bert_tf.training, "make_strategy", lambda _=strategy, **__: _)
        out = tmp_path / f"on_{strategy.num_replicas_in_sync}"
        said = run("run_ner", "--do_train", "--do_eval", f"--data_dir={tmp_path}",
                   f"--output_dir={out}", "--num_train_epochs=0.2", "--skip_bad_rows")  # fmt: skip
        assert "bad sentences left out: 1, the first: " in said and "tag PER is not valid" in said
        found.append(results(out / "eval_results.txt"))
    assert 1 < int(found[0]["global_step"]) < 9
    for name, value in found[0].items():
        assert float(found[1][name]) == pytest.approx(float(value), abs=1e-4), name


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--layer_combination=last"], "--layer_combination wants --features_only"),
        (
            ["--features_only"],
            "--layer_combination=concat_last_four requires 4 layers, but the model has 2",
        ),
        (
            ["--features_only", "--layer_combination=last"],
            "--features_only wants an --init_checkpoint",
        ),
        (
            [
                "--features_only",
                "--layer_combination=last",
                "--init_checkpoint=x",
                "--layer_decay=0.9",
            ],
            "--layer_decay: with --features_only all",
        ),
        (
            ["--tag_column=0", "--word_column=2", "--output_scheme=iobes"],
            "--output_scheme=iobes cannot be combined with tags in the scheme none",
        ),
        (["--tag_column=ner"], "--tag_column=ner: the number of a column was expected"),
        (["--tag_column=7"], "train.txt, line 3: --tag_column=7 is out of range, there are 3"),
        (["--tfds_name=x", "--dev_file=y"], "--data_dir does not go with --tfds_name"),
        (["--train_file=none.txt"], "--train_file: there is no file none.txt"),
        (["--tag_scheme=iob2"], r"line 4: the tag I-PER is not valid here in the scheme iob2"),
        (["--best_metric=eval_f2", "--eval_steps=5"], "eval_f2"),
    ],
)
def test_what_is_wrong_is_said(run, tmp_path, flags, message):
    with pytest.raises(bert_tf.UserError, match=message):
        run("run_ner", "--do_train", f"--data_dir={tmp_path}", f"--output_dir={tmp_path}/x", *flags)
    assert not list(tmp_path.glob("x/t*"))


def test_documents_must_be_marked(run, tmp_path):
    (tmp_path / "train.txt").write_text("a O\n")
    with pytest.raises(bert_tf.UserError, match=r"train\.txt does not say where documents begin"):
        run("run_ner", "--do_train", f"--data_dir={tmp_path}", f"--output_dir={tmp_path}/x",
            "--document_context")  # fmt: skip


def test_words_of_a_text(tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    tokenizer = GraphTokenizer(str(tmp_path / "vocab.txt"), do_lower_case=False)
    table = serving._WordTable(tokenizer.vocab, False)
    ids, starts, ends = tokenizer.tokenize_with_offsets(tf.constant(list(CHUNKS)))
    is_start = tf.RaggedTensor.from_row_splits(
        table.starts(ids, starts, ends), ids.row_splits
    ).to_list()
    for text, flags, begin, end in zip(
        CHUNKS, is_start, starts.to_list(), ends.to_list(), strict=True
    ):
        words = []
        for flag, i, j in zip(flags, begin, end, strict=True):
            words.append([i, j] if flag else [words.pop()[0], j])
        assert "|".join(text[i:j] for i, j in words) == CHUNKS[text]


def test_begins_are_those_of_python():
    rng = np.random.default_rng(0)
    for scheme in ("iob1", "iob2", "iobes", "none"):
        names = tagging.schemes.tag_names(["X", "Y"], scheme)
        tags = rng.integers(0, len(names), 400)
        text_of = np.sort(rng.integers(0, 60, 400))
        table = serving._TagTable(tagging.Tags(names, scheme, scheme))
        found = table.begins(tf.constant(tags, tf.int32), tf.constant(text_of, tf.int32)).numpy()
        for text in range(60):
            row = np.flatnonzero(text_of == text)
            sentence = [names[i] for i in tags[row]]
            spans = tagging.schemes.spans_from_tags(sentence, scheme)
            assert np.flatnonzero(found[row]).tolist() == [span.start for span in spans]


def test_a_data_set_of_tensorflow_datasets(run, tmp_path):
    tfds = pytest.importorskip("tensorflow_datasets")

    class Letters(tfds.core.GeneratorBasedBuilder):
        VERSION = tfds.core.Version("1.0.0")
        pkg_dir_path = pathlib.Path(tmp_path)

        def _info(self):
            names = tfds.features.ClassLabel(names=["O", "I-LOC", "I-PER"])
            words = tfds.features.Sequence(tfds.features.Text())
            features = {"tokens": words, "ner": tfds.features.Sequence(names)}
            return tfds.core.DatasetInfo(
                builder=self,
                features=tfds.features.FeaturesDict(features),
                disable_shuffling=True,
            )

        def _split_generators(self, dl_manager):
            return {name: self._generate_examples() for name in ("train", "validation", "test")}

        def _generate_examples(self):
            for number, text in enumerate(SENTENCES):
                yield number, {"tokens": text.split(), "ner": tags_of(text.split())}

    Letters(data_dir=str(tmp_path)).download_and_prepare()
    run("run_ner", "--do_train", "--do_eval", "--do_predict", "--tfds_name=letters",
        f"--tfds_data_dir={tmp_path}", f"--output_dir={tmp_path}/out")  # fmt: skip
    assert float(results(tmp_path / "out" / "eval_results.txt")["eval_f1"]) > 0.3
    lines = (tmp_path / "out" / "test_predictions.txt").read_text().split("\n")
    assert [line.split(" ")[0] for line in lines[:4]] == ["c", "A", "d", ""]


def test_logits_are_those_of_transformers(tmp_path):
    """A tagger written as a Hugging Face folder, beside the same by transformers."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    from bert_tf.tasks.token_classification import TagSettings, settle_tags

    (tmp_path / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    config = bert_tf.BertConfig.from_dict({**TINY.to_dict(), "vocab_size": len(WORDS)})
    model = bert_tf.BertTokenClassifier(config, 3)
    tags = tagging.Tags(("O", "B-X", "I-X"), "iob2", "iob2")
    settings = TagSettings(
        tagging.WindowConfig(10), tags, False, config, str(tmp_path / "vocab.txt")
    )
    settle_tags(str(tmp_path / "run"), settings, write=True)
    weights = {n: v.numpy() for n, v in bert_tf.checkpoints.weights(model).items()}
    bert_tf.checkpoints.release.write(f"{tmp_path}/run/model.ckpt-1", weights)
    bert_tf.checkpoints.convert(f"{tmp_path}/run/model.ckpt-1", f"{tmp_path}/hf", "hugging_face")
    theirs = transformers.AutoModelForTokenClassification.from_pretrained(f"{tmp_path}/hf").eval()
    assert theirs.config.id2label == {0: "O", 1: "B-X", 2: "I-X"}
    ids = np.array([[2, 5, 6, 7, 3]])
    inputs = {"input_ids": ids, "input_mask": ids * 0 + 1, "segment_ids": ids * 0}
    with torch.no_grad():
        logits = theirs(input_ids=torch.tensor(ids)).logits.numpy()
    np.testing.assert_allclose(np.array(model(inputs)["logits"]), logits, atol=1e-5)
