#!/usr/bin/env python3
r"""Fine-tune a Hugging Face folder to tag words with bert_tf and with transformers.

    python benchmarks/ner_fine_tuning.py --data_dir=conll2003 --model_dir=MODEL \
      --output_dir=/tmp/ner

Both read the same windows from the same tokenizer and learn IOB2 tags on the first piece of each
word. The loss is the mean over the words of a batch, and a batch is padded to its longest sentence.
Both are scored by bert_tf.
"""

import os

import numpy as np
import peer_training
from absl import flags

import bert_tf
from bert_tf.cli.flags import FLAGS

peer_training.define_flags(num_seeds=1)
flags.DEFINE_bool("do_lower_case", True, "Whether the model is uncased.")


def main():
    peer_training.compare(train_bert_tf, train_transformers, range(FLAGS.num_seeds))


def train_bert_tf(seed):
    """Run the script as a user would."""
    return peer_training.run_script(
        "run_ner.py", seed, do_lower_case=FLAGS.do_lower_case, report=True
    )


def train_transformers(seed):
    """Run the same training with transformers."""
    import torch
    import transformers

    tagging = bert_tf.tasks.token_classification
    source = tagging.ColumnFiles(FLAGS.data_dir)
    sentences = {split: source.read(split) for split in ("train", "dev")}
    tags = tagging.infer_tags(sentences["train"])
    vocab_file = os.path.join(FLAGS.model_dir, "vocab.txt")
    tokenizer = bert_tf.FullTokenizer(vocab_file, FLAGS.do_lower_case)
    window = tagging.TokenClassificationConfig(max_seq_length=FLAGS.max_seq_length)
    rows = {
        split: list(tagging.features.convert_sentences(sentences[split], tags, tokenizer, window))
        for split in sentences
    }
    transformers.set_seed(seed)
    model = transformers.AutoModelForTokenClassification.from_pretrained(
        FLAGS.model_dir, num_labels=len(tags.names)
    )

    def batch_of(examples):
        size = max(sum(row["input_mask"]) for row in examples)
        batch = {name: torch.tensor([row[name][:size] for row in examples]) for name in examples[0]}
        return {
            "input_ids": batch["input_ids"],
            "attention_mask": batch["input_mask"],
            "labels": torch.where(batch["word_starts"] > 0, batch["tag_ids"], -100),
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
    true, predicted = [], []
    with torch.no_grad():
        for start in range(0, len(rows["dev"]), 8):
            examples = rows["dev"][start : start + 8]
            best = model(**batch_of(examples)).logits.argmax(-1).numpy()
            for row, ids in zip(examples, best, strict=True):
                for i in np.flatnonzero(row["word_starts"]):
                    if row["word_starts"][i] == tagging.features.SENTENCE_START:
                        true.append([])
                        predicted.append([])
                    true[-1].append(tags.names[row["tag_ids"][i]])
                    predicted[-1].append(tags.names[ids[i]])
    scores = tagging.scoring.count_spans(true, predicted).precision_recall_f1()
    names = ("eval_precision", "eval_recall", "eval_f1")
    results = dict(zip(names, scores, strict=True))
    # Accuracy is measured on the data's own tags, as in run_ner.py.
    as_data = (
        [tagging.schemes.convert_tags(x, tags.scheme, tags.data_scheme) for x in sentences]
        for sentences in (true, predicted)
    )
    return {"eval_accuracy": tagging.scoring.accuracy(*as_data), **results}


if __name__ == "__main__":
    bert_tf.cli.flags.run(main)
