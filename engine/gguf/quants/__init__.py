"""Reference dequantisation of every block format: the oracle of the native kernels."""

from engine.gguf.quants.dequantize import dequantize
from engine.gguf.quants.quantize import quantize

__all__ = ["dequantize", "quantize"]
