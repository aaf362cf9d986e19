"""bf16 and e4m3 in NumPy, from their definitions: values as float64, stored as integers."""

import numpy as np

E4M3_MAGNITUDES = np.array([(m / 8) * 2.0**-6 if e == 0 else (1 + m / 8) * 2.0 ** (e - 7)
                            for e in range(16) for m in range(8)][:127])


def round_to_grid(x, mantissa_bits, lowest_exponent):
    """Nearest multiple, ties to even, of the step that a float of so many bits after the point has at x."""
    x = np.asarray(x, dtype=np.float64)
    _, exponent = np.frexp(x)
    step = np.ldexp(1.0, np.maximum(exponent - 1, lowest_exponent) - mantissa_bits)
    return np.where(np.isfinite(x), np.rint(x / step) * step, x)


def round_bf16(x):
    return round_to_grid(x, 7, -126)


def round_f16(x):
    return round_to_grid(x, 10, -14)


def round_e4m3(x):
    return np.clip(round_to_grid(x, 3, -6), -448, 448)


def round_to(dtype, x):
    """x rounded once to `dtype`, as float64."""
    if dtype == "f32":
        return np.asarray(x, dtype=np.float64).astype(np.float32).astype(np.float64)
    if dtype == "s32":
        return np.clip(np.trunc(np.nan_to_num(x)), -(2**31), 2**31 - 1)
    if dtype == "pred":
        return (np.asarray(x) != 0).astype(np.float64)
    return {"bf16": round_bf16, "f16": round_f16, "e4m3": round_e4m3}[dtype](x)


def encode(dtype, x):
    """The array that holds values already representable in `dtype`."""
    x = np.asarray(x, dtype=np.float64)
    if dtype == "bf16":
        return (np.ascontiguousarray(x, dtype=np.float32).view(np.uint32) >> 16).astype(np.uint16)
    if dtype == "e4m3":
        code = np.searchsorted(E4M3_MAGNITUDES, np.abs(x)).astype(np.uint8)
        code = np.where(np.isnan(x), 0x7F, code)
        return np.where(np.signbit(x), code | 0x80, code).astype(np.uint8)
    return x.astype({"f32": np.float32, "f16": np.float16, "s32": np.int32, "pred": np.uint8}[dtype])


def decode(dtype, stored):
    """The values of what `encode` made, as float64."""
    if dtype == "bf16":
        with np.errstate(invalid="ignore"):  # signalling NaNs
            return (stored.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    if dtype == "e4m3":
        table = np.append(E4M3_MAGNITUDES, np.nan)
        return np.where(stored & 0x80, -1.0, 1.0) * table[stored & 0x7F]
    return stored.astype(np.float64)
