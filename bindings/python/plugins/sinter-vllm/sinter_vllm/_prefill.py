"""Rows that no plan serves: vLLM's own operators compute them.

vLLM compiles a graph for each range of rows. One range ends at the most rows that plans serve. In the graph above it, Sinter's operators
are replaced by products, norms, activations and sums over GPUs. Layers of e4m3 are traced twice, as a plan and as vLLM's modules, and each
graph keeps one of the two. That happens before vLLM's own passes, which fuse the sums and quantisers with the norms, and before its lowering.
Inductor then generates the same kernels as without this plugin. Without compilation the layers branch by themselves (`_layers`).
"""

from __future__ import annotations

from typing import Any, Callable, List, Tuple


#: The pass manager that `watch` changed.
_watched: "List[Any]" = []


def end_range(config: Any, rows: int) -> None:
    """Makes vLLM compile a graph for up to `rows` rows, and another for more. `config`: its compilation config."""
    endpoints = getattr(config, "compile_ranges_endpoints", None)
    if endpoints and 0 < rows < max(endpoints):
        config.compile_ranges_endpoints = sorted({*endpoints, rows})


def chooses(config: Any, rows: int) -> bool:
    """Whether vLLM compiles a graph for up to `rows` rows and another for more, both by passes that `watch` adds to."""
    endpoints = getattr(config, "compile_ranges_endpoints", None)
    by_passes = getattr(getattr(config, "mode", None), "name", "") == "VLLM_COMPILE" and getattr(config, "backend", "") == "inductor"
    return bool(_watched and by_passes and endpoints and 0 < rows < max(endpoints))


def watch(servers: Any) -> None:
    """Makes every pass manager from now on choose between plans and vLLM's modules, and expand Sinter's operators if no plan serves its range
    of rows."""
    try:
        from vllm.compilation.passes.inductor_pass import InductorPass
        from vllm.compilation.passes.pass_manager import PostGradPassManager
    except ImportError as error:
        servers.stay_away("vLLM's prefill", f"it passes through Sinter's operators: {error}")
        return
    own: Callable[..., Any] = PostGradPassManager.configure
    if getattr(own, "is_sinters", False):
        return
    base: Any = InductorPass

    class Expand(base):  # type: ignore[misc]
        """Replaces Sinter's operators by vLLM's and torch's, for more rows than plans are prepared for."""

        def __call__(self, graph: Any) -> None:
            servers.rewrite(graph, lambda: (servers.choose(graph, plan=False), servers.expand(graph, _add_norm())))

        def is_applicable_for_range(self, compile_range: Any) -> bool:
            return bool(compile_range.start > servers.largest())

        def uuid(self) -> str:
            import sinter

            return f"sinter {sinter.__version__}, expanded above {servers.largest()}"

    class Serve(Expand):
        """Erases the modules that plans replace, for all other rows."""

        def __call__(self, graph: Any) -> None:
            servers.rewrite(graph, lambda: servers.choose(graph, plan=True))

        def is_applicable_for_range(self, compile_range: Any) -> bool:
            return not super().is_applicable_for_range(compile_range)

    def configure(self: Any, config: Any) -> None:
        own(self, config)
        before = list(self.passes)
        try:
            for one in (Expand(), Serve()):
                self.add(one)
                self.passes.insert(0, self.passes.pop())
        except Exception as error:  # operators then compute by themselves what no plan serves
            self.passes[:] = before
            servers.stay_away("vLLM's prefill", f"it passes through Sinter's operators: {type(error).__name__}: {error}")

    configure.is_sinters = True  # type: ignore[attr-defined]
    PostGradPassManager.configure = configure
    _watched.append(PostGradPassManager)


def _add_norm() -> "Callable[..., Tuple[Any, Any]]":
    """vLLM's operator, which its lowering replaces by the configured kernel; if vLLM has none, ops that Inductor fuses."""
    import torch
    from sinter.torch import servers

    namespace: Any = torch.ops.vllm_ir
    if not hasattr(namespace, "fused_add_rms_norm"):
        return servers.add_norm
    fused = namespace.fused_add_rms_norm.default

    def add_norm(x: Any, residual: Any, weight: Any, eps: float) -> Tuple[Any, Any]:
        normed, total = fused(x, residual, weight, eps)
        return normed, total

    return add_norm
