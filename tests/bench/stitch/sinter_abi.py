"""Sinter through its C ABI: chains, the reference executor, plans and their launches. Needs only ctypes."""

import ctypes
import glob
import importlib.util
import json
import os

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
NO_M = 0  # for chains without M: any value in range


def generated_abi(root=ROOT):
    """The declarations that ./dev bindings writes, without the package around them, which needs a library that it finds. `root`: of a
    checkout, or of what ./dev bundle makes."""
    files = [os.path.join(root, folder, "sinter", "_abi.py") for folder in (os.path.join("bindings", "python"), "python")]
    spec = importlib.util.spec_from_file_location("sinter_generated_abi", next(filter(os.path.exists, files), files[0]))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ABI = generated_abi()


class SinterError(RuntimeError):
    pass


def find_library():
    for pattern in ("lib/libsinter.so*", "build/lib/libsinter.so", "bundle/lib/libsinter.so*"):
        found = sorted(glob.glob(os.path.join(ROOT, pattern)))
        if found:
            return found[0]
    return "libsinter.so"


def load(path):
    """The library. One that lies among the libraries it needs, as in a bundle, finds them there."""
    try:
        return ctypes.CDLL(path)
    except OSError:
        waiting = [name for name in glob.glob(os.path.join(os.path.dirname(path) or ".", "*.so*"))
                   if not os.path.basename(name).startswith("libsinter")]
        while waiting:
            left = [name for name in waiting if not loads(name)]
            if len(left) == len(waiting):
                break
            waiting = left
        return ctypes.CDLL(path)


def loads(path):
    try:
        ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
        return True
    except OSError:
        return False


class Library:
    """Owned handles stay alive as long as the process: scripts end soon."""

    def __init__(self, path=None):
        self.c = load(path or os.environ.get("SINTER_LIBRARY") or find_library())
        for name in ("sinter_error_get_message", "sinter_x_text_get", "sinter_build_info"):
            getattr(self.c, name).restype = ctypes.c_char_p
        self.c.sinter_plan_get_workspace_size.restype = ctypes.c_uint64

    def call(self, name, *arguments):
        error = ctypes.c_void_p()
        status = getattr(self.c, name)(*arguments, ctypes.byref(error))
        if status != 0:
            message = self.c.sinter_error_get_message(error).decode()
            self.c.sinter_error_release(error)
            raise SinterError(f"{name}: {message} ({status})")

    def made(self, name, *arguments):
        """The object that a call makes: its last parameter but the error."""
        result = ctypes.c_void_p()
        self.call(name, *arguments, ctypes.byref(result))
        return result

    def text(self, name, *arguments):
        return self.c.sinter_x_text_get(self.made(name, *arguments)).decode()

    # ------------------------------------------------------------ chains

    def chain_from_json(self, text):
        return self.made("sinter_x_chain_from_json", text.encode())

    def chain_from_line(self, line):
        """(chain, m) of one line of a problem list."""
        chain, m = ctypes.c_void_p(), ctypes.c_int64()
        self.call("sinter_x_chain_from_text", line.encode(), ctypes.byref(chain), ctypes.byref(m), None)
        return chain, m.value

    def chain_to_json(self, chain):
        return self.text("sinter_x_chain_to_json", chain)

    def buffers(self, chain, m=NO_M):
        """TensorInfo of the inputs and of the outputs, in the caller's order."""
        inputs = self.c.sinter_chain_get_input_count(chain)
        infos = []
        for index in range(inputs + self.c.sinter_chain_get_output_count(chain)):
            info = ABI.TensorInfo()
            self.call("sinter_chain_get_buffer", chain, ctypes.c_uint32(index), ctypes.c_int64(m), ctypes.byref(info))
            infos.append(info)
        return infos[:inputs], infos[inputs:]

    def reference(self, chain, inputs, m=NO_M, threads=0):
        """Outputs as bytearrays, from inputs that are contiguous NumPy arrays or bytes-like."""
        import numpy
        held = [numpy.ascontiguousarray(array) for array in inputs]
        outputs = [bytearray(info.bytes) for info in self.buffers(chain, m)[1]]
        froms = (ctypes.c_void_p * len(held))(*[array.ctypes.data for array in held])
        tos = (ctypes.c_void_p * len(outputs))(
            *[ctypes.addressof((ctypes.c_char * len(out)).from_buffer(out)) for out in outputs])
        self.call("sinter_x_reference_run", chain, ctypes.c_int64(m), ctypes.c_uint32(len(held)), froms,
                  ctypes.c_uint32(len(outputs)), tos, ctypes.c_uint32(threads))
        return outputs


class Plan:
    """A prepared chain on a GPU."""

    def __init__(self, library, context, chain, m=NO_M, choice="best"):
        self.library, self.context, self.m = library, context, m
        options = ABI.PrepareOptions(choice=ABI.CHOICE[choice])
        self.handle = library.made("sinter_prepare", context, chain, ctypes.c_int64(m), ctypes.byref(options))
        self.workspace_bytes = library.c.sinter_plan_get_workspace_size(self.handle)
        told = json.loads(library.c.sinter_x_text_get(library.made("sinter_x_plan_to_json", self.handle)))
        self.kernels, self.predicted_us, self.name = len(told["kernels"]), told["predicted_us"], told["name"]
        self.uses_m = bool(library.c.sinter_chain_uses_m(chain))

    def init_workspace(self, pointer, stream):
        self.library.call("sinter_plan_init_workspace", self.handle, ctypes.c_uint64(pointer),
                          ctypes.c_uint64(self.workspace_bytes), ctypes.c_void_p(stream))

    def bind(self, pointers, workspace):
        buffers = (ctypes.c_uint64 * len(pointers))(*pointers)
        return self.library.made("sinter_plan_bind", self.handle, ctypes.c_uint32(len(pointers)), buffers,
                                 ctypes.c_uint64(workspace))

    def launcher(self, binding):
        """A function of a stream that launches; errors raise."""
        launch, count = self.library.c.sinter_binding_launch, ctypes.c_uint32(1 if self.uses_m else 0)
        m = ctypes.byref(ctypes.c_int64(self.m)) if self.uses_m else None

        def run(stream):
            status = launch(binding, ctypes.c_void_p(stream), count, m, ctypes.c_uint32(0), None)
            if status != 0:
                raise SinterError(f"sinter_binding_launch: {status}")

        return run
