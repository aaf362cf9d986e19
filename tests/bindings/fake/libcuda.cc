// The fake driver as a library that SINTER_LIBCUDA can name, so that a program in any language
// binds, launches and releases without a GPU. Kernels do nothing. When the process ends, it prints
// what the program left alive on the device, and every call that the real driver forbids. The
// process then ends with status 86; with FAKE_LIBCUDA_LENIENT in the environment, only violations
// count.
#include "tests/fakes/fake_driver.h"

namespace {

constexpr int kLeft = 86;

// One GPU, or as many as FAKE_LIBCUDA_GPUS says.
std::vector<sinter::FakeChip> Chips() {
  const char* count = std::getenv("FAKE_LIBCUDA_GPUS");
  return std::vector<sinter::FakeChip>(count == nullptr ? 1 : std::strtoul(count, nullptr, 10));
}

// Static: made when the library is opened, judged when the process ends or closes it.
struct Judged {
  sinter::FakeDriver driver{Chips()};

  Judged() { driver.kernel.param_sizes = {}; }
  ~Judged() {
    const sinter::FakeLive live = driver.live();
    for (const std::string& violation : driver.violations()) {
      std::fprintf(stderr, "fake driver: %s\n", violation.c_str());
    }
    const bool left = live.Total() > 0 && std::getenv("FAKE_LIBCUDA_LENIENT") == nullptr;
    if (left) {
      std::fprintf(
          stderr,
          "fake driver: left alive: %d contexts, %d modules, %d streams, %d events, %d "
          "graphs, %d graph instances, %d allocations, %d user objects, %d opened handles\n",
          live.contexts, live.modules, live.streams, live.events, live.graphs, live.execs,
          live.allocations, live.user_objects, live.opened_handles);
    }
    if (left || !driver.violations().empty()) _exit(kLeft);
  }
};
Judged g_judged;

const sinter::DriverTable& Table() {
  static const sinter::DriverTable table = g_judged.driver.Table();
  return table;
}

// Calls the fake's function of a row.
template <auto kField, typename = decltype(kField)>
struct Row;
template <auto kField, typename... Args>
struct Row<kField, CUresult (*sinter::DriverTable::*)(Args...)> {
  static CUresult Call(Args... args) { return (Table().*kField)(args...); }
};

}  // namespace

// A row's symbol is Row::Call. An indirect function lets it take that address, since a macro cannot
// pass on parameters whose names it does not know.
#define SINTER_FAKE_EXPORT(field, symbol, parameters)                                             \
  extern "C" {                                                                                    \
  CUresult(*sinter_find_##field()) parameters { return &Row<&sinter::DriverTable::field>::Call; } \
  __attribute__((visibility("default"), ifunc("sinter_find_" #field)))                            \
  CUresult sinter_fake_##field parameters __asm__(symbol);                                        \
  }
SINTER_DRIVER_REQUIRED(SINTER_FAKE_EXPORT)
SINTER_FAKE_EXPORT(GraphAddNode, "cuGraphAddNode_v2",
                   (CUgraphNode * node, CUgraph graph, const CUgraphNode* dependencies,
                    const CUgraphEdgeData* edges, size_t count, CUgraphNodeParams* params))
#undef SINTER_FAKE_EXPORT

// Driver calls that bindings make themselves, not through libsinter. Work ends as it is enqueued;
// every address is on the only GPU.
extern "C" {
__attribute__((visibility("default"))) CUresult cuEventQuery(CUevent) { return CUDA_SUCCESS; }
__attribute__((visibility("default"))) CUresult cuStreamWaitEvent(CUstream, CUevent, unsigned) {
  return CUDA_SUCCESS;
}
__attribute__((visibility("default"))) CUresult cuDeviceGetPCIBusId(char* address, int size,
                                                                    CUdevice) {
  std::snprintf(address, static_cast<size_t>(size), "0000:3b:00.0");
  return CUDA_SUCCESS;
}
__attribute__((visibility("default"))) CUresult cuPointerGetAttribute(void* value,
                                                                      CUpointer_attribute,
                                                                      CUdeviceptr) {
  *static_cast<int*>(value) = 0;
  return CUDA_SUCCESS;
}
}
