"""Valid command lines of every command and small input files, for `test_bad_inputs`.

Paths in the command lines are relative. Their first component is the name of one of the `Inputs`.
All output goes to `out`, except when a run is resumed.
"""

import json
import pathlib
import random
import re
import shutil

import keras

from bert_tf import checkpoints, configs, serving
from bert_tf.data import records
from bert_tf.modeling import BertPretrainer
from tests.common import WORDS, tiny, write_release
from tests.data.pretraining_helpers import TOKENS, random_text, write_records
from tests.serving.serving_models import make_servable
from tests.squad_helpers import dataset, question

CONFIG = tiny(num_hidden_layers=1, vocab_size=len(WORDS))

_MODEL = (
    "--bert_config_file=model/bert_config.json --vocab_file=model/vocab.txt "
    "--init_checkpoint=model/bert_model.ckpt"
)
_SHORT = "--max_seq_length=8 --distribution_strategy=one_device"
_TUNE = f"{_SHORT} --train_batch_size=4 --num_train_epochs=1"
_INSTANCES = "--max_seq_length=16 --max_predictions_per_seq=3 --dupe_factor=1"
_PRETRAIN = (
    "--bert_config_file=model/bert_config.json --max_seq_length=8 --max_predictions_per_seq=2 "
    "--train_batch_size=4 --num_warmup_steps=0 --distribution_strategy=one_device"
)
_TABLES = "--train_file=table/train.csv --dev_file=table/dev.csv"
_COLUMNS = "--train_file=columns/train.txt --dev_file=columns/train.txt"
_CHOICES = "--train_file=choices/train.csv --dev_file=choices/train.csv"
_PAIRS = "--train_file=pairs/train.csv --dev_file=pairs/train.csv"

# These commands need neither training nor a SavedModel and run in a fraction of a second.
QUICK_COMMANDS = {
    "create_pretraining_data": [
        f"--input_file=text/a.txt,text/b.txt --vocab_file=vocab/vocab.txt "
        f"--output_file=out/x,out/y {_INSTANCES}",
        f"--input_file=text/a.txt --vocab_file=vocab/vocab.txt --output_file=out/x --num_shards=2 "
        f"{_INSTANCES}",
        f"--input_file=text/c.jsonl --vocab_file=vocab/vocab.txt --output_file=out/x {_INSTANCES} "
        "--dynamic_masking",
    ],
    "bert-tf vocab learn": [
        "--input_file=text/a.txt,text/b.txt --vocab_file=out/vocab.txt --vocab_size=200"
    ],
    "bert-tf vocab add": [
        "--vocab_file=vocab/vocab.txt --words_file=text/words.txt --output_file=out/vocab.txt"
    ],
    "bert-tf convert": [
        "--input=model --output_dir=out --format=hugging_face",
        "--input=hf --output_dir=out --format=release",
        "--input=hf --output_dir=out --format=hugging_face --max_position_embeddings=20",
    ],
}
COMMANDS = {
    **QUICK_COMMANDS,
    "run_pretraining": [
        f"--input_file=records/x.tfrecord --output_dir=out --do_train --num_train_steps=1 "
        f"--vocab_file=model/vocab.txt {_PRETRAIN}",
        f"--input_file=records/x.tfrecord --output_dir=pretrained --do_train --num_train_steps=2 "
        f"{_PRETRAIN}",
        f"--input_file=records/x.tfrecord --output_dir=pretrained --do_eval {_PRETRAIN}",
        f"--input_file=records/unmasked.tfrecord --output_dir=out --do_train --num_train_steps=1 "
        f"--dynamic_masking --vocab_file=model/vocab.txt {_PRETRAIN}",
    ],
    "run_classifier": [
        f"--task_name=tsv {_TABLES} --output_dir=out --do_train --do_eval {_MODEL} {_TUNE}",
        f"--task_name=tsv {_TABLES} --output_dir=out --do_train --model=hf {_TUNE}",
        f"--task_name=tsv {_TABLES} --output_dir=classifier --do_train {_MODEL} {_TUNE} "
        "--num_train_epochs=2",
        "--task_name=tsv --test_file=table/test.jsonl --output_dir=classifier --do_predict",
        f"--task_name=tsv --train_file=table/scores.json --dev_file=table/scores.json "
        f"--task_type=regression --numeric_columns=n --output_dir=out --do_train {_MODEL} {_TUNE}",
    ],
    "run_squad": [
        f"--train_file=squad_data/train.json --output_dir=out --do_train {_MODEL} {_TUNE} "
        "--max_query_length=3 --doc_stride=2",
        "--predict_file=squad_data/train.json --output_dir=squad --do_predict --do_eval",
    ],
    "run_ner": [
        f"{_COLUMNS} --output_dir=out --do_train {_MODEL} {_TUNE}",
        "--test_file=columns/train.txt --output_dir=tagger --do_predict",
    ],
    "run_multiple_choice": [
        f"{_CHOICES} --output_dir=out --do_train {_MODEL} {_TUNE}",
        "--test_file=choices/train.csv --output_dir=choice --do_predict",
    ],
    "run_sentence_encoder": [
        f"{_PAIRS} --output_dir=out --do_train --do_eval {_MODEL} {_TUNE} --mini_batch_size=1",
        "--test_file=pairs/train.csv --output_dir=sentences --do_predict",
    ],
    "extract_features": [
        f"--input_file=text/lines.txt --output_file=out/v.json --layers=-1 {_MODEL} {_SHORT}",
        "--input_file=text/lines.txt --output_file=out/v.json "
        f"--layer_combination=last --words=mean --model=hf {_SHORT}",
    ],
    "export_model": [
        *(f"--model_dir={run} --export_dir=out --nowarm_up"
          for run in ("classifier", "squad", "tagger", "choice", "sentences")),
        "--task=fill_mask --init_checkpoint=pretrained --export_dir=out --max_seq_length=8 "
        "--nowarm_up",
        "--task=encoder --model=hf --export_dir=out --max_seq_length=8 --inputs=ids --nowarm_up",
    ],
    "bert-tf predict": [
        "--model=served_multi_label --input_file=table/test.csv --output_file=out/a.csv",
        "--model=served_regression --input_file=text/lines.txt --output_file=out/a.jsonl",
        "--model=served_question_answering --input_file=text/questions.jsonl --json "
        "--output_file=out/a.jsonl",
        "--model=served_token_classification --input_file=text/lines.txt --output_file=out/a",
    ],
    "bert-tf embed": [
        f"--model=hf --input_file=text/lines.txt --output_file=out/v.npy --layer=-1 {_SHORT}",
        f"--model=hf --input_file=text/lines.txt --query=a --layer=0 {_SHORT}",
    ],
    "bert-tf fill-mask": [
        f"{_MODEL} --input_file=text/masks.txt --output_file=out/masks.jsonl {_SHORT}",
    ],
}  # fmt: skip

# The commands whose runs are inputs of other commands.
_RUNS = {
    "pretrained": ("run_pretraining", 0),
    "classifier": ("run_classifier", 0),
    "squad": ("run_squad", 0),
    "tagger": ("run_ner", 0),
    "choice": ("run_multiple_choice", 0),
    "sentences": ("run_sentence_encoder", 0),
}


_QUESTIONS = [{"question": "a b", "context": "c d a"}, {"question": "", "context": "a"}]
_ROWS = [("a b", "x", 0.5), ("c, d", "y", 1), ('"e"', "x", 2)] * 2
_TABLE = "text,label\n" + 'a b,x\n"c, d",y\n"""e""",x\n' * 2


def _json_lines(rows):
    return "".join(f"{json.dumps(row)}\n" for row in rows)


# The text files of some inputs.
_FILES = {
    "text/a.txt": random_text(random.Random(0), 4),
    "text/b.txt": random_text(random.Random(1), 4),
    "text/c.jsonl": _json_lines({"text": random_text(random.Random(i), 1)} for i in range(4)),
    "text/words.txt": "new\nwords\n",
    "text/lines.txt": "a b c\nd\n\nab ||| c\n",
    "text/masks.txt": "a [MASK] c\n[MASK]\n",
    "text/questions.jsonl": _json_lines(_QUESTIONS),
    "vocab/vocab.txt": "".join(f"{x}\n" for x in (*TOKENS, *(f"[unused{i}]" for i in range(5)))),
    **{f"table/{name}.csv": _TABLE for name in ("train", "dev", "test")},
    "table/test.jsonl": _json_lines({"text": text, "label": label} for text, label, _ in _ROWS),
    "table/scores.json": json.dumps([{"text": x, "label": y, "n": y * 2} for x, _, y in _ROWS]),
    "columns/train.txt": "-DOCSTART- O\n\n" + "a B-X\nb I-X\nc O\nd O\n\n" * 5,
    "choices/train.csv": "id,context,ending0,ending1,label\n"
    + "".join(f"{i},a b,c,d e,{i % 2}\n" for i in range(6)),
    "pairs/train.csv": "anchor,positive\n" + "a b,c\nb c,a d\nd,e a\n" * 2,
}


class Inputs:
    """Input folders by name, each made when it is first needed.

    They are in `folder`; `run(script, folder, arguments)` runs a script in a folder.
    """

    def __init__(self, folder, run):
        self._folder, self._run = pathlib.Path(folder), run

    def copy(self, command_line, target):
        """Copy the inputs named in a command line to a folder."""
        for name in sorted(set(re.findall(r"[=,](\w+)", command_line))):
            if self.make(name):
                shutil.copytree(self._folder / name, target / name)

    def make(self, name):
        """Make an input unless it exists; return whether the name is known."""
        folder = self._folder / name
        maker = getattr(self, f"_make_{name}", None)
        if name in _RUNS:
            maker = self._make_run
        elif name.startswith("served_"):
            maker = self._make_served
        files = [file for file in _FILES if file.startswith(f"{name}/")]
        if (maker or files) and not folder.exists():
            folder.mkdir()
            for file in files:
                (self._folder / file).write_text(_FILES[file])
            if maker:
                maker(folder)
        return folder.exists()

    def _make_model(self, folder):
        keras.utils.set_random_seed(0)
        write_release(folder, BertPretrainer(CONFIG))

    def _make_hf(self, folder):
        self.make("model")
        folder.rmdir()
        checkpoints.convert(str(self._folder / "model"), str(folder), "hugging_face")

    def _make_records(self, folder):
        write_records(folder / "x.tfrecord", 6)
        unmasked = records.pretraining_schema(has_masks=False)
        write_records(folder / "unmasked.tfrecord", 6, schema=unmasked)

    def _make_squad_data(self, folder):
        context = "a b c d e f"
        questions = [question(str(i), word, context, word) for i, word in enumerate("abcd")]
        dataset(folder / "train.json", [(context, questions)])

    def _make_run(self, folder):
        script, number = _RUNS[folder.name]
        command_line = COMMANDS[script][number]
        self.copy(command_line, folder)
        self._run(script, folder, command_line.split())
        for path in folder.iterdir():
            if path.name != "out":
                shutil.rmtree(path)
        for path in (folder / "out").iterdir():
            path.rename(folder / path.name)
        (folder / "out").rmdir()

    def _make_served(self, folder):
        self.make("model")
        task = folder.name.removeprefix("served_")
        vocab_file = str(self._folder / "model" / "vocab.txt")
        servable = make_servable(task, vocab_file, configs.ServingConfig(warm_up=False))
        serving.export(servable, str(folder))
