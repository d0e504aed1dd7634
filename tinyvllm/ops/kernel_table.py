"""The ops table of the course's CUDA kernels: on a GPU, or on a CPU in the emulator.

The same table serves both, since a kernel runs where its tensors are. What has no kernel yet is
the reference.
"""

from tinyvllm.ops.embedding import embedding_kernel
from tinyvllm.ops.rms_norm import rms_norm_kernel
from tinyvllm.ops.rope import rope_kernel
from tinyvllm.ops.table import compose

kernel_ops = compose(embedding=embedding_kernel, rms_norm=rms_norm_kernel, rope=rope_kernel)
