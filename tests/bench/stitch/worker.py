"""The process that peers.py starts: runs steps that it reads from its standard input, each a contestant on a graph."""

import json
import os
import sys

from results_file import MODES

CHOICES = {"sinter": "best", "unfused": "unfused"}
# These load JAX and its profiler, which are kept away from timed code.
PROFILED = ("xla", "sinter_kernels")


class Worker:
    """Answers on descriptor `out`; what libraries print goes to standard error."""

    def __init__(self, out, library):
        import on_device
        import problems
        import sinter_abi
        self.out, self.device = out, on_device
        self.library = self.sinter = None
        try:
            self.library = sinter_abi.Library(library)
        except OSError as error:
            self.missing = str(error)
        self.cases = problems.all_cases(self.library)
        self.case_of = lambda name: problems.named(self.cases, name)
        self.prepared = None

    def serve(self):
        self.answer({"machine": self.device.machine()})
        for line in sys.stdin:
            request = json.loads(line)
            try:
                self.answer({"result": self.run(request["graph"], request["step"])})
            except Exception as error:  # pylint: disable=broad-except
                self.answer({"error": f"{type(error).__name__}: {str(error)[:400]}"})

    def answer(self, message):
        self.out.write(json.dumps(message) + "\n")
        self.out.flush()

    def run(self, name, step):
        if self.prepared is None or self.prepared.case.name != name:
            self.prepared = None
            self.device.torch.cuda.empty_cache()
            self.prepared = self.device.Prepared(self.case_of(name))
        if step in MODES:
            return self.device.measure_torch(self.prepared, MODES[step])
        if step == "xla":
            return self.device.measure_xla(self.prepared)
        if step == "sinter_kernels":
            return self.with_sinter().measure_kernels(self.prepared)
        return self.with_sinter().measure(self.prepared, CHOICES[step])

    def with_sinter(self):
        if self.library is None:
            raise RuntimeError(f"no libsinter: {self.missing}")
        self.sinter = self.sinter or self.device.Sinter(self.library)
        return self.sinter

    def once(self, name, step):
        """One cold call, for a profiler that watches this process."""
        self.device.torch.cuda.empty_cache()
        device, prepared = self.device, self.device.Prepared(self.case_of(name))
        stream = device.torch.cuda.Stream()
        if step in MODES:
            device.once(prepared, device.torch_call(prepared, MODES[step])[0])
        elif step == "xla":
            import jax
            call, _, held = device.xla_call(prepared)

            def finished(i):
                call(i)
                jax.block_until_ready(list(held))

            device.once(prepared, finished)
        else:
            device.once(prepared, self.with_sinter().call(prepared, CHOICES[step], stream)[0], stream)


def serve(arguments):
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    os.environ.setdefault("SINTER_CACHE", "off")
    worker = Worker(out, arguments.library)
    if arguments.once:
        for name in arguments.only.split(","):
            worker.once(name, arguments.peers)
    else:
        worker.serve()
    return 0
