// One computation between the profiler's start and stop, its constants and input not in any cache.
#include <dlfcn.h>

#include "tests/bench/modes.h"

namespace sinter::bench {
namespace {

constexpr uint64_t kFlushBytes = uint64_t{512} << 20;
constexpr uint8_t kPoison = 0xff;

// cuProfilerStart or cuProfilerStop in the current context; without the symbol no profiler is
// notified.
void TellProfiler(const Config& config, const char* symbol) {
  const char* name = config.driver_path.empty() ? "libcuda.so.1" : config.driver_path.c_str();
  void* driver = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (driver == nullptr) return;
  if (auto* call = reinterpret_cast<int (*)()>(dlsym(driver, symbol))) call();
}

absl::StatusOr<Runnable> MakeRunnable(Session* session, const Case& c, const PreparedCase& prepared,
                                      const GraphData& data, BytesRow* row) {
  if (row->contestant == "cublaslt") {
    const std::optional<LtContext>& lt = session->Lt();
    if (!lt.has_value()) return absl::UnavailableError("no cuBLASLt");
    // The first suggestion: passes of a profiler that runs the program again must launch the same.
    return MakeLtFfn(session->ports(), *lt, c, data, 1);
  }
  const auto& plan = row->contestant == "fused"     ? prepared.fused
                     : row->contestant == "unfused" ? prepared.unfused
                                                    : prepared.best;
  if (!plan.ok()) return plan.status();
  row->schedule = SchedulesOf((*plan)->plan());
  double dram = 0, l2 = 0, dsm = 0;
  for (const PlannedKernel& kernel : (*plan)->plan().kernels) {
    dram += kernel.prediction.hbm_bytes;
    l2 += kernel.prediction.l2_bytes;
    dsm += kernel.prediction.dsm_bytes;
    ++row->kernels;
  }
  row->dram_read_bytes = dram;
  row->l2_bytes = l2;
  row->dsm_bytes = dsm;
  return RunnableOf(session->ports().measurer.get(), *plan, c.m, data);
}

absl::Status Profile(Session* session, const Case& c, const PreparedCase& prepared, BytesRow* row) {
  Measurer* measurer = session->ports().measurer.get();
  SINTER_ASSIGN_OR_RETURN(const std::unique_ptr<GraphData> data,
                          GraphData::MakeOfWeights(measurer, c.chain, c.m, 1, false));
  SINTER_ASSIGN_OR_RETURN(const Runnable run, MakeRunnable(session, c, prepared, *data, row));
  SINTER_RETURN_IF_ERROR(RunOnce(measurer, run, data.get()).status());
  DeviceArena arena(measurer);
  SINTER_ASSIGN_OR_RETURN(const DeviceBuffer flush, arena.Allocate(kFlushBytes));
  SINTER_RETURN_IF_ERROR(measurer->Fill(flush, kPoison));
  SINTER_RETURN_IF_ERROR(measurer->RunAndWait([&](StreamHandle stream) {
    TellProfiler(session->config(), "cuProfilerStart");
    return run.enqueue(stream, 0, false);
  }));
  return measurer->RunAndWait([&](StreamHandle) {
    TellProfiler(session->config(), "cuProfilerStop");
    return absl::OkStatus();
  });
}

}  // namespace

int RunProfile(Session* session) {
  const std::string& contestant = session->options().profile;
  Wanted wanted{.fused = contestant == "fused", .unfused = contestant == "unfused"};
  const bool profiled =
      session->MeasureEach(wanted, [&](const Case& c, const PreparedCase& prepared) {
        BytesRow row{.id = c.id,
                     .layout = std::string(NameOf(c.matched.sequence.layout())),
                     .contestant = contestant};
        const absl::Status status = Profile(session, c, prepared, &row);
        if (!status.ok()) {
          std::printf("%s: %s\n", c.id.c_str(), std::string(status.message()).c_str());
          return false;
        }
        session->results().bytes.push_back(std::move(row));
        return true;
      });
  return profiled ? 0 : 1;
}

}  // namespace sinter::bench
