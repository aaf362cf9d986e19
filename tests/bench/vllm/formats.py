"""Checkpoints of e4m3 with random weights: what a config.json says of them, and the weights.

vLLM's own random weights are so small that nearly all of their codes are zero. So an engine that stands gets others: codes that use the
range of e4m3, with scales that give each row of a product about the variance of its input. The same model without a format gets the values
that these codes and scales represent, in 16 bits.
"""

import math
import zlib

#: A code is a normal number times this. Few of them are beyond the largest number of e4m3, 448.
REACH = 64.0

#: The standard deviation of logits: large enough that the first of them is not a matter of rounding.
LOGITS = 3.0

#: A static scale of rows: products take numbers up to 28.
INPUT = 1 / 16


def _compressed(weights, rows, dynamic):
    """The quantization_config of compressed-tensors."""
    side = {"num_bits": 8, "symmetric": True, "type": "float"}
    group = {"input_activations": {**side, "dynamic": dynamic, "strategy": rows}, "targets": ["Linear"],
             "weights": {**side, "dynamic": False, "observer": "minmax", "strategy": weights}}
    return {"config_groups": {"group_0": group}, "format": "float-quantized", "ignore": ["lm_head"], "quant_method": "compressed-tensors",
            "quantization_status": "compressed"}


#: What shares a scale: a row and an output channel; 128 of a row and 128 x 128 of a matrix; all rows, by a given scale, and a matrix.
FORMATS = {
    "rows": _compressed("channel", "token", True),
    "blocks": {"activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8", "weight_block_size": [128, 128]},
    "static": _compressed("tensor", "tensor", False),
}


def fill(model, form):
    """Gives a vLLM model the random weights of a format. Without quantisation it gets the values of the codes. Returns how many matrices have codes.
    Runs where the model is."""
    import torch

    coded = 0
    with torch.no_grad():
        for name, module in model.named_modules():
            matrix = getattr(module, "weight", None)
            if not isinstance(matrix, torch.Tensor):
                continue
            generator = torch.Generator(matrix.device).manual_seed(zlib.crc32(name.encode()))
            if matrix.dim() == 1:
                matrix.uniform_(0.5, 1.5, generator=generator)
            elif not name.endswith("_proj"):
                reach = LOGITS / math.sqrt(matrix.shape[1]) if name.endswith("lm_head") else 1.0
                for some in matrix.split(16384):
                    some.copy_(torch.randn(some.shape, generator=generator, device=matrix.device) * reach)
            else:
                coded += _fill_matrix(module, form, generator)
    torch.cuda.empty_cache()  # of the random numbers
    return coded


def _fill_matrix(module, form, generator):
    """Fills a matrix of products; returns whether it has codes."""
    import torch

    weight = module.weight
    is_coded = weight.dtype == torch.float8_e4m3fn
    matrix = weight.t() if is_coded and not weight.is_contiguous() else weight  # vLLM transposes some after loading
    rows, columns = matrix.shape
    codes = (torch.randn(rows, columns, generator=generator, device=weight.device) * REACH).clamp(-448, 448).to(torch.float8_e4m3fn)
    scale = scales(rows, columns, form, generator, weight.device)
    if not is_coded:
        matrix.copy_(codes.float() * spread(scale, rows, columns))
        return False
    matrix.copy_(codes)
    held = module.weight_scale if getattr(module, "weight_scale_inv", None) is None else module.weight_scale_inv
    held.copy_(scale.reshape(held.shape))
    if form == "static":
        module.input_scale.fill_(INPUT)
    return True


def scales(rows, columns, form, generator, device):
    """Scales of a matrix: [rows, 1], one for each block, or []. Scales of blocks are powers of two, as vLLM makes them for DeepGEMM."""
    import torch

    one = 1 / (REACH * math.sqrt(columns))
    if form == "static":
        return torch.full((), one, device=device)
    if form == "rows":
        return one * torch.empty(rows, 1, device=device).uniform_(0.7, 1.4, generator=generator)
    exponents = torch.randint(-1, 1, (-(-rows // 128), -(-columns // 128)), generator=generator, device=device)
    return torch.exp2(exponents + round(math.log2(one) + 0.4))


def spread(scale, rows, columns):
    """The scales of all elements, in a shape that multiplies the matrix."""
    if scale.dim() < 2 or scale.shape == (rows, 1):
        return scale
    return scale.repeat_interleave(128, 0)[:rows].repeat_interleave(128, 1)[:, :columns]
