"""Charts (PNG) and an HTML page of tokens, embeddings, attention, predictions and similarities."""

import base64
import html
import importlib.resources
import json
import warnings

import numpy as np
import tensorflow as tf

from bert_tf import console
from bert_tf.errors import UserError
from bert_tf.io import files

_DPI = 110
# Background colors of tokens by segment, and of special tokens.
_SEGMENT_COLORS = ("#cfe2f3", "#fce5cd")
_SPECIAL_COLOR = "#e0e0e0"
# Sentences are shortened to this many characters.
_MAX_LABEL = 60
# Side of an attention matrix in inches: minimum, per token, maximum.
_MIN_SIDE, _SIDE_PER_TOKEN, _MAX_SIDE = 1.2, 0.11, 8.0
# Maximum width and height of an attention chart.
_MAX_PIXELS = 16_000
# RGB of an attention probability of 1 on the HTML page; 0 is white.
_FULL_ATTENTION = np.array([8, 48, 107])


def draw_tokens(path, texts):
    """Write a PNG with the tokens, ids, segments and positions of a list of `EmbeddedText`."""
    widths = [[0.35 + 0.085 * max(4, len(x)) for x in text.tokens] for text in texts]
    total = max(map(sum, widths)) + 0.9
    patches = import_matplotlib().patches
    figure, ((axes,),) = _make_figure(total, 1.25 * len(texts) + 0.1)
    axes.set(xlim=(-0.9, total - 0.9), ylim=(1.25 * len(texts), 0))
    axes.axis("off")
    for row, (text, row_widths) in enumerate(zip(texts, widths, strict=True)):
        top, left = 1.25 * row + 0.15, 0.0
        for line, name in enumerate(("token", "id", "segment", "position")):
            axes.text(-0.1, top + 0.16 + 0.25 * line, name, ha="right", va="center",
                      fontsize=8, color="#666666")  # fmt: skip
        columns = zip(text.tokens, text.input_ids, text.segment_ids, row_widths, strict=True)
        for position, (token, token_id, segment, width) in enumerate(columns):
            is_special = token.startswith("[") and token.endswith("]")
            color = _SPECIAL_COLOR if is_special else _SEGMENT_COLORS[segment % 2]
            box = patches.FancyBboxPatch(
                (left + 0.03, top + 0.03), width - 0.11, 0.26,
                boxstyle="round,pad=0.03", facecolor=color, edgecolor="#888888", linewidth=0.6,
            )  # fmt: skip
            axes.add_patch(box)
            middle = left + (width - 0.05) / 2
            axes.text(middle, top + 0.16, token, ha="center", va="center", fontsize=10,
                      family="monospace", parse_math=False)  # fmt: skip
            for line, value in enumerate((token_id, segment, position), 1):
                axes.text(middle, top + 0.16 + 0.25 * line, str(value), ha="center", va="center",
                          fontsize=8)  # fmt: skip
            left += width
    _save(path, figure)


def draw_embeddings(path, text):
    """Write a PNG with the three embeddings of an `EmbeddedText` and their normalized sum."""
    titles = {"word": "word", "segment": "+ segment", "position": "+ position",
              "output": "normalized: input of layer 0"}  # fmt: skip
    figure, (axes,) = _make_figure(12.0, 0.24 * len(text.tokens) + 1.2, len(titles))
    summands = np.abs(np.stack([text.word, text.segment, text.position]))
    # Clip at a quantile, because a few values are far larger than all others.
    limits = [float(np.quantile(x, 0.99)) or 1.0 for x in (summands, np.abs(text.output))]
    for column, ((name, title), ax) in enumerate(zip(titles.items(), axes, strict=True)):
        limit = limits[name == "output"]
        image = ax.imshow(getattr(text, name), cmap="RdBu_r", vmin=-limit, vmax=limit,
                          aspect="auto", interpolation="nearest")  # fmt: skip
        ax.set_title(title, fontsize=10)
        ax.tick_params(length=0, labelsize=9)
        ax.set_yticks(range(len(text.tokens)) if not column else [])
        if not column:
            _set_labels(ax.yaxis, text.tokens)
        ax.set_xlabel(f"{text.word.shape[1]} dimensions", fontsize=9)
        if name in ("position", "output"):
            figure.colorbar(image, ax=ax, extend="both").ax.tick_params(labelsize=8)
    _save(path, figure)


def draw_mask_predictions(path, predictions):
    """Write a PNG with bars for the predictions at each [MASK] in some `MaskPredictions`."""
    charts = [
        (text, position, best)
        for text in predictions
        for position, best in zip(text.positions, text.best, strict=True)
    ]
    num_best = max((len(best) for _, _, best in charts), default=1)
    # All charts share a scale, with space for the number next to the longest bar.
    limit = 115 * max((best[0][1] for _, _, best in charts), default=1)
    height = max(1, len(charts)) * (0.26 * num_best + 0.5)
    figure, axes = _make_figure(7.5, height, 1, max(1, len(charts)))
    for ax, (text, position, best) in zip(axes[:, 0], charts, strict=False):
        tokens = text.tokens.copy()
        if len(text.positions) > 1:
            tokens[position] = f"({tokens[position]})"
        ax.set_title(" ".join(tokens[1:-1]), fontsize=10, loc="left", parse_math=False)
        percentages = [100 * probability for _, probability in best]
        bars = ax.barh(range(len(best)), percentages, color="#6fa8dc")
        ax.bar_label(bars, [f"{value:.1f} %" for value in percentages], padding=3, fontsize=8)
        ax.set(yticks=range(len(best)), xlim=(0, limit), xticks=[])
        ax.invert_yaxis()
        _set_labels(ax.yaxis, [token for token, _ in best])
        ax.tick_params(length=0, labelsize=9)
        ax.spines[["top", "right", "bottom"]].set_visible(False)
    _save(path, figure)


def draw_similarities(path, sentences, vectors):
    """Write a PNG with the cosine similarity of each pair of sentences, given vectors (B, H)."""
    from sklearn.metrics.pairwise import cosine_similarity

    cosines = cosine_similarity(vectors)
    count = len(sentences)
    side = 0.42 * count
    labels = [x if len(x) <= _MAX_LABEL else x[: _MAX_LABEL - 3] + "..." for x in sentences]
    figure, ((ax,),) = _make_figure(side + 0.075 * max(map(len, labels)) + 1.2, side + 0.6)
    # The scale ignores the diagonal, which is always 1 and would hide other differences.
    others = cosines[~np.eye(count, dtype=bool)]
    low, high = (float(others.min()), float(others.max())) if count > 1 else (0.0, 1.0)
    image = ax.imshow(cosines, cmap="Blues", vmin=low, vmax=max(high, low + 1e-6))
    for row in range(count):
        for column in range(count):
            is_dark = cosines[row, column] > (low + high) / 2
            ax.text(column, row, f"{cosines[row, column]:.2f}", ha="center", va="center",
                    fontsize=7, color="white" if is_dark else "black")  # fmt: skip
    ax.set(yticks=range(count), xticks=range(count), xticklabels=range(1, count + 1))
    _set_labels(ax.yaxis, [f"{label}  {i}" for i, label in enumerate(labels, 1)])
    ax.tick_params(length=0, labelsize=9)
    bar = figure.colorbar(image, ax=ax, shrink=0.8)
    bar.set_label("cosine", fontsize=9)
    _save(path, figure)


def draw_attention(path, text, heads):
    """Write a PNG with the attention in a `TextVectors`: a grid of matrices by layer and head.

    `heads` are the indices of the heads in `text`, for the titles.
    """
    num_layers, num_heads, length, _ = text.values.shape
    side = min(max(_MIN_SIDE, _SIDE_PER_TOKEN * length), _MAX_SIDE)
    width, height = num_heads * (side + 0.15) + 2.2, num_layers * (side + 0.35) + 1.6
    dpi = min(_DPI, _MAX_PIXELS / max(width, height))
    figure, axes = _make_figure(width, height, num_heads, num_layers, dpi)
    # The square root makes small probabilities visible.
    norm = import_matplotlib().colors.PowerNorm(0.5, 0.0, 1.0)
    font_size = min(9.0, 72 * side / length * 0.9)
    for row, (layer, layer_values) in enumerate(zip(text.layers, text.values, strict=True)):
        for column, (head, matrix) in enumerate(zip(heads, layer_values, strict=True)):
            ax = axes[row, column]
            image = ax.imshow(matrix, cmap="Blues", norm=norm, interpolation="nearest")
            ax.set_title(f"layer {layer}, head {head}", fontsize=9)
            ax.tick_params(length=0, labelsize=font_size)
            # The tokens are the same for all matrices, so only the outer edges have labels.
            for axis, is_edge in ((ax.yaxis, column == 0), (ax.xaxis, row == num_layers - 1)):
                axis.set_ticks(range(length) if is_edge else [])
                _set_labels(axis, text.tokens if is_edge else [])
            ax.tick_params(axis="x", rotation=90)
    bar = figure.colorbar(image, ax=axes, shrink=min(1.0, 4.0 / height), aspect=12)
    bar.set_label("attention probability", fontsize=9)
    figure.supylabel("from", fontsize=10)
    figure.supxlabel("to", fontsize=10)
    _save(path, figure, bbox_inches=None)


def write_attention_page(path, text, heads):
    """Write a self-contained HTML page with the attention of one text; see `draw_attention`."""
    page = importlib.resources.files("bert_tf.pipelines").joinpath("page.html").read_text("utf-8")
    header = "".join(f"<th scope=col>{head}</th>" for head in heads)
    rows = [f"<tr><td></td>{header}</tr>"]
    for i, (layer, matrices) in enumerate(zip(text.layers, text.values, strict=True)):
        cells = "".join(
            _thumbnail(i, j, layer, heads[j], matrix) for j, matrix in enumerate(matrices)
        )
        rows.append(f"<tr><th scope=row>{layer}</th>{cells}</tr>")
    # 16-bit integers, to keep the page of a long text with all heads reasonably small.
    probabilities = np.round(np.clip(text.values, 0, 1) * 65535).astype("<u2")
    data = {
        "tokens": text.tokens,
        "layers": text.layers,
        "heads": list(heads),
        "values": base64.b64encode(probabilities.tobytes()).decode(),
    }
    substitutions = {
        "TITLE": html.escape(" ".join(text.tokens[1:-1])),
        "THUMBNAILS": "\n".join(rows),
        # Escaped so that no token can close the surrounding <script> element.
        "DATA": json.dumps(data).replace("<", "\\u003c").replace(">", "\\u003e"),
    }
    # Substitute in a single pass, so that a token "@@DATA@@" is not replaced.
    result, *rest = page.split("@@")
    for name, following in zip(rest[::2], rest[1::2], strict=True):
        result += substitutions[name] + following
    files.write_text(path, result)


def _thumbnail(row, column, layer, head, matrix):
    """Return a table cell with a button that shows the attention (T, T) of a head."""
    share = np.sqrt(np.clip(matrix, 0, 1))[..., None]
    pixels = np.round(255 + share * (_FULL_ATTENTION - 255)).astype("uint8")
    data = base64.b64encode(tf.io.encode_png(pixels).numpy()).decode()
    return (
        f"<td><button type=button data-row={row} data-column={column} "
        f'title="layer {layer}, head {head}"><img alt="layer {layer}, head {head}" '
        f'src="data:image/png;base64,{data}"></button></td>'
    )


def import_matplotlib():
    """Return matplotlib with the modules used here; raise UserError if it is not installed."""
    try:
        import matplotlib.colors
        import matplotlib.figure
        import matplotlib.patches
    except ImportError as error:
        raise UserError(
            f"PNG files require the package matplotlib ({error}): pip install matplotlib, or write "
            "an HTML page of attention"
        ) from None
    return matplotlib


def _make_figure(width, height, columns=1, rows=1, dpi=_DPI):
    """Return a figure of a size in inches, and its array of axes (rows, columns)."""
    figure_class = import_matplotlib().figure.Figure
    figure = figure_class(figsize=(width, height), dpi=dpi, layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False)


def _set_labels(axis, texts):
    """Label the ticks of an axis, without parsing text between dollar signs as a formula."""
    axis.set_ticklabels(texts)
    for label in axis.get_ticklabels():
        label.set_parse_math(False)


def _save(path, figure, bbox_inches="tight"):
    """Write a figure as a PNG, and log a warning if the font lacks characters."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with files.replacing(path) as (temporary,), tf.io.gfile.GFile(temporary, "wb") as writer:
            figure.savefig(writer, format="png", bbox_inches=bbox_inches)
    if missing := {str(warning.message) for warning in caught if "Glyph" in str(warning.message)}:
        console.warning(
            "%s: matplotlib's font lacks %d characters, which are drawn as boxes; an HTML page of "
            "attention shows all characters",
            path, len(missing),
        )  # fmt: skip
