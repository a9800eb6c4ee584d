"""Model folders as values of --model and --init_checkpoint, and their export."""

import json
import shutil

import pytest

import bert_tf
from bert_tf.configs.model import ModelConfig
from bert_tf.errors import UserError
from bert_tf.tasks import registry
from tests.common import WORDS, enlarge_weights, tiny, write_hugging_face
from tests.data.pretraining_helpers import write_records
from tests.serving.conftest import assert_alike


@pytest.mark.slow
def test_pretraining_run_has_the_vocabulary_of_its_model(run_script, tmp_path):
    """It is in the tokenizer.json of a Hugging Face folder without vocab.txt."""
    run = tmp_path / "run"
    model = bert_tf.BertPretrainer(tiny(vocab_size=len(WORDS)))
    hf = write_hugging_face(tmp_path / "hf", model, do_lower_case=False, strip_accents=True)
    (tmp_path / "hf" / "vocab.txt").unlink()
    write_records(tmp_path / "data.tfrecord", 4)
    log = run_script(
        "run_pretraining", f"--input_file={tmp_path}/data.tfrecord", f"--model={hf}", "--do_train",
        f"--output_dir={run}", "--num_train_steps=1", "--max_seq_length=8", "--num_warmup_steps=0",
        "--max_predictions_per_seq=2", "--train_batch_size=4",
        "--distribution_strategy=one_device",
    )  # fmt: skip
    found = "bert_config_file (config.json), vocab_file (tokenizer.json)"
    assert f"from {hf}: {found}\n" in log
    assert (run / "vocab.txt").read_text().split() == WORDS
    expected = {"do_lower_case": False, "strip_accents": True}
    settings = json.loads((run / "tokenizer_config.json").read_text())
    assert {name: settings[name] for name in expected} == expected


ANSWERS = [
    (bert_tf.BertClassifier, "BertForSequenceClassification", "a b", "label"),
    (bert_tf.BertModel, "BertModel", "a b", "vectors"),
    (bert_tf.BertMultipleChoice, "BertForMultipleChoice", "a\tb\tc d", "choice"),
    (bert_tf.BertTokenClassifier, "BertForTokenClassification", "a b", "entities"),
    (bert_tf.BertSpanLabeler, "BertForQuestionAnswering", "a\tb c d", "answer"),
    (bert_tf.BertPretrainer, "BertForMaskedLM", "a [MASK]", "best"),
]
ANSWERS[1:] = [pytest.param(*values, marks=pytest.mark.slow) for values in ANSWERS[1:]]


@pytest.mark.parametrize(("model_class", "name", "line", "answer"), ANSWERS)
def test_hugging_face_folder_answers(run_script, tmp_path, model_class, name, line, answer):
    """predict.py and an export find the folder's task and give the same answers."""
    pytest.importorskip("tensorflow_text")
    config = tiny(vocab_size=len(WORDS), max_position_embeddings=128)
    labels = ["x", "y", "z"] if answer in ("label", "entities") else None
    model = model_class(config, **({"num_labels": 3} if labels else {}))
    enlarge_weights(model)
    hf = write_hugging_face(tmp_path / "hf", model, labels=labels, architecture=name)
    (tmp_path / "in.txt").write_text(f"{line}\n")
    log = run_script(
        "export_model", f"--model_dir={hf}", f"--export_dir={tmp_path}/out", "--nowarm_up"
    )
    assert "programs that load it must `import tensorflow_text` first" in log
    answers = []
    for path in (hf, tmp_path / "out"):
        run_script(
            "bert-tf predict", f"--model={path}", f"--input_file={tmp_path}/in.txt",
            f"--output_file={tmp_path}/answers.jsonl",
        )  # fmt: skip
        answers.append(json.loads((tmp_path / "answers.jsonl").read_text()))
    assert answer in answers[0]
    assert_alike(*answers)


def test_run_keeps_its_options_with_weights_elsewhere(run_script, tmp_path):
    run, best, moved = (tmp_path / name for name in ("run", "run/best", "moved"))
    hf = write_hugging_face(tmp_path / "hf", bert_tf.BertModel(tiny(vocab_size=len(WORDS))))
    for folder, length in ((run, 8), (best, 6)):
        options = {"labels": ["x", "y"], "max_seq_length": length}
        bert_tf.TextClassifier.from_preset(hf, **options).save_to_preset(folder)
    moved.mkdir()
    for path in run.glob("model.ckpt-0.*"):
        shutil.copy(path, moved)
    for weights in (moved / "model.ckpt-0", moved, best):
        config = ModelConfig(str(run), init_checkpoint=str(weights))
        loaded = registry.load(bert_tf.checkpoints.resolve(config)).config
        assert (loaded.labels, loaded.max_seq_length) == (("x", "y"), 8)
    # A Hugging Face folder has no other checkpoints.
    with pytest.raises(UserError, match=f"--checkpoint: {hf}"):
        run_script("export_model", f"--model_dir={hf}", "--checkpoint=x", "--export_dir=x")


def test_model_without_a_task(run_script, tmp_path):
    folder = tmp_path / "empty"
    folder.mkdir()
    for path, message in ((folder, "found none of .* in"), ("nowhere", "there is no folder")):
        with pytest.raises(UserError, match=f"--model_dir: {message} {path}"):
            run_script("export_model", f"--model_dir={path}", f"--export_dir={tmp_path}/out")
    with pytest.raises(UserError, match="--max_seq_length requires --task"):
        run_script("export_model", "--model=x", "--max_seq_length=8", "--export_dir=x")
