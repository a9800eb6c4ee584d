"""Attention as a page for the browser, in one file that loads nothing from elsewhere.

Letters of shapes: L layers, N heads, S tokens.
"""

import base64
import html
import importlib.resources
import json

import numpy as np
import tensorflow as tf

from bert_tf import files

# The darkest colour, for all of the attention.
_DARK = np.array([8, 48, 107])


def write_page(path, text, heads):
    """Writes the attention of one text as an HTML page, whole or not at all.

    It shows a small picture of every head, and of the chosen one the lines from token to token.

    Args:
      path: the file.
      text: a `TextVectors` of `Attention`: `values` (L, N, S, S), `names` the layers' numbers.
      heads: the heads' numbers.

    Raises:
      UserError: if the file cannot be written.
    """
    page = importlib.resources.files("bert_tf.pipelines").joinpath("page.html").read_text("utf-8")
    top = "".join(f"<th scope=col>{head}</th>" for head in heads)
    rows = [f"<tr><td></td>{top}</tr>"]
    for i, (layer, values) in enumerate(zip(text.names, text.values, strict=True)):
        cells = "".join(_cell(i, j, layer, heads[j], square) for j, square in enumerate(values))
        rows.append(f"<tr><th scope=row>{layer}</th>{cells}</tr>")
    # In 16 bits, lowest byte first: a page with all heads of a long text is large enough as it is.
    shares = np.round(np.clip(text.values, 0, 1) * 65535).astype("<u2")
    data = {
        "tokens": text.tokens,
        "layers": text.names,
        "heads": list(heads),
        "values": base64.b64encode(shares.tobytes()).decode(),
    }
    parts = {
        "TITLE": html.escape(" ".join(text.tokens[1:-1])),
        "SQUARES": "\n".join(rows),
        # Nothing in it can end the element that it stands in.
        "DATA": json.dumps(data).replace("<", "\\u003c").replace(">", "\\u003e"),
    }
    # In one pass, so that a token with the name of a place stays a token.
    before, *pieces = page.split("@@")
    for name, after in zip(pieces[::2], pieces[1::2], strict=True):
        before += parts[name] + after
    files.write_text(path, before)


def _cell(row, column, layer, head, square):
    """One head's small picture (S, S), as a button."""
    share = np.sqrt(np.clip(square, 0, 1))[..., None]
    pixels = np.round(255 + share * (_DARK - 255)).astype("uint8")
    data = base64.b64encode(tf.io.encode_png(pixels).numpy()).decode()
    return (
        f"<td><button type=button data-row={row} data-column={column} "
        f'title="layer {layer}, head {head}"><img alt="layer {layer}, head {head}" '
        f'src="data:image/png;base64,{data}"></button></td>'
    )
