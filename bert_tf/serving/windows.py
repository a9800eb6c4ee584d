"""Where the windows of texts lie, inside the graph, as `tasks.windows` lays them.

Letters of shapes: B texts, W windows of all texts, R some of these, S positions of a window.
"""

import tensorflow as tf


class Windows:
    """The windows of B texts of any length.

    Attributes:
      counts: int32 (B,), how many each text has.
      texts: int32 (W,), the text of each.
      first: int32 (W,), its first token, counted in its text.
      length: int32 (W,), its number of tokens.
    """

    def __init__(self, totals, rooms, stride):
        """Lays the windows.

        Args:
          totals: int32 (B,), the numbers of tokens.
          rooms: int32 (B,), how many tokens fit into a window of each text.
          stride: how many tokens further on the next one begins.
        """
        steps = tf.minimum(rooms, stride)
        more = tf.maximum(totals - rooms + steps - 1, 0) // steps
        self.counts = tf.where(totals > 0, 1 + more, 0)
        self.texts = tf.repeat(tf.range(tf.size(totals)), self.counts)
        number = tf.range(tf.size(self.texts))
        self._number = number - tf.gather(tf.cumsum(self.counts, exclusive=True), self.texts)
        self._total, self._room, self._step = (
            tf.gather(x, self.texts) for x in (totals, rooms, steps)
        )
        self.first = self._number * self._step
        self.length = tf.minimum(self._total - self.first, self._room)

    def is_max_context(self, rows, place):
        """Whether a token is farther from both edges here than in any other window: bool (R, S).

        Args:
          rows: int32 (R,), which windows.
          place: int32 (R, S), the token's number in the window; any, where there is none.
        """
        number, first, total, room, step = (
            tf.gather(x, rows)[:, None]
            for x in (self._number, self.first, self._total, self._room, self._step)
        )

        def context(shift):
            # In the window so many further on. In double precision, as Python adds it up.
            begin = first + shift * step
            length = tf.minimum(total - begin, room)
            here = place - shift * step
            score = tf.cast(tf.minimum(here, length - 1 - here), tf.float64)
            score += 0.01 * tf.cast(length, tf.float64)
            exists = (number + shift >= 0) & (begin < total)
            # There is none behind one that comes to the end.
            exists &= (shift <= 0) | (begin - step + room < total)
            return tf.where(exists & (here >= 0) & (here < length), score, -1.0)

        mine = context(0)
        # A token near the middle of a window is near the edge of all but those beside it.
        return (mine > context(-1)) & (mine >= context(1))


def parts(texts, rows, starts, ends):
    """Parts of strings, by characters of what is UTF-8 in them.

    Each text is taken apart once, however many parts are wanted of it.

    Args:
      texts: string (B,).
      rows: int32 (N,), of which text each part is.
      starts: int32 (N,), its first character.
      ends: int32 (N,), the one behind it.

    Returns:
      string (N,)
    """
    characters = tf.strings.unicode_split(texts, "UTF-8", errors="ignore")
    first = tf.cast(tf.gather(characters.row_starts(), rows), tf.int32)
    places = tf.ragged.range(first + starts, first + ends)
    wanted = tf.gather(characters.values, places.values)
    return tf.strings.reduce_join(
        tf.RaggedTensor.from_row_splits(wanted, places.row_splits, validate=False), axis=1
    )
