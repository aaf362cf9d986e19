// Host time of a launch compared with the driver's own calls for the same kernels.
#include "runtime/launch/binding.h"
#include "tests/bench/host_launch.h"
#include "tests/bench/modes.h"

namespace sinter::bench {
namespace {

// The session's, except that launches can be recorded.
absl::StatusOr<std::shared_ptr<Engine>> RecordingEngine(const Session& session) {
  const Config& config = session.config();
  SINTER_ASSIGN_OR_RETURN(Ports ports, MakePorts(config, session.options().device, "", LogSink()));
  SINTER_ASSIGN_OR_RETURN(const auto driver, Driver::Open(config.driver_path));
  SINTER_ASSIGN_OR_RETURN(const auto recording, Driver::FromTable(RecordingTable(driver->table())));
  SINTER_ASSIGN_OR_RETURN(auto device, Device::Open(recording, session.options().device));
  SINTER_ASSIGN_OR_RETURN(ports.loader, MakeLoader(std::move(device)));
  return Engine::Create(std::move(ports), config, LogSink());
}

absl::StatusOr<HostRow> MeasureCase(Engine* engine, const GraphCase& c,
                                    PrepareOptions::Choice choice) {
  SINTER_ASSIGN_OR_RETURN(const auto plan, engine->Prepare(c.chain, c.m, {.choice = choice}));
  Measurer* const measurer = engine->ports().measurer.get();
  SINTER_ASSIGN_OR_RETURN(const auto data, GraphData::Make(measurer, c.chain, c.m, 1, 1));
  DeviceArena arena(measurer);
  const uint64_t bytes = plan->WorkspaceBytes();
  SINTER_ASSIGN_OR_RETURN(const DeviceBuffer workspace, arena.Allocate(bytes));
  SINTER_ASSIGN_OR_RETURN(const auto binding,
                          plan->Bind(data->CallerSet(0, false), bytes == 0 ? 0 : workspace.ptr));
  std::vector<BareLaunch> bare;
  SINTER_RETURN_IF_ERROR(measurer->RunAndWait([&](StreamHandle stream) -> absl::Status {
    if (bytes > 0) {
      SINTER_RETURN_IF_ERROR(plan->InitWorkspace(workspace.ptr, workspace.bytes, stream));
    }
    SINTER_ASSIGN_OR_RETURN(
        bare, RecordLaunches([&] { return plan->Launch(*binding, stream, c.m, false); }));
    return absl::OkStatus();
  }));
  SINTER_ASSIGN_OR_RETURN(
      const HostTimes times, MeasureHost(measurer, bare, [&](StreamHandle stream, int64_t fewer) {
        return plan->Launch(*binding, stream, std::max<int64_t>(c.m - fewer, 1), false);
      }));
  return HostRow{.id = c.id,
                 .problem = c.line,
                 .plan = std::string(plan->plan().name()),
                 .kernels = static_cast<double>(bare.size()),
                 .launch_us = times.launch_us,
                 .bare_us = times.bare_us,
                 .changing_us = times.changing_us,
                 .aim_us = HostAimUs(bare.size())};
}

void Print(const HostRow& r) {
  const double beside = r.launch_us - r.bare_us;
  std::printf(
      "%-6s %-12s kernels %.0f launch %.2f us, bare %.2f, difference %.2f (aim %.1f)%s, other rows "
      "%.2f\n",
      r.id.c_str(), r.plan.c_str(), r.kernels, r.launch_us, r.bare_us, beside, r.aim_us,
      beside <= r.aim_us ? "" : " OVER", r.changing_us - r.bare_us);
}

}  // namespace

int RunHost(Session* session) {
  const absl::StatusOr<std::vector<GraphCase>> cases = GraphCasesOf(session->options());
  const auto engine = RecordingEngine(*session);
  for (const absl::Status& status : {cases.status(), engine.status()}) {
    if (status.ok()) continue;
    std::fprintf(stderr, "sinter_bench: %s\n", std::string(status.message()).c_str());
    return 2;
  }
  int within = 0, rows = 0;
  for (const GraphCase& c : *cases) {
    for (const auto choice : {PrepareOptions::Choice::kBest, PrepareOptions::Choice::kUnfused}) {
      session->watchdog()->Begin(absl::StrCat(c.id, " host time"), 60);
      const absl::StatusOr<HostRow> row = MeasureCase(engine->get(), c, choice);
      session->watchdog()->End();
      if (!row.ok()) {
        std::printf("%s: %s\n", c.id.c_str(), std::string(row.status().message()).c_str());
        return 1;
      }
      Print(*row);
      within += row->launch_us - row->bare_us <= row->aim_us ? 1 : 0;
      ++rows;
      session->results().host.push_back(*row);
      if (!session->Keep()) return 1;
    }
  }
  std::printf(
      "%d of %d plans within the aim: 0.5 us more than the driver's calls, 0.4 more for each "
      "further kernel\n",
      within, rows);
  return 0;
}

}  // namespace sinter::bench
