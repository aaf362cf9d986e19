"""Checkpoints of e4m3 and of four bits with random weights: what a config.json says of them, and the weights.

vLLM's own random weights are so small that nearly all of their codes are zero. So an engine that stands gets others: codes that use their
range, with scales that give each row of a product about the variance of its input. The same model without a format gets the values
that these codes and scales represent, in 16 bits. Codes of four bits go through vLLM's own repacking, whatever kernel it chose.
"""

import copy
import math
import zlib

#: A code is a normal number times this. Few of them are beyond the largest number of e4m3, 448.
REACH = 64.0

#: The standard deviation of logits: large enough that the first of them is not a matter of rounding.
LOGITS = 3.0

#: A static scale of rows: products take numbers up to 28.
INPUT = 1 / 16

#: Codes of four bits: 8 and a normal number times this, 0 to 15; neighbours that share a scale.
SPREAD, GROUP = 3.0, 128


def _compressed(weights, rows, dynamic):
    """The quantization_config of compressed-tensors."""
    side = {"num_bits": 8, "symmetric": True, "type": "float"}
    group = {"input_activations": {**side, "dynamic": dynamic, "strategy": rows}, "targets": ["Linear"],
             "weights": {**side, "dynamic": False, "observer": "minmax", "strategy": weights}}
    return {"config_groups": {"group_0": group}, "format": "float-quantized", "ignore": ["lm_head"], "quant_method": "compressed-tensors",
            "quantization_status": "compressed"}


def _int4():
    """compressed-tensors' W4A16: symmetric codes."""
    weights = {"num_bits": 4, "symmetric": True, "type": "int", "dynamic": False, "observer": "minmax", "strategy": "group", "group_size": GROUP}
    return {"config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}}, "format": "pack-quantized", "ignore": ["lm_head"],
            "quant_method": "compressed-tensors", "quantization_status": "compressed"}


#: What shares a scale: a row and an output channel; 128 of a row and 128 x 128 of a matrix; all rows, by a given scale, and a matrix; of int4
#: 128 of a matrix's row.
FORMATS = {
    "int4": _int4(),
    "rows": _compressed("channel", "token", True),
    "blocks": {"activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8", "weight_block_size": [128, 128]},
    "static": _compressed("tensor", "tensor", False),
}


def fill(model, form):
    """Gives a vLLM model the random weights of a format. Without quantisation it gets the values of the codes. Returns how many matrices have codes.
    Runs where the model is."""
    import torch

    coded, owners = 0, _owners(model)
    with torch.no_grad():
        for name, module in model.named_modules():
            matrix, kernel = getattr(module, "weight", None), _kernel_of(module, owners)
            if kernel is None and not isinstance(matrix, torch.Tensor):
                continue
            device = (getattr(module, kernel.w_q_name) if kernel else matrix).device
            generator = torch.Generator(device).manual_seed(zlib.crc32(name.encode()))
            if kernel:
                _repack(module, kernel, *_codes(*kernel.config.partition_weight_shape, generator, device))
                coded += 1
            elif matrix.dim() == 1:
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
    if form == "int4":
        codes, scale = _codes(*weight.t().shape, generator, weight.device)
        weight.copy_(((codes - 8) * scale.float().repeat_interleave(GROUP, 0)).t())
        return False
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


def _owners(model):
    """{a parameter's identity: vLLM's layer} of layers that the plugin replaced, whose parameters stay under their names."""
    replaced = (linear for layer in model.modules() for linear in getattr(layer, "sinter_own", ()))
    return {id(parameter): linear for linear in replaced for parameter in linear.parameters()}


def _kernel_of(module, owners):
    """vLLM's kernel of a layer of four bits; None for another module."""
    first = next(module.parameters(recurse=False), None)
    kernel = getattr(getattr(owners.get(id(first), module), "scheme", None), "kernel", None)
    return kernel if hasattr(kernel, "w_q_name") else None


def _codes(k, n, generator, device):
    """Codes [k, n], 0 to 15, and scales [k / 128, n] of bf16."""
    import torch

    codes = (torch.randn(k, n, generator=generator, device=device) * SPREAD + 8).round().clamp(0, 15)
    scale = torch.empty(k // GROUP, n, device=device).uniform_(0.7, 1.4, generator=generator) / (SPREAD * math.sqrt(k))
    return codes, scale.bfloat16()


def words(codes):
    """Codes [k, n] as int32 [k / 8, n], low bits first, as GPTQ packs them."""
    import torch

    eight = codes.int().reshape(-1, 8, codes.shape[1])
    found = torch.zeros_like(eight[:, 0])
    for i in range(8):
        found |= eight[:, i] << 4 * i
    return found


def _repack(module, kernel, codes, scale):
    """Writes a layer's codes and scales over those that it has, in the order that its kernel makes of a checkpoint's. Graphs that were captured
    keep their addresses."""
    import torch
    from vllm.model_executor.parameter import GroupQuantScaleParameter, PackedvLLMParameter

    fresh, axes = torch.nn.Module(), {"input_dim": 0, "output_dim": 1, "weight_loader": lambda *arguments: None}
    setattr(fresh, kernel.w_q_name, PackedvLLMParameter(data=words(codes), packed_dim=0, packed_factor=8, **axes))
    setattr(fresh, kernel.w_s_name, GroupQuantScaleParameter(data=scale, **axes))
    copy.copy(kernel).process_weights_after_loading(fresh)  # a copy: it keeps memory that graphs use
    for name in (kernel.w_q_name, kernel.w_s_name):
        getattr(module, name).copy_(getattr(fresh, name))


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
