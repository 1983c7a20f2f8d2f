"""Reads a model file back into the training code, whatever its precision.

Used by `verify.py` and by tests that look at the routing of the bundled model.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from engine.gguf.quants import dequantize
from engine.gguf.reader import open_gguf
from engine.gguf.shape import ModelShape, model_shape
from tools.demo import export
from tools.demo.model import DemoModel, Shape


def read_tensors(path: Path) -> tuple[ModelShape, dict[str, Tensor]]:
    """Shape and dequantised tensors (f32, the row last) of a file."""
    with open_gguf(path) as file:
        tensors = {}
        for name, info in file.tensors.items():
            values = dequantize(file.data(name), info.type).reshape(tuple(reversed(info.shape)))
            tensors[name] = torch.from_numpy(np.array(values, np.float32))
        return model_shape(file), tensors


def demo_model(path: Path) -> DemoModel:
    """The model of a file in the training code."""
    shape, tensors = read_tensors(path)
    model = DemoModel(
        Shape(
            vocab=tensors["token_embd.weight"].shape[0],
            layers=shape.layers,
            hidden=shape.hidden,
            heads=shape.heads,
            kv_heads=shape.kv_heads,
            head_dim=shape.head_dim,
            experts=shape.experts,
            experts_used=shape.experts_used,
            ff=shape.expert_ff,
            rope_base=shape.rope_base,
            rms_eps=shape.rms_eps,
        )
    )
    with torch.no_grad():
        for name, parameter in export.tensors_of(model).items():
            parameter.copy_(tensors[name])
    return model
