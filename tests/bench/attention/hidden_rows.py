#!/usr/bin/env python3
"""What PyTorch's attention gives for a row whose keys are all masked by the least number, by backend and through torch.compile.

    python3 tests/bench/attention/hidden_rows.py OUT.json

"mean": the mean of the values, as the softmax of equal scores says; "0"; "nan"; "other".
"""

import json
import sys


def main():
    import torch
    from sinter.torch import sinter_backend
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention as attend

    rows = []
    for dtype, least in ((torch.bfloat16, None), (torch.float16, None), (torch.float32, None), (torch.bfloat16, -2.3e38), (torch.bfloat16, -2.4e38), (torch.bfloat16, -1e38)):
        least = torch.finfo(dtype).min if least is None else least
        for queries, group in ((1, 1), (1, 4), (80, 1)):
            torch.manual_seed(1)
            q, k, v = (torch.randn(2, heads, n, 64, device="cuda").to(dtype) for heads, n in ((8, queries), (8 // group, 128), (8 // group, 128)))
            mask = torch.zeros(2, 1, queries, 128, device="cuda", dtype=dtype)
            mask[1] = least

            def call(q, k, v, mask, group=group):
                return attend(q, k, v, mask, enable_gqa=group > 1)

            calls = {"default": call, "inductor": torch.compile(call, dynamic=False), "sinter": torch.compile(call, dynamic=False, backend=sinter_backend, options={"prepare": "block"})}
            for name in ("FLASH_ATTENTION", "EFFICIENT_ATTENTION", "CUDNN_ATTENTION", "MATH"):
                calls[name] = lambda *given, backend=getattr(SDPBackend, name): in_backend(sdpa_kernel, backend, call, given)
            row = {"dtype": str(dtype), "least": least, "rows": queries, "heads of a key": group}
            with torch.no_grad():
                for name, function in calls.items():
                    try:
                        row[name] = told(torch, function(q, k, v, mask)[1, :, -1].float(), v[1].float().mean(1).repeat_interleave(group, 0))
                    except Exception as error:
                        row[name] = f"{type(error).__name__}"
            torch._dynamo.reset()
            rows.append(row)
            print(row, flush=True)
            with open(sys.argv[1], "w", encoding="utf-8") as file:
                json.dump(rows, file, indent=1)


def in_backend(sdpa_kernel, backend, call, given):
    with sdpa_kernel(backend):
        return call(*given)


def told(torch, result, mean):
    if result.isnan().any():
        return "nan"
    if not result.any():
        return "0"
    return "mean" if torch.allclose(result, mean, atol=2e-2) else "other"


if __name__ == "__main__":
    main()
