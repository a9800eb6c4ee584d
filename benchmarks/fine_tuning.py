#!/usr/bin/env python3
r"""Fine-tune a Hugging Face folder on a task with bert_tf and with transformers, seed by seed.

    python benchmarks/fine_tuning.py --task_name=cola --data_dir=CoLA --model_dir=MODEL \
      --output_dir=/tmp/cola

Learning rate, warm-up, batch size, epochs, weight decay, clipping and optimizer (AdamW with bias
correction) are the same, and both pad a batch to its longest text. The schedule differs slightly
(see `peer_training`), and so does what a seed determines: the initial weights of the classifier,
dropout and the order of the examples.
"""

import numpy as np
import peer_training
from absl import flags

import bert_tf
from bert_tf.cli.flags import FLAGS

flags.DEFINE_string("task_name", "cola", "Task of run_classifier.py.")
peer_training.define_flags(num_seeds=5)


def main():
    peer_training.compare(train_bert_tf, train_transformers, range(FLAGS.num_seeds))


def train_bert_tf(seed):
    """Run the script as a user would."""
    return peer_training.run_script("run_classifier.py", seed, task_name=FLAGS.task_name)


def train_transformers(seed):
    """Run the same training with transformers."""
    import torch
    import transformers

    dataset = bert_tf.tasks.classification.find_task(FLAGS.task_name)
    train, dev = (
        bert_tf.tasks.classification.read_examples(dataset, FLAGS.data_dir, x)
        for x in ("train", "dev")
    )
    transformers.set_seed(seed)
    tokenizer = transformers.AutoTokenizer.from_pretrained(FLAGS.model_dir)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(
        FLAGS.model_dir, num_labels=len(dataset.labels)
    )

    def batch_of(examples):
        texts = [[example.text_a for example in examples]]
        if examples[0].text_b is not None:
            texts.append([example.text_b for example in examples])
        encoded = tokenizer(
            *texts, truncation=True, max_length=FLAGS.max_seq_length, padding="longest",
            return_tensors="pt",
        )  # fmt: skip
        labels = torch.tensor([dataset.labels.index(example.label) for example in examples])
        return {**encoded, "labels": labels}

    peer_training.train(
        model,
        lambda rows: batch_of([train[i] for i in rows]),
        len(train),
        int(len(train) / FLAGS.batch_size * FLAGS.num_train_epochs),
        FLAGS.batch_size,
        FLAGS.learning_rate,
        seed,
    )
    logits = []
    with torch.no_grad():
        for start in range(0, len(dev), 8):
            logits.append(model(**batch_of(dev[start : start + 8])).logits.numpy())
    predicted = np.concatenate(logits).argmax(-1)
    true = np.array([dataset.labels.index(example.label) for example in dev])
    metrics = bert_tf.training.metrics.METRICS
    names = ("accuracy", *dataset.metrics)
    return {f"eval_{name}": float(metrics[name](true, predicted)) for name in names}


if __name__ == "__main__":
    bert_tf.cli.flags.run(main)
