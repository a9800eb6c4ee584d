"""Compilers of TPUs and GPUs that are not there, through JAX; its private functions are only here.

The package libtpu has the compiler for TPUs, and JAX's plugin for CUDA has the one for GPUs. Both
compile for a described device on any machine.
"""

import importlib.metadata
import os
import re

import numpy as np

from bert_tf.errors import UserError, reason

# The versions of JAX that this module was tried with.
TRIED = ("0.10.2",)

# Before JAX is imported: no devices of this machine, no question to a cloud for its TPU, and no
# lock of the TPU, so that several processes can compile.
ENVIRONMENT = {
    "JAX_PLATFORMS": "cpu",
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    "TPU_ACCELERATOR_TYPE": "v5litepod-4",
}

# What the compiler must know about a GPU: cores; for each core FP32 units, threads and bytes of
# shared memory; bytes of shared memory of a block; of L2 cache; bytes per second; GHz; the bytes of
# memory that a program sees; compute capability; name.
GPUS = {
    "H100": (132, 128, 2048, 233472, 232448, 52428800, 3352320000000, 1.98, 84942979072, 9, 0,
             "NVIDIA H100 80GB HBM3"),
    "A100": (108, 64, 2048, 167936, 166912, 41943040, 2039040000000, 1.41, 85100068864, 8, 0,
             "NVIDIA A100-SXM4-80GB"),
    "L4": (58, 128, 1536, 102400, 101376, 50331648, 300096000000, 2.04, 23676000000, 8, 9,
           "NVIDIA L4"),
    "T4": (40, 64, 1024, 65536, 65536, 4194304, 320064000000, 1.59, 15830000000, 7, 5, "Tesla T4"),
}  # fmt: skip
_GPU = """
gpu_device_info {{
  core_count: {} fpus_per_core: {} threads_per_core_limit: {} shared_memory_per_core: {}
  shared_memory_per_block_optin: {} l2_cache_size: {} memory_bandwidth: {} clock_rate_ghz: {}
  device_memory_size: {} cuda_compute_capability {{ major: {} minor: {} }}
  threads_per_block_limit: 1024 threads_per_warp: 32 shared_memory_per_block: 49152
  block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535
  registers_per_core_limit: 65536 registers_per_block_limit: 65536
}}
device_description_str: "{}" platform_name: "CUDA"
dnn_version_info {{ major: 9 minor: 10 }} runtime_version {{ major: 12 minor: 9 }}
"""
# The share of a GPU's memory that a program takes.
_SHARES = {"jax": os.environ.get("XLA_PYTHON_CLIENT_MEM_FRACTION", 0.75), "tensorflow": 0.95}


class Compiler:
    """The compiler of the devices with a name such as "v5e:2x2", "H100" or "H100:8".

    Attributes:
      name: the name.
      kind: the kind of the devices.
      count: their number.
      memory: the bytes that a program can use on each.
      versions: dict from package to version.
      is_gpu: whether they are GPUs.
      capability: the compute capability of a GPU, 0.0 for a TPU.
    """

    def __init__(self, name, backend):
        """Raise UserError for unknown devices and without the packages; `backend` is Keras'."""
        kind, _, shape = name.partition(":")
        self.name, self.is_gpu = name, kind in GPUS
        expected = (
            "expected a TPU topology such as v5e:1x1, v5e:2x2, v6e:2x2 or v5p:2x2x1, or one of "
            f"{', '.join(GPUS)}, with :N for N GPUs"
        )
        if not re.fullmatch(r"\w+(:[1-9]\d*)?" if self.is_gpu else r"v\d\w*:\d+(x\d+)+", name):
            raise UserError(f"`device={name}`: {expected}")
        package = "jax-cuda12-pjrt" if self.is_gpu else "libtpu"
        self.versions = _versions(["keras", "jax", package])
        from jax.experimental import topologies

        try:
            if self.is_gpu:
                target, shape = _GPU.format(*GPUS[kind]), f"1x1x{int(shape or 1)}"
                topology = topologies.get_topology_desc(
                    "", "cuda", target_config=target, topology=shape
                )
            else:
                # A host has four chips, except for a single one.
                is_one = set(re.findall(r"\d+", shape)) == {"1"}
                bounds = {"chips_per_host_bounds": (1, 1, 1)} if is_one else {}
                topology = topologies.get_topology_desc(name, "tpu", **bounds)
        except Exception as error:  # of several kinds
            raise UserError(f"`device={name}`: {reason(error)}; {expected}") from error
        self._devices, self.count = topology.devices, len(topology.devices)
        # Tuning runs on the GPU.
        self._options = {"xla_gpu_autotune_level": "0"} if self.is_gpu else {}
        self.capability = float("{}.{}".format(*GPUS[kind][-3:-1])) if self.is_gpu else 0.0
        if self.is_gpu:
            self.kind, self.memory = GPUS[kind][-1], int(GPUS[kind][-4] * float(_SHARES[backend]))
        else:
            self.kind, self.memory = self._devices[0].device_kind, self._ask_for_memory()

    def _ask_for_memory(self):
        """Return the memory that the compiler of a TPU names when it gets too large a program."""
        import jax

        same = jax.sharding.NamedSharding(self.mesh, jax.sharding.PartitionSpec())
        huge = jax.ShapeDtypeStruct((2**18, 2**20), np.float32, sharding=same)
        try:
            self.lowered(jax.jit(lambda x: x * 2, donate_argnums=0).lower(huge))[1]()
            answer = "it compiled a program of 1 TiB"
        except Exception as error:  # the compilers have no class for it
            if limit := memory_limit(error):
                return limit
            answer = reason(error)
        raise UserError(f"`device={self.name}`: the compiler does not name its memory: {answer}")

    @property
    def mesh(self):
        """The `jax.sharding.Mesh` of the devices."""
        from jax.sharding import Mesh

        return Mesh(np.array(self._devices), ("batch",))

    def lowered(self, lowered):
        """Return the text of a program that JAX has lowered for the mesh.

        The second value compiles it, and returns the planned memory and the compiled text.
        """

        def compile():
            compiled = lowered.compile(compiler_options=self._options)
            return compiled.memory_analysis(), compiled.as_text()

        return lowered.as_text(), compile

    def replicated(self, hlo):
        """Return the same for a serialized HLO module that runs on each device."""
        from jax._src import compiler
        from jax._src.interpreters import mlir
        from jax._src.lib import _jax, xla_client
        from jax._src.lib.mlir import ir

        text = _jax.mlir.xla_computation_to_mlir_module(xla_client.XlaComputation(hlo))
        # Compilers of devices do not know this operation.
        text = text.replace("mhlo.copy", "stablehlo.optimization_barrier")

        def compile():
            options = compiler.get_compile_options(
                self.count, 1, np.arange(self.count)[:, None], self._options
            )
            with mlir.make_ir_context():
                module = ir.Module.parse(text)
            devices = xla_client.DeviceList(tuple(self._devices))
            executable = self._devices[0].client.compile(module, devices, options)
            (compiled,) = executable.hlo_modules()
            return executable.get_compiled_memory_stats(), compiled.to_string()

        return text, compile


def memory_limit(error):
    """Return the bytes of a device if a compiler's error says that they are not enough."""
    match = re.search(r"exceeds available \w+ \(([\d.]+)G\)|of ([\d.]+)G hbm", str(error), re.I)
    return match and int(float(match[1] or match[2]) * 2**30)


_INSTALL = "pip install 'jax[cuda12]==0.10.2' libtpu==0.0.42.1"


def _versions(packages):
    try:
        versions = {name: importlib.metadata.version(name) for name in packages}
    except importlib.metadata.PackageNotFoundError as error:
        raise UserError(f"`device` requires {error.name}: {_INSTALL}") from None
    if versions["jax"] not in TRIED:
        raise UserError(
            f"`device` requires jax {' or '.join(TRIED)}, found {versions['jax']}, because private "
            f"functions of JAX are used: {_INSTALL} in an environment of its own"
        )
    return versions
