"""Products of e4m3 codes with a scale a row and a column by cuBLASLt, through ctypes: the fastest of its heuristics' choices."""

import ctypes

FOUND = 16  # algorithms asked for
WORKSPACE = 32 << 20
E4M3, BF16, F32, COMPUTE_F32 = 28, 14, 0, 68
TRANS_A, SCALES, FAST, SCALE_MODES, OUTER_VECTOR = 3, (17, 18), 25, (31, 32), 3
MAX_WORKSPACE = 1


class _Found(ctypes.Structure):
    _fields_ = [("algorithm", ctypes.c_uint64 * 8), ("workspace", ctypes.c_size_t), ("state", ctypes.c_int), ("waves", ctypes.c_float),
                ("reserved", ctypes.c_int * 4)]


def _library():
    for name in ("libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"):
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise RuntimeError("no cuBLASLt")


def _check(status, what):
    if status != 0:
        raise RuntimeError(f"cuBLASLt's {what} gives status {status}")


class Product:
    """bf16 y [m, n] = (codes [m, k] * scale [m, 1]) (weights [n, k] * weight_scale [n, 1])^T. cuBLASLt counts columns first: its A are
    the weights, its result is n x m."""

    def __init__(self, torch, m, n, k, fast):
        self.torch, self.lt, self.sizes = torch, _library(), (m, n, k)
        self.handle, self.operation = ctypes.c_void_p(), ctypes.c_void_p()
        _check(self.lt.cublasLtCreate(ctypes.byref(self.handle)), "create")
        _check(self.lt.cublasLtMatmulDescCreate(ctypes.byref(self.operation), COMPUTE_F32, F32), "descriptor")
        self._set(TRANS_A, ctypes.c_int32(1))
        self._set(FAST, ctypes.c_int8(fast))
        for mode in SCALE_MODES:
            self._set(mode, ctypes.c_int32(OUTER_VECTOR))
        self.layouts = [self._layout(E4M3, k, n), self._layout(E4M3, k, m), self._layout(BF16, n, m)]
        self.workspace = torch.empty(WORKSPACE, device="cuda", dtype=torch.uint8)
        some = torch.ones(max(m, n), device="cuda")
        self._scales(some, some)  # heuristics look at the addresses
        self.one, self.zero = ctypes.c_float(1), ctypes.c_float(0)
        self.algorithm = None

    def _layout(self, kind, rows, columns):
        layout = ctypes.c_void_p()
        made = self.lt.cublasLtMatrixLayoutCreate(ctypes.byref(layout), kind, ctypes.c_uint64(rows), ctypes.c_uint64(columns), ctypes.c_int64(rows))
        _check(made, "layout")
        return layout

    def _set(self, name, value):
        _check(self.lt.cublasLtMatmulDescSetAttribute(self.operation, name, ctypes.byref(value), ctypes.sizeof(value)), f"attribute {name}")

    def _scales(self, weight_scale, scale):
        for name, tensor in zip(SCALES, (weight_scale, scale)):
            self._set(name, ctypes.c_void_p(tensor.data_ptr()))

    def algorithms(self):
        preference, count = ctypes.c_void_p(), ctypes.c_int()
        _check(self.lt.cublasLtMatmulPreferenceCreate(ctypes.byref(preference)), "preference")
        size = ctypes.c_uint64(WORKSPACE)
        _check(self.lt.cublasLtMatmulPreferenceSetAttribute(preference, MAX_WORKSPACE, ctypes.byref(size), 8), "workspace limit")
        found = (_Found * FOUND)()
        weights, codes, result = self.layouts
        status = self.lt.cublasLtMatmulAlgoGetHeuristic(self.handle, self.operation, weights, codes, result, result, preference, FOUND,
                                                        found, ctypes.byref(count))
        _check(status, "heuristic")
        return [one for one in found[:count.value] if one.state == 0]

    def __call__(self, codes, scale, weights, weight_scale, algorithm=None):
        m, n, _ = self.sizes
        y = self.torch.empty(m, n, device="cuda", dtype=self.torch.bfloat16)
        self._scales(weight_scale, scale)
        a, b, d = self.layouts
        chosen = algorithm or self.algorithm
        pointers = [ctypes.c_void_p(t.data_ptr()) for t in (weights, codes, y, self.workspace)]
        status = self.lt.cublasLtMatmul(
            self.handle, self.operation, ctypes.byref(self.one), pointers[0], a, pointers[1], b, ctypes.byref(self.zero), pointers[2], d,
            pointers[2], d, chosen.algorithm, pointers[3], ctypes.c_size_t(WORKSPACE),
            ctypes.c_void_p(self.torch.cuda.current_stream().cuda_stream))
        _check(status, "matmul")
        return y

    def choose(self, time_us):
        """Takes the fastest algorithm. `time_us`: of a function that takes one and computes."""
        times = {}
        for i, one in enumerate(self.algorithms()):
            try:
                times[i] = (time_us(one), one)
            except RuntimeError:  # an algorithm that refuses leaves the others
                self.torch.cuda.synchronize()
        if not times:
            raise RuntimeError("cuBLASLt has no algorithm for it")
        self.algorithm = min(times.values(), key=lambda pair: pair[0])[1]
        return self
