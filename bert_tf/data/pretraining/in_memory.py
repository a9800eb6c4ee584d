"""A corpus that is held in memory as a whole, as the release did it."""

from bert_tf import console
from bert_tf.data.pretraining.corpus import Corpus, Tokenize, chunks
from bert_tf.data.pretraining.instances import create_instances
from bert_tf.data.pretraining.writing import Counts, warn_of_limits, write
from bert_tf.errors import UserError


def read_corpus(source, tokenizer, by_spaces=False):
    """Tokenizes a source. Lines that tokenize to nothing are left out.

    Args:
      source: one of `sources`.
      tokenizer: a `FullTokenizer`.
      by_spaces: whether words are what stands between spaces.

    Returns:
      A `Corpus`.

    Raises:
      UserError: if it cannot be read, or has no text.
    """
    with console.progress("tokenizing", source) as told:
        dealt = map(Tokenize(tokenizer, by_spaces), chunks(source.documents(), 1, told))
        corpus = Corpus.of([block for blocks in dealt for _, block in blocks])
    check_text(source, len(corpus.ids))
    return corpus


def check_text(source, tokens):
    """UserError if a source has no text."""
    if not tokens:
        raise UserError(f"{source.name}: no text in it, one sentence a line was expected")


def make_whole(source, paths, tokenizer, settings):
    """Makes the instances of a source and writes them to the files in turn.

    Args:
      source: one of `sources`.
      paths: the files.
      tokenizer: a `FullTokenizer`.
      settings: `Settings`.

    Returns:
      `Counts`.

    Raises:
      UserError: as `read_corpus`, and if no instance is made or a file cannot be written.
    """
    corpus = read_corpus(source, tokenizer, settings.word_boundaries == "spaces")
    total = settings.dupe_factor * (len(corpus.documents) - 1)
    ticker = console.Ticker("creating", "documents", total)
    made = create_instances(corpus, tokenizer.vocab, settings, told=ticker.add)
    ticker.done()
    check_instances(source, len(made))
    counts = Counts.of(made, corpus, tokenizer.vocab, settings)
    warn_of_limits([counts], settings)
    ticker = console.Ticker("writing", "instances", total=len(made))
    write(paths, made, corpus, tokenizer.vocab, settings, ticker.add)
    ticker.done()
    counts.tell(settings)
    return counts


def check_instances(source, count):
    """UserError if a source gave no instance, which is so if all of its sentences are one token."""
    if not count:
        raise UserError(f"{source.name}: not one instance can be made of its text")
