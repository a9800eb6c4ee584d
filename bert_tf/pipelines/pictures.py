"""Attention as a picture: one square for each head, a row for each layer.

Letters of shapes: L layers, N heads, S tokens.
"""

import warnings

import tensorflow as tf

from bert_tf import console, files
from bert_tf.errors import UserError

# Inches of a square: at least, for each token, and at most.
_LEAST, _FOR_EACH, _MOST = 1.2, 0.11, 8.0
_DPI = 110
_MOST_PIXELS = 16_000


def draw(path, text, heads):
    """Writes the attention of one text as a PNG.

    Dark is much; the colour goes with the square root, so that little is to be seen too.

    Args:
      path: the file.
      text: a `TextVectors` of `Attention`: `values` (L, N, S, S), `names` the layers' numbers.
      heads: the heads' numbers.

    Raises:
      UserError: if matplotlib is not installed, or the file cannot be written.
    """
    figures, colors, _ = matplotlib_parts()
    num_layers, num_heads, length, _ = text.values.shape
    side = min(max(_LEAST, _FOR_EACH * length), _MOST)
    width, height = num_heads * (side + 0.15) + 2.2, num_layers * (side + 0.35) + 1.6
    figure = figures.Figure(
        figsize=(width, height),
        dpi=min(_DPI, _MOST_PIXELS / max(width, height)),
        layout="constrained",
    )
    axes = figure.subplots(num_layers, num_heads, squeeze=False)
    norm = colors.PowerNorm(0.5, 0.0, 1.0)
    size = min(9.0, 72 * side / length * 0.9)
    for row, (layer, values) in enumerate(zip(text.names, text.values, strict=True)):
        for column, (head, square) in enumerate(zip(heads, values, strict=True)):
            ax = axes[row, column]
            image = ax.imshow(square, cmap="Blues", norm=norm, interpolation="nearest")
            ax.set_title(f"layer {layer}, head {head}", fontsize=9)
            ax.tick_params(length=0, labelsize=size)
            places = range(length)
            # Tokens stand at the left and lower edge of the whole, where they are the same for all.
            for axis, is_edge in ((ax.yaxis, column == 0), (ax.xaxis, row == num_layers - 1)):
                axis.set_ticks(places if is_edge else [], text.tokens if is_edge else [])
                for label in axis.get_ticklabels():
                    # Else what stands between two dollars were a formula.
                    label.set_parse_math(False)
            ax.tick_params(axis="x", rotation=90)
    bar = figure.colorbar(image, ax=axes, shrink=min(1.0, 4.0 / height), aspect=12)
    bar.set_label("share of attention", fontsize=9)
    figure.supylabel("from", fontsize=10)
    figure.supxlabel("to", fontsize=10)
    save(path, figure)


def save(path, figure, **how):
    """Writes a figure as a PNG, whole or not at all; a warning counts the characters it lacks."""
    agg = matplotlib_parts()[2]
    agg.FigureCanvasAgg(figure)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with files.replacing(path) as (temporary,), tf.io.gfile.GFile(temporary, "wb") as writer:
            figure.savefig(writer, format="png", **how)
    if lacking := {str(warning.message) for warning in caught if "Glyph" in str(warning.message)}:
        console.warning(
            "%s: matplotlib's font lacks %d of the characters, boxes stand for them; of attention, "
            "a page (.html) has them all",
            path, len(lacking),
        )  # fmt: skip


def matplotlib_parts():
    """Its modules figure, colors and backend_agg; UserError if it is not installed."""
    try:
        import matplotlib.backends.backend_agg
        import matplotlib.colors
        import matplotlib.figure
    except ImportError as error:
        raise UserError(
            f"a picture needs the package matplotlib ({error}): pip install matplotlib; a page "
            "(.html) of attention needs nothing"
        ) from None
    return matplotlib.figure, matplotlib.colors, matplotlib.backends.backend_agg
