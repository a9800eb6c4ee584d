"""The column file that prediction ends in."""

from bert_tf import files
from bert_tf.tasks.token_classification.schemes import OUTSIDE


def write_columns(path, sentences, tags):
    """Writes the sentences with their columns and behind them the tags found, as conlleval reads.

    Args:
      path: the file.
      sentences: list of `Sentence`.
      tags: for each the list of its words' tags.
    """
    with files.writing_text(path) as write:
        for sentence, found in zip(sentences, tags, strict=True):
            write("".join(f"{line} {OUTSIDE}\n\n" for line in sentence.leading_lines))
            lines = (
                " ".join([*columns, tag])
                for columns, tag in zip(sentence.columns, found, strict=True)
            )
            write("\n".join(lines) + "\n\n")
            write("".join(f"{line} {OUTSIDE}\n\n" for line in sentence.trailing_lines))
