#!/usr/bin/env python3
"""Convert a SavedModel to ONNX with tf2onnx, adding the op Erfc of the exact GELU.

    python tools/convert_to_onnx.py --saved-model /models/mrpc_ids/1 --output mrpc.onnx

It takes the flags of `python -m tf2onnx.convert`. Models with the release's tanh GELU do not need
this tool.
"""

import sys

import numpy as np
from tf2onnx import convert, utils
from tf2onnx.handler import tf_op


@tf_op("Erfc")
class Erfc:
    """Converts Erfc(x) to 1 - Erf(x), which ONNX supports since opset 9."""

    @classmethod
    def version_9(cls, ctx, node, **_):
        """Replace a node; called by tf2onnx."""
        dtype, shape = ctx.get_dtype(node.output[0]), ctx.get_shape(node.output[0])
        ctx.remove_node(node.name)
        one = np.array(1, utils.map_onnx_to_numpy_type(dtype))
        one = ctx.make_const(utils.make_name("one"), one)
        erf = ctx.make_node("Erf", node.input, dtypes=[dtype], shapes=[shape])
        ctx.make_node(
            "Sub",
            [one.output[0], erf.output[0]],
            outputs=node.output,
            name=node.name,
            dtypes=[dtype],
            shapes=[shape],
        )


if __name__ == "__main__":
    try:
        convert.main()
    except RuntimeError as error:
        if "Op type not registered" not in str(error):
            raise
        sys.exit("convert_to_onnx.py: error: the model takes text; export it with --inputs=ids")
