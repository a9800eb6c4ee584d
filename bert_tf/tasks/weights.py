"""What each label weighs in the loss of training."""

from collections import Counter

from bert_tf import console
from bert_tf.errors import UserError
from bert_tf.tasks.labels import each_label


def class_weights(wanted, examples, labels, task_type):
    """The weights that `class_weights` asks for; a line says what they are.

    Args:
      wanted: "balanced", or L numbers as text.
      examples: list of `tsv.Example`, those of training.
      labels: the L labels in the order of their ids.
      task_type: a key of `kinds.TASK_CLASSES`.

    Returns:
      Tuple of L numbers. Balanced, all labels weigh the same together: N / (L * n) for a label that
      n of N examples have, so that an example weighs 1 in the mean; of `multi_label`, (N - n) / n,
      what is on one side of a sigmoid against the other.

    Raises:
      UserError: if there are no such weights.
    """
    if task_type == "regression":
        raise UserError("`class_weights`: a regression has no classes")
    if wanted == ["balanced"]:
        counts = Counter(label for example in examples for label in each_label(example.label))
        if missing := [label for label in labels if not counts[label]]:
            raise UserError(
                f"`class_weights=balanced`: no example of training has the label {missing[0]!r}"
            )
        everywhere = [label for label in labels if counts[label] == len(examples)]
        if task_type == "multi_label" and everywhere:
            raise UserError(
                "`class_weights=balanced`: all examples of training have the label "
                f"{everywhere[0]!r}"
            )
        if task_type == "multi_label":
            weights = [(len(examples) - counts[label]) / counts[label] for label in labels]
        else:
            weights = [len(examples) / (len(labels) * counts[label]) for label in labels]
    else:
        try:
            weights = [float(text) for text in wanted]
        except ValueError:
            weights = []
        if len(weights) != len(labels) or not all(0 <= w < float("inf") for w in weights):
            raise UserError(
                f"`class_weights`: balanced, or {len(labels)} numbers not below 0 for the labels "
                f"{', '.join(labels)}, were expected, found {','.join(wanted)}"
            )
    pairs = zip(labels, weights, strict=True)
    console.info("class weights: %s", ", ".join(f"{label} {weight:.4g}" for label, weight in pairs))
    return tuple(weights)
