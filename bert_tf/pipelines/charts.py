"""Pictures of tokens, their embeddings, guesses of masked words, and how near sentences are.

Letters of shapes: T tokens of one text, H hidden, K guesses, N sentences.
"""

import numpy as np

from bert_tf.pipelines import pictures
from bert_tf.pipelines.nearest import unit
from bert_tf.pipelines.pictures import matplotlib_parts

_DPI = 110
# A colour for each segment.
_SEGMENTS = ("#cfe2f3", "#fce5cd")
_SPECIAL = "#e0e0e0"
# The most characters of a sentence beside a picture.
_MOST = 60


def draw_tokens(path, all_parts):
    """Writes what becomes of texts as a PNG: their tokens, and beneath each its three numbers.

    Args:
      path: the file.
      all_parts: a list of `Parts` of `EmbeddingParts`, a row for each.

    Raises:
      UserError: if matplotlib is not installed, or the file cannot be written.
    """
    widths = [[0.35 + 0.085 * max(4, len(x)) for x in parts.tokens] for parts in all_parts]
    total = max(map(sum, widths)) + 0.9
    figure, axes = _figure(total, 1.25 * len(all_parts) + 0.1)
    axes.set(xlim=(-0.9, total - 0.9), ylim=(1.25 * len(all_parts), 0))
    axes.axis("off")
    for row, (parts, row_widths) in enumerate(zip(all_parts, widths, strict=True)):
        top, left = 1.25 * row + 0.15, 0.0
        for line, name in enumerate(("token", "id", "segment", "position")):
            axes.text(-0.1, top + 0.16 + 0.25 * line, name, ha="right", va="center",
                      fontsize=8, color="#666666")  # fmt: skip
        columns = zip(parts.tokens, parts.input_ids, parts.segment_ids, row_widths, strict=True)
        for place, (token, number, segment, width) in enumerate(columns):
            is_special = token.startswith("[") and token.endswith("]")
            axes.add_patch(_box(left, top, width - 0.05, 0.32,
                                _SPECIAL if is_special else _SEGMENTS[segment % 2]))  # fmt: skip
            middle = left + (width - 0.05) / 2
            axes.text(middle, top + 0.16, token, ha="center", va="center", fontsize=10,
                      family="monospace", parse_math=False)  # fmt: skip
            for line, value in enumerate((number, segment, place), 1):
                axes.text(middle, top + 0.16 + 0.25 * line, str(value), ha="center", va="center",
                          fontsize=8)  # fmt: skip
            left += width
    _save(path, figure)


def draw_embeddings(path, parts):
    """Writes the three embeddings of a text's tokens, and what comes of them, as a PNG.

    Each is a square of colours, a row for each token, a column for each of the H numbers.

    Args:
      path: the file.
      parts: `Parts` of `EmbeddingParts`.

    Raises:
      UserError: if matplotlib is not installed, or the file cannot be written.
    """
    names = ("word", "segment", "position", "output")
    height = 0.24 * len(parts.tokens) + 1.2
    figure, axes = _figure(12.0, height, len(names))
    added = np.abs(np.stack([parts.word, parts.segment, parts.position]))
    # A few numbers are far larger than all others, and would leave these without a colour.
    limits = [float(np.quantile(x, 0.99)) or 1.0 for x in (added, np.abs(parts.output))]
    signs = ("", "+ ", "+ ", "normalised: ")
    for column, (name, sign, ax) in enumerate(zip(names, signs, axes, strict=True)):
        limit = limits[name == "output"]
        image = ax.imshow(getattr(parts, name), cmap="RdBu_r", vmin=-limit, vmax=limit,
                          aspect="auto", interpolation="nearest")  # fmt: skip
        ax.set_title(sign + ("what goes into layer 0" if name == "output" else name), fontsize=10)
        ax.tick_params(length=0, labelsize=9)
        ax.set_yticks(range(len(parts.tokens)) if not column else [])
        if not column:
            _label(ax.yaxis, parts.tokens)
        ax.set_xlabel(f"{parts.word.shape[1]} numbers", fontsize=9)
        if name in ("position", "output"):
            figure.colorbar(image, ax=ax, extend="both").ax.tick_params(labelsize=8)
    _save(path, figure)


def draw_guesses(path, guesses):
    """Writes the guesses of masked words as a PNG: bars for each masked place of each text.

    Args:
      path: the file.
      guesses: a list of `Guesses` of `FillMask.guess`.

    Raises:
      UserError: if matplotlib is not installed, or the file cannot be written.
    """
    charts = [
        (found, place, best)
        for found in guesses
        for place, best in zip(found.places, found.best, strict=True)
    ]
    count = max((len(best) for _, _, best in charts), default=1)
    # The same scale for all, and room for the number behind the longest bar.
    limit = 115 * max((best[0][1] for _, _, best in charts), default=1)
    figure, axes = _figure(7.5, max(1, len(charts)) * (0.26 * count + 0.5), 1, max(1, len(charts)))
    for ax, (found, place, best) in zip(np.atleast_1d(axes), charts, strict=False):
        words = found.tokens.copy()
        if len(found.places) > 1:
            words[place] = f"({words[place]})"
        ax.set_title(" ".join(words[1:-1]), fontsize=10, loc="left", parse_math=False)
        chances = [100 * chance for _, chance in best]
        bars = ax.barh(range(len(best)), chances, color="#6fa8dc")
        ax.bar_label(bars, [f"{chance:.1f} %" for chance in chances], padding=3, fontsize=8)
        ax.set(yticks=range(len(best)), xlim=(0, limit), xticks=[])
        ax.invert_yaxis()
        _label(ax.yaxis, [token for token, _ in best])
        ax.tick_params(length=0, labelsize=9)
        ax.spines[["top", "right", "bottom"]].set_visible(False)
    _save(path, figure)


def draw_nearness(path, sentences, vectors):
    """Writes the cosine of each sentence's vector with each other one's as a PNG.

    Args:
      path: the file.
      sentences: N str.
      vectors: (N, H).

    Raises:
      UserError: if matplotlib is not installed, or the file cannot be written.
    """
    vectors = unit(vectors)
    cosines = vectors @ vectors.T
    count = len(sentences)
    side = 0.42 * count
    shown = [x if len(x) <= _MOST else x[: _MOST - 3] + "..." for x in sentences]
    figure, ax = _figure(side + 0.075 * max(map(len, shown)) + 1.2, side + 0.6)
    # What a sentence has to do with itself would leave the others without a difference.
    others = cosines[~np.eye(count, dtype=bool)]
    low, high = (float(others.min()), float(others.max())) if count > 1 else (0.0, 1.0)
    image = ax.imshow(cosines, cmap="Blues", vmin=low, vmax=max(high, low + 1e-6))
    for row in range(count):
        for column in range(count):
            dark = cosines[row, column] > (low + high) / 2
            ax.text(column, row, f"{cosines[row, column]:.2f}", ha="center", va="center",
                    fontsize=7, color="white" if dark else "black")  # fmt: skip
    ax.set(yticks=range(count), xticks=range(count), xticklabels=range(1, count + 1))
    _label(ax.yaxis, [f"{text}  {i}" for i, text in enumerate(shown, 1)])
    ax.tick_params(length=0, labelsize=9)
    bar = figure.colorbar(image, ax=ax, shrink=0.8)
    bar.set_label("cosine", fontsize=9)
    _save(path, figure)


def _save(path, figure):
    # Labels may be wider than the room that was kept for them.
    pictures.save(path, figure, bbox_inches="tight")


def _figure(width, height, columns=1, rows=1):
    figure = matplotlib_parts()[0].Figure(figsize=(width, height), dpi=_DPI, layout="constrained")
    return figure, figure.subplots(rows, columns)


def _box(left, top, width, height, colour):
    from matplotlib.patches import FancyBboxPatch

    return FancyBboxPatch(
        (left + 0.03, top + 0.03), width - 0.06, height - 0.06,
        boxstyle="round,pad=0.03", facecolor=colour, edgecolor="#888888", linewidth=0.6,
    )  # fmt: skip


def _label(axis, texts):
    """Writes texts beside the ticks; what stands between two dollars is no formula."""
    axis.set_ticklabels(texts)
    for label in axis.get_ticklabels():
        label.set_parse_math(False)
