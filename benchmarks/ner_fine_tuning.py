#!/usr/bin/env python3
r"""Fine-tunes a Hugging Face folder to tag words, here and by transformers with PyTorch.

    python benchmarks/ner_fine_tuning.py --data_dir=conll2003 --model_dir=MODEL \
      --output_dir=/tmp/ner

Both read the same sentences cut by the same tokenizer and learn IOB2 on the first piece of each
word; the loss is the mean over the words of a batch, and a batch is padded to its longest sentence.
Both are scored by bert_tf.
"""

import os

import numpy as np
import peer_training
from absl import flags

import bert_tf
from bert_tf.cli.flags import FLAGS

peer_training.define_flags(num_seeds=1)
flags.DEFINE_bool("do_lower_case", True, "Whether the model is an uncased one.")


def main():
    peer_training.compare(ours, theirs, range(FLAGS.num_seeds))


def ours(seed):
    """Runs the script as a user would."""
    more = {"do_lower_case": FLAGS.do_lower_case, "report": True}
    return peer_training.by_script("run_ner.py", seed, **more)


def theirs(seed):
    """The same training by transformers."""
    import torch
    import transformers

    tagging = bert_tf.tasks.token_classification
    source = tagging.ColumnFiles(FLAGS.data_dir)
    sentences = {part: source.read(part) for part in ("train", "dev")}
    tags = tagging.infer_tags(sentences["train"])
    vocab_file = os.path.join(FLAGS.model_dir, "vocab.txt")
    tokenizer = bert_tf.FullTokenizer(vocab_file, FLAGS.do_lower_case)
    cut = tagging.WindowConfig(FLAGS.max_seq_length)
    rows = {
        part: list(tagging.features.convert_sentences(sentences[part], tags, tokenizer, cut))
        for part in sentences
    }
    transformers.set_seed(seed)
    model = transformers.AutoModelForTokenClassification.from_pretrained(
        FLAGS.model_dir, num_labels=len(tags.names)
    )

    def batch_of(some):
        size = max(sum(row["input_mask"]) for row in some)
        made = {name: torch.tensor([row[name][:size] for row in some]) for name in some[0]}
        return {
            "input_ids": made["input_ids"],
            "attention_mask": made["input_mask"],
            "labels": torch.where(made["word_starts"] > 0, made["tag_ids"], -100),
        }

    peer_training.train(
        model,
        lambda numbers: batch_of([rows["train"][i] for i in numbers]),
        len(rows["train"]),
        int(len(rows["train"]) / FLAGS.batch_size * FLAGS.num_train_epochs),
        FLAGS.batch_size,
        FLAGS.learning_rate,
        seed,
    )
    true, found = [], []
    with torch.no_grad():
        for start in range(0, len(rows["dev"]), 8):
            some = rows["dev"][start : start + 8]
            best = model(**batch_of(some)).logits.argmax(-1).numpy()
            for row, ids in zip(some, best, strict=True):
                for i in np.flatnonzero(row["word_starts"]):
                    if row["word_starts"][i] == tagging.features.SENTENCE_START:
                        true.append([])
                        found.append([])
                    true[-1].append(tags.names[row["tag_ids"][i]])
                    found[-1].append(tags.names[ids[i]])
    figures = tagging.scoring.count_spans(true, found).precision_recall_f1()
    names = ("eval_precision", "eval_recall", "eval_f1")
    results = dict(zip(names, figures, strict=True))
    # As run_ner.py does: by the tags of the data.
    as_data = (
        [tagging.schemes.convert_tags(x, tags.scheme, tags.data_scheme) for x in sentences]
        for sentences in (true, found)
    )
    return {"eval_accuracy": tagging.scoring.accuracy(*as_data), **results}


if __name__ == "__main__":
    bert_tf.cli.flags.run(main)
