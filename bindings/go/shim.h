// What cgo cannot say: results by value and handles as void*, so that a launch allocates nothing
// (Go boxes a pointer to an incomplete type to check it); streams as numbers, since a Go variable
// of pointer type may not hold the handles 1 and 2; addresses of the functions that Go exports.
#ifndef SINTER_BINDINGS_GO_SHIM_H_
#define SINTER_BINDINGS_GO_SHIM_H_

#include <stdlib.h>

#include "sinter/sinter_experimental.h"

typedef const char* sinter_go_text;
typedef const sinter_pending* sinter_go_pending;
typedef const void* sinter_go_bytes;

typedef struct sinter_go_result {
  sinter_status status;
  sinter_error* error;
} sinter_go_result;

static inline sinter_go_result sinter_go_launch(const void* binding, uintptr_t stream,
                                                uint32_t count, int64_t m, uint32_t flags) {
  sinter_go_result result = {SINTER_OK, NULL};
  result.status = sinter_binding_launch(binding, (sinter_stream)stream, count,
                                        count == 0 ? NULL : &m, flags, &result.error);
  return result;
}

static inline sinter_go_result sinter_go_add_to_graph(const void* binding, uintptr_t graph,
                                                      uint32_t dependency_count,
                                                      const uintptr_t* dependencies, uint32_t count,
                                                      int64_t m, uint32_t flags,
                                                      sinter_graph_nodes** nodes) {
  sinter_go_result result = {SINTER_OK, NULL};
  result.status = sinter_binding_add_to_graph(binding, (sinter_graph)graph, dependency_count,
                                              (const sinter_graph_node*)dependencies, count,
                                              count == 0 ? NULL : &m, flags, nodes, &result.error);
  return result;
}

static inline sinter_go_result sinter_go_update_nodes(const void* nodes, uintptr_t exec,
                                                      const void* binding, uint32_t count,
                                                      int64_t m) {
  sinter_go_result result = {SINTER_OK, NULL};
  result.status = sinter_graph_nodes_update(nodes, (sinter_graph_exec)exec, binding, count,
                                            count == 0 ? NULL : &m, &result.error);
  return result;
}

static inline uintptr_t sinter_go_node(const void* nodes, uint32_t index) {
  return (uintptr_t)sinter_graph_nodes_get(nodes, index);
}

static inline sinter_go_result sinter_go_plan_launch(const void* plan, uintptr_t stream,
                                                     uint32_t count, int64_t m,
                                                     uint32_t buffer_count,
                                                     const sinter_device_ptr* buffers,
                                                     sinter_device_ptr workspace, uint32_t flags) {
  sinter_go_result result = {SINTER_OK, NULL};
  result.status = sinter_plan_launch(plan, (sinter_stream)stream, count, count == 0 ? NULL : &m,
                                     buffer_count, buffers, workspace, flags, &result.error);
  return result;
}

static inline sinter_go_result sinter_go_init_workspace(const void* plan,
                                                        sinter_device_ptr workspace, uint64_t bytes,
                                                        uintptr_t stream) {
  sinter_go_result result = {SINTER_OK, NULL};
  result.status =
      sinter_plan_init_workspace(plan, workspace, bytes, (sinter_stream)stream, &result.error);
  return result;
}

sinter_status sinter_go_on_ready(const void* pending, uintptr_t id, sinter_error** error);
void sinter_go_use_log(sinter_context_options* options, uintptr_t id);
void sinter_go_use_progress(sinter_prepare_options* options, uintptr_t id);
void sinter_go_use_exchange(sinter_group_options* options, uintptr_t id);
static inline void sinter_go_set_stream(sinter_prepare_options* options, uintptr_t stream) {
  options->stream = (sinter_stream)stream;
}
static inline void sinter_go_set_tune_stream(sinter_tune_options* options, uintptr_t stream) {
  options->stream = (sinter_stream)stream;
}

#endif  // SINTER_BINDINGS_GO_SHIM_H_
