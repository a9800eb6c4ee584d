"""ONNX graphs of BERT models, written from weights and config in standard operators.

ONNX Runtime fuses bias and GELU when it loads the model. `Attention`, a standard operator since
opset 23, is as fast as the fused operator that ONNX Runtime's optimizer inserts.

Shapes: B batch, S sequence, P positions, H hidden.
"""

import os
import tempfile

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnxruntime import quantization

from bert_tf.io import files
from bert_tf.modeling.layers import MASKED_SCORE

# The first with the operator `Attention`; onnx 1.18, ONNX Runtime 1.23.
OPSET = 23

_ACTIVATIONS = {"relu": "Relu", "tanh": "Tanh", "linear": "Identity"}
_GELUS = {"gelu": "tanh", "gelu_erf": "none"}


class OnnxGraph:
    """A graph under construction, in which tensors are represented by their names.

    Args:
      tensors: dict from the release's names to the weights of a model, see `checkpoints.tensors`.
      config: the `BertConfig`.
    """

    def __init__(self, tensors, config):
        self.tensors, self.config = tensors, config
        self._nodes, self._initializers = [], {}

    def op(self, op_type, *inputs, num_outputs=None, **attributes):
        """Add a node and return its output, or a list of `num_outputs`; inputs may be arrays."""
        inputs = [x if isinstance(x, str) else self._constant(x) for x in inputs]
        name = f"{op_type}_{len(self._nodes)}"
        outputs = [f"{name}_{i}" for i in range(num_outputs)] if num_outputs else [name]
        self._nodes.append(helper.make_node(op_type, inputs, outputs, name, **attributes))
        return outputs if num_outputs else name

    def _constant(self, value):
        return self._initializer(f"constant_{len(self._initializers)}", np.asarray(value))

    def cast(self, x, dtype):
        return self.op("Cast", x, to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def _initializer(self, name, value):
        self._initializers.setdefault(name, numpy_helper.from_array(value, name))
        return name

    def weight(self, name):
        """Return a weight by the release's name."""
        return self._initializer(name, np.ascontiguousarray(self.tensors[name], "float32"))

    def dense(self, x, name, act="linear"):
        """Apply a dense layer with an activation, a name of `BertConfig.hidden_act`."""
        x = self.op("MatMul", x, self.weight(f"{name}/kernel"))
        x = self.op("Add", x, self.weight(f"{name}/bias"))
        if act in _GELUS:
            return self.op("Gelu", x, approximate=_GELUS[act])
        return x if act == "linear" else self.op(_ACTIVATIONS[act], x)

    def norm(self, x, name):
        """Apply a layer normalization."""
        weights = (self.weight(f"{name}/{variable}") for variable in ("gamma", "beta"))
        return self.op("LayerNormalization", x, *weights, epsilon=self.config.layer_norm_eps)

    def project(self, x, name):
        """Apply a `Projection`: (..., H) -> (..., units)."""
        weights = f"{name}/output_weights".lstrip("/")
        kernel = self.tensors[weights].T.astype("float32")
        kernel = self._initializer(f"{weights}/transposed", kernel)
        x = self.op("MatMul", x, kernel)
        bias = f"{name}/output_bias".lstrip("/")
        return self.op("Add", x, self.weight(bias)) if bias in self.tensors else x

    def encode(self, inputs, select=None, layer=-1):
        """Return the output of a layer of the encoder, as `BertModel` does: (B, S, H).

        Args:
          inputs: dict of `input_ids`, `input_mask` and `segment_ids`, int32 (B, S).
          select: function from (B, S, H) to (B, P, H), the positions of the output to compute; None
            for all.
          layer: index of the layer.
        """
        mask = self.op("Unsqueeze", self.cast(inputs["input_mask"], "float32"), [1, 2])
        mask = self.op("Mul", self.op("Sub", np.float32(1), mask), np.float32(MASKED_SCORE))
        x, last = self._embed(inputs), layer % self.config.num_hidden_layers
        masks = self._for_queries(mask, x)
        for i in range(last + 1):
            queries = x
            if select and i == last:
                queries = select(x)
                masks = self._for_queries(mask, queries)
            x = self._layer(f"bert/encoder/layer_{i}", queries, x, masks)
        return x

    def _for_queries(self, mask, queries):
        """Repeat a mask (B, 1, 1, S) for each of the queries (B, P, H): (B, 1, P, S)."""
        count = self.op("Shape", queries, start=1, end=2)
        return self.op("Expand", mask, self.op("Concat", [1, 1], count, [1], axis=0))

    def _embed(self, inputs):
        """Return the sum of the embeddings, normalized, (B, S, H)."""
        ids, name = inputs["input_ids"], "bert/embeddings"
        x = self.op("Gather", self.weight(f"{name}/word_embeddings"), ids)
        if self.config.has_segment_embeddings:
            table = self.weight(f"{name}/token_type_embeddings")
            x = self.op("Add", x, self.op("Gather", table, inputs["segment_ids"]))
        table = self.weight(f"{name}/position_embeddings")
        x = self.op("Add", x, self.op("Slice", table, [0], self.op("Shape", ids, start=1)))
        x = self.norm(x, f"{name}/LayerNorm")
        if self.config.embedding_size != self.config.hidden_size:
            x = self.dense(x, "bert/embeddings_project")
        return x

    def _layer(self, name, queries, x, mask):
        """Return the output (B, P, H) of a transformer layer; see `TransformerLayer`."""
        attention = f"{name}/attention"
        query, key, value = (
            self.dense(tokens, f"{attention}/self/{part}")
            for part, tokens in (("query", queries), ("key", x), ("value", x))
        )
        count = self.config.num_attention_heads
        heads = {"q_num_heads": count, "kv_num_heads": count}
        context = self.op("Attention", query, key, value, mask, **heads)
        context = self.dense(context, f"{attention}/output/dense")
        x = self.norm(self.op("Add", context, queries), f"{attention}/output/LayerNorm")
        output = self.dense(x, f"{name}/intermediate/dense", self.config.hidden_act)
        output = self.dense(output, f"{name}/output/dense")
        return self.norm(self.op("Add", output, x), f"{name}/output/LayerNorm")

    def first(self, x):
        """Select the first token: (B, S, H) -> (B, 1, H)."""
        return self.op("Slice", x, [0], [1], [1])

    def pool(self, x):
        """Return the pooled output (B, H) of the encoder's output (B, S, H) or (B, 1, H)."""
        first = self.op("Gather", x, 0, axis=1)
        return self.dense(first, "bert/pooler/dense", self.config.pooler_act)

    def model(self, inputs, outputs):
        """Return the `onnx.ModelProto`.

        Args:
          inputs: dict from name to (NumPy type, shape); a dimension is a number or a name.
          outputs: dict from name to tensor.
        """
        for name, tensor in outputs.items():
            self._nodes.append(helper.make_node("Identity", [tensor], [name], name))
        types = {x: helper.np_dtype_to_tensor_dtype(np.dtype(y)) for x, (y, _) in inputs.items()}
        infos = [helper.make_tensor_value_info(x, types[x], y) for x, (_, y) in inputs.items()]
        results = [onnx.ValueInfoProto(name=name) for name in outputs]
        initializers = [*self._initializers.values()]
        graph = helper.make_graph(self._nodes, "bert", infos, results, initializers)
        opsets = [helper.make_opsetid("", OPSET)]
        versions = {"opset_imports": opsets, "ir_version": helper.find_min_ir_version_for(opsets)}
        model = helper.make_model(graph, producer_name="bert_tf", **versions)
        # Adds the types and shapes of the outputs.
        return onnx.shape_inference.infer_shapes(model, data_prop=True)


def write(model, path, weights):
    """Write a model with "float32" or "int8" weights.

    int8 rounds the tables and kernels, with one scale per column. ONNX Runtime also rounds the
    inputs of the products, with one scale per tensor (dynamic quantization).
    """
    if weights == "int8":
        with tempfile.TemporaryDirectory() as folder:  # `path` may be remote
            file = os.path.join(folder, "model.onnx")
            quantization.quantize_dynamic(
                model, file, op_types_to_quantize=["MatMul", "Gather"], per_channel=True
            )
            model = onnx.load(file)
    files.make_folder(os.path.dirname(path))
    with files.open_file(path, "wb") as writer:
        writer.write(model.SerializeToString(deterministic=True))
