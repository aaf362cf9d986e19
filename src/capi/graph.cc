// sinter_graph_nodes: a plan's launches as nodes of a caller's graph.
#include <vector>

#include "src/capi/firewall.h"
#include "src/capi/objects.h"
#include "src/capi/structs.h"
#include "src/capi/symbols.h"

namespace capi = sinter::capi;

struct sinter_graph_nodes : sinter::capi::Handle<sinter_graph_nodes> {
  static constexpr uint32_t kMagic = 0x53476e6f;
  static constexpr char kTypeName[] = "sinter_graph_nodes";
  sinter::PlanNodes added;  // keeps the plan
};

namespace sinter::capi {
namespace {

absl::StatusOr<NodeEdges> ReadEdges(uint32_t count, const sinter_graph_node* dependencies,
                                    uint32_t flags) {
  SINTER_RETURN_IF_ERROR(CheckFlags(flags, SINTER_GRAPH_PDL, "graph"));
  if (count > 0) SINTER_RETURN_IF_ERROR(CheckNotNull(dependencies, "dependencies"));
  NodeEdges edges;
  for (uint32_t i = 0; i < count; ++i) {
    SINTER_RETURN_IF_ERROR(CheckNotNull(dependencies[i], absl::StrCat("dependencies[", i, "]")));
    edges.from.push_back(dependencies[i]);
  }
  edges.programmatic = (flags & SINTER_GRAPH_PDL) != 0;
  return edges;
}

absl::StatusOr<sinter_graph_nodes*> AddNodes(const sinter_binding* binding, sinter_graph graph,
                                             NodeEdges edges, uint32_t symbol_count,
                                             const int64_t* symbols) {
  SINTER_RETURN_IF_ERROR(CheckNotNull(graph, "graph"));
  SINTER_ASSIGN_OR_RETURN(const int64_t m, SymbolM(binding->uses_m, symbol_count, symbols));
  auto nodes = std::make_unique<sinter_graph_nodes>();
  SINTER_ASSIGN_OR_RETURN(
      nodes->added, binding->prepared->AddToGraph(*binding->binding, graph, std::move(edges), m));
  return nodes.release();
}

}  // namespace
}  // namespace sinter::capi

extern "C" {

sinter_status sinter_binding_add_to_graph(const sinter_binding* binding, sinter_graph graph,
                                          uint32_t dependency_count,
                                          const sinter_graph_node* dependencies,
                                          uint32_t symbol_count, const int64_t* symbols,
                                          uint32_t flags, sinter_graph_nodes** out_nodes,
                                          sinter_error** error) {
  return capi::Guard(error, [&]() -> absl::Status {
    SINTER_RETURN_IF_ERROR(capi::Check(binding, "binding"));
    SINTER_RETURN_IF_ERROR(capi::CheckNotNull(out_nodes, "out_nodes"));
    SINTER_ASSIGN_OR_RETURN(auto edges, capi::ReadEdges(dependency_count, dependencies, flags));
    SINTER_ASSIGN_OR_RETURN(
        *out_nodes, capi::AddNodes(binding, graph, std::move(edges), symbol_count, symbols));
    return absl::OkStatus();
  });
}

void sinter_graph_nodes_retain(const sinter_graph_nodes* nodes) { capi::RetainHandle(nodes); }
void sinter_graph_nodes_release(const sinter_graph_nodes* nodes) { capi::ReleaseHandle(nodes); }

uint32_t sinter_graph_nodes_get_count(const sinter_graph_nodes* nodes) {
  return capi::IsLive(nodes) ? static_cast<uint32_t>(nodes->added.nodes.size()) : 0;
}

sinter_graph_node sinter_graph_nodes_get(const sinter_graph_nodes* nodes, uint32_t index) {
  if (index >= sinter_graph_nodes_get_count(nodes)) return nullptr;
  return static_cast<sinter_graph_node>(nodes->added.nodes[index]);
}

sinter_status sinter_graph_nodes_update(const sinter_graph_nodes* nodes, sinter_graph_exec exec,
                                        const sinter_binding* binding, uint32_t symbol_count,
                                        const int64_t* symbols, sinter_error** error) {
  return capi::Guard(error, [&]() -> absl::Status {
    SINTER_RETURN_IF_ERROR(capi::Check(nodes, "nodes"));
    SINTER_RETURN_IF_ERROR(capi::CheckNotNull(exec, "exec"));
    SINTER_RETURN_IF_ERROR(capi::Check(binding, "binding"));
    SINTER_ASSIGN_OR_RETURN(const int64_t m, capi::SymbolM(binding->uses_m, symbol_count, symbols));
    return binding->prepared->UpdateInGraph(nodes->added, exec, *binding->binding, m);
  });
}

}  // extern "C"
