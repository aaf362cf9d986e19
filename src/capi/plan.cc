// sinter_plan and sinter_binding: what is known of a plan, bind, launch; nodes of graphs.
#include <vector>

#include "src/base/enough_stack.h"
#include "src/base/format.h"
#include "src/base/refusal.h"
#include "src/base/status.h"
#include "src/capi/firewall.h"
#include "src/capi/objects.h"
#include "src/engine/rank_group.h"

namespace capi = sinter::capi;

namespace sinter::capi {
namespace {

absl::StatusOr<std::vector<DevicePtr>> ReadBuffers(const sinter_plan* plan, uint32_t count,
                                                   const sinter_device_ptr* buffers) {
  SINTER_RETURN_IF_ERROR(Check(plan, "plan"));
  if (count != plan->buffers) {
    return WithField(Invalid("buffer_count is ", count, ", the plan binds ", plan->buffers),
                     "buffer_count", count, plan->buffers);
  }
  SINTER_RETURN_IF_ERROR(CheckNotNull(buffers, "buffers"));
  return std::vector<DevicePtr>(buffers, buffers + count);
}

absl::StatusOr<std::shared_ptr<const PlanBinding>> BindBuffers(const sinter_plan* plan,
                                                               uint32_t count,
                                                               const sinter_device_ptr* buffers,
                                                               sinter_device_ptr workspace,
                                                               bool no_rows = false) {
  SINTER_ASSIGN_OR_RETURN(const auto given, ReadBuffers(plan, count, buffers));
  return plan->prepared->Bind(given, workspace, no_rows);
}

sinter_binding* NewBinding(const sinter_plan* plan, std::shared_ptr<const PlanBinding> binding) {
  auto object = std::make_unique<sinter_binding>();
  object->binding = std::move(binding);
  object->engine = plan->engine;
  object->prepared = plan->prepared;
  object->uses_m = plan->uses_m;
  return object.release();
}

}  // namespace
}  // namespace sinter::capi

extern "C" {

void sinter_plan_retain(const sinter_plan* plan) { capi::RetainHandle(plan); }
void sinter_plan_release(const sinter_plan* plan) { capi::ReleaseHandle(plan); }

sinter_status sinter_plan_get_digest(const sinter_plan* plan, uint8_t out_digest[32],
                                     sinter_error** error) {
  return capi::Guard(error, [&]() -> absl::Status {
    SINTER_RETURN_IF_ERROR(capi::Check(plan, "plan"));
    return capi::CopyDigest(plan->prepared->ChosenDigest(), out_digest);
  });
}

int64_t sinter_plan_get_bucket(const sinter_plan* plan) {
  if (!capi::IsLive(plan)) return 0;
  return capi::GuardOr<int64_t>(0, [&] { return plan->prepared->plan().bucket; });
}

int64_t sinter_plan_get_max_m(const sinter_plan* plan) {
  if (!capi::IsLive(plan)) return 0;
  return capi::GuardOr<int64_t>(0, [&] { return plan->prepared->MostRows(); });
}

uint32_t sinter_plan_get_buffer_count(const sinter_plan* plan) {
  return capi::IsLive(plan) ? plan->buffers : 0;
}

uint64_t sinter_plan_get_workspace_size(const sinter_plan* plan) {
  if (!capi::IsLive(plan)) return 0;
  return capi::GuardOr<uint64_t>(0, [&] { return plan->prepared->WorkspaceBytes(); });
}

sinter_status sinter_plan_init_workspace(const sinter_plan* plan, sinter_device_ptr workspace,
                                         uint64_t bytes, sinter_stream stream,
                                         sinter_error** error) {
  return capi::Guard(error, [&]() -> absl::Status {
    SINTER_RETURN_IF_ERROR(capi::Check(plan, "plan"));
    return plan->prepared->InitWorkspace(workspace, bytes, stream);
  });
}

sinter_status sinter_plan_explain(const sinter_plan* plan, size_t capacity, char* buffer,
                                  size_t* required, sinter_error** error) {
  return capi::Guard(error, [&]() -> absl::Status {
    SINTER_RETURN_IF_ERROR(capi::Check(plan, "plan"));
    return sinter::OnEnoughStack([&] {
      return capi::CopyText(sinter::PrintableLines(plan->prepared->Explain()), capacity, buffer,
                            required);
    });
  });
}

sinter_status sinter_plan_bind(const sinter_plan* plan, uint32_t buffer_count,
                               const sinter_device_ptr* buffers, sinter_device_ptr workspace,
                               sinter_binding** out_binding, sinter_error** error) {
  return capi::Guard(error, [&]() -> absl::Status {
    SINTER_RETURN_IF_ERROR(capi::CheckNotNull(out_binding, "out_binding"));
    SINTER_ASSIGN_OR_RETURN(auto binding,
                            capi::BindBuffers(plan, buffer_count, buffers, workspace));
    *out_binding = capi::NewBinding(plan, std::move(binding));
    return absl::OkStatus();
  });
}

sinter_status sinter_plan_bind_group(const sinter_plan* plan, uint32_t buffer_count,
                                     const sinter_device_ptr* buffers, sinter_device_ptr workspace,
                                     const sinter_group* group, sinter_binding** out_binding,
                                     sinter_error** error) {
  return capi::Guard(error, [&]() -> absl::Status {
    SINTER_RETURN_IF_ERROR(capi::Check(plan, "plan"));
    SINTER_RETURN_IF_ERROR(capi::Check(group, "group"));
    SINTER_RETURN_IF_ERROR(capi::CheckNotNull(out_binding, "out_binding"));
    auto given = capi::ReadBuffers(plan, buffer_count, buffers);
    const int ordinal = plan->engine->ports().ordinal;
    if (given.ok() && ordinal >= 0 && ordinal != group->ordinal) {
      given = sinter::Invalid("the plan was prepared for GPU ", ordinal, ", the group's rank ",
                              group->group->rank(), " is GPU ", group->ordinal,
                              ": prepare the chain in that rank's context");
    }
    SINTER_ASSIGN_OR_RETURN(auto binding,
                            plan->prepared->BindGroup(given, workspace, group->group));
    *out_binding = capi::NewBinding(plan, std::move(binding));
    return absl::OkStatus();
  });
}

void sinter_binding_retain(const sinter_binding* binding) { capi::RetainHandle(binding); }
void sinter_binding_release(const sinter_binding* binding) { capi::ReleaseHandle(binding); }

sinter_status sinter_binding_launch(const sinter_binding* binding, sinter_stream stream,
                                    uint32_t symbol_count, const int64_t* symbols, uint32_t flags,
                                    sinter_error** error) {
  return capi::Guard(error, [&]() -> absl::Status {
    SINTER_RETURN_IF_ERROR(capi::Check(binding, "binding"));
    SINTER_RETURN_IF_ERROR(capi::CheckFlags(flags, SINTER_LAUNCH_PDL, "launch"));
    SINTER_ASSIGN_OR_RETURN(const int64_t m, capi::SymbolM(binding->uses_m, symbol_count, symbols));
    return binding->prepared->Launch(*binding->binding, stream, m, flags != 0);
  });
}

sinter_status sinter_plan_launch(const sinter_plan* plan, sinter_stream stream,
                                 uint32_t symbol_count, const int64_t* symbols,
                                 uint32_t buffer_count, const sinter_device_ptr* buffers,
                                 sinter_device_ptr workspace, uint32_t flags,
                                 sinter_error** error) {
  return capi::Guard(error, [&]() -> absl::Status {
    SINTER_RETURN_IF_ERROR(capi::Check(plan, "plan"));
    SINTER_RETURN_IF_ERROR(capi::CheckFlags(flags, SINTER_LAUNCH_PDL, "launch"));
    SINTER_ASSIGN_OR_RETURN(const int64_t m, capi::SymbolM(plan->uses_m, symbol_count, symbols));
    const bool no_rows = plan->uses_m && m == 0;
    SINTER_ASSIGN_OR_RETURN(const auto binding,
                            capi::BindBuffers(plan, buffer_count, buffers, workspace, no_rows));
    return plan->prepared->Launch(*binding, stream, m, flags != 0);
  });
}

}  // extern "C"

struct sinter_graph_nodes : sinter::capi::Handle<sinter_graph_nodes> {
  static constexpr uint32_t kMagic = 0x53476e6f;
  static constexpr char kTypeName[] = "sinter_graph_nodes";
  sinter::PlanNodes added;  // keeps the plan and the group
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
