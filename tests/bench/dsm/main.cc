// sinter_dsm_bench: bandwidth and latency of every exchange of src/device/dsm, by cluster size and
// payload, beside what FlashFuser's Fig. 13 spans and what plain copies reach. README.md has the
// protocol.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "src/base/status.h"
#include "src/engine/device_arena.h"
#include "tests/bench/dsm/cases.h"
#include "tests/bench/machine.h"
#include "tests/gpu/dsm_device.h"
#include "tests/gpu/watchdog.h"

namespace sinter::bench {
namespace {

using gpu_testing::DsmDevice;
using Json = nlohmann::ordered_json;

constexpr int kSkipped = 77;
constexpr double kWatchdogSeconds = 60;
constexpr double kBudgetSeconds = 20;  // of measuring; what is left then is not measured
constexpr int kLatencyRounds = 64, kCalls = 4, kReplays = 5;

// FlashFuser (arXiv 2512.12949), Fig. 13: an axis of 0 to 2000 GB/s for one H100, bars without
// figures. Shuffle lies above reduce and multiply, and all fall with the cluster's size.
constexpr double kFig13AxisGbps = 2000;

// Plain copies on one H200 (driver 580, CUDA 13.0): cp.async.bulk from block to block with a
// cluster barrier per 64 KB, a dependent remote load, f32 sums into L2 by bulk reduction.
struct Reference {
  int cluster;
  double push_gbps, load_cycles;
};
constexpr Reference kReferences[] = {
    {2, 3710, 186}, {4, 3240, 219}, {8, 3170, 219}, {16, 2930, 212}};
constexpr double kReduceGbps = 3600;

const Reference& ReferenceOf(int cluster) {
  for (const Reference& r : kReferences) {
    if (r.cluster == cluster) return r;
  }
  return kReferences[0];
}

struct Options {
  std::string out;
  std::vector<std::string> only;
  std::vector<int> clusters;
};

struct Row {
  DsmTimedCase timed;
  int blocks = 0;
  double us = 0;      // of a round with the chip full
  double cycles = 0;  // of a round of one cluster alone; of the slowest block across clusters
  std::string note;

  double PerSm() const { return us > 0 ? timed.BytesPerRound() / us / 1e3 : 0; }  // GB/s
  double Chip() const { return PerSm() * blocks; }
  double ReferenceGbps() const {
    return timed.CrossesClusters() ? kReduceGbps : ReferenceOf(timed.cluster).push_gbps;
  }
};

double Now() {
  const std::chrono::duration<double> now = std::chrono::steady_clock::now().time_since_epoch();
  return now.count();
}

// One case, loaded, with room for `clusters` clusters.
class Timed {
 public:
  Timed(DsmDevice* device, const DsmTimedCase& c) : device_(*device), case_(c), arena_(&lane()) {}

  absl::StatusOr<Row> Measure(const CompiledKernel& compiled) {
    const int alone = case_.CrossesClusters() ? kDsmParts : 1;
    SINTER_ASSIGN_OR_RETURN(kernel_,
                            device_.loader().Load(compiled.cubin, DsmTimedRecipe(case_, alone)));
    SINTER_ASSIGN_OR_RETURN(int clusters, kernel_->MaxActiveClusters(DsmTimedRecipe(case_, alone)));
    clusters = clusters / alone * alone;
    if (clusters == 0) return absl::FailedPreconditionError("no cluster fits");
    SINTER_RETURN_IF_ERROR(Allocate(clusters));
    Row row;
    row.timed = case_;
    row.blocks = clusters * case_.cluster;
    SINTER_ASSIGN_OR_RETURN(row.cycles, Latency(alone));
    SINTER_ASSIGN_OR_RETURN(row.us, RoundTime(clusters));
    return row;
  }

 private:
  Measurer& lane() { return device_.lane(0); }

  absl::Status Allocate(int clusters) {
    const uint64_t cycles = static_cast<uint64_t>(clusters * case_.cluster) * 8;
    for (const uint64_t bytes : {uint64_t{kDsmSinkBytes}, DsmScratchBytes(case_, clusters),
                                 DsmCounterBytes(case_, clusters), cycles}) {
      SINTER_ASSIGN_OR_RETURN(const DeviceBuffer buffer, arena_.Allocate(bytes));
      SINTER_RETURN_IF_ERROR(lane().Fill(buffer, 0));
      buffers_.push_back(buffer);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<BoundKernel>> Bind(int clusters) {
    std::vector<DevicePtr> pointers;
    for (const DeviceBuffer& buffer : buffers_) pointers.push_back(buffer.ptr);
    return kernel_->Bind(DsmTimedRecipe(case_, clusters),
                         {pointers.data(), static_cast<int>(pointers.size()), 0});
  }

  absl::StatusOr<double> Latency(int clusters) {
    const int rounds = case_.CrossesClusters() ? kDsmMaxTiles : kLatencyRounds;
    SINTER_ASSIGN_OR_RETURN(const std::unique_ptr<BoundKernel> bound, Bind(clusters));
    for (int warm_up = 0; warm_up < 2; ++warm_up) {
      SINTER_RETURN_IF_ERROR(lane().RunAndWait(
          [&](StreamHandle stream) { return kernel_->Launch(*bound, stream, rounds, 0, false); }));
    }
    std::vector<uint64_t> cycles(static_cast<size_t>(clusters * case_.cluster));
    SINTER_RETURN_IF_ERROR(lane().Download(cycles.data(), buffers_[3], cycles.size() * 8));
    return static_cast<double>(*std::max_element(cycles.begin(), cycles.end())) / rounds;
  }

  // From launches of few and of many rounds, so that what a launch costs falls out.
  absl::StatusOr<double> RoundTime(int clusters) {
    const int few = case_.CrossesClusters() ? 2 : 8,
              many = case_.CrossesClusters() ? kDsmMaxTiles : 40;
    SINTER_ASSIGN_OR_RETURN(const std::unique_ptr<BoundKernel> bound, Bind(clusters));
    double us[2] = {};
    for (int i = 0; i < 2; ++i) {
      SINTER_ASSIGN_OR_RETURN(us[i], lane().TimeGraph(
                                         [&](StreamHandle stream, int) {
                                           return kernel_->Launch(*bound, stream,
                                                                  i == 0 ? few : many, 0, false);
                                         },
                                         kCalls, kReplays));
    }
    return (us[1] - us[0]) / (many - few);
  }

  DsmDevice& device_;
  const DsmTimedCase case_;
  DeviceArena arena_;
  std::vector<DeviceBuffer> buffers_;  // sink, scratch, counters, cycles
  std::shared_ptr<LoadedKernel> kernel_;
};

void PrintHeader() {
  std::printf(
      "chip and SM: GB/s that leave the blocks, all resident clusters at once; peak: a plain bulk "
      "push at this cluster size\n(across clusters: f32 sums into L2); Fig. 13: on the paper's "
      "axis "
      "of 0 to %.0f GB/s, whose bars have no figures;\nlatency: a round of one cluster alone; "
      "load: "
      "one dependent remote load\n%-24s %3s %7s %6s | %8s %6s | %8s %5s %7s | %8s %7s %5s\n",
      kFig13AxisGbps, "exchange", "cls", "payload", "blocks", "chip", "SM", "peak", "of it",
      "Fig. 13", "cycles", "us", "load");
}

void PrintRow(const Row& r, double clock_mhz) {
  if (!r.note.empty()) {
    std::printf("%-24s %3d %7d  %s\n", NameOf(r.timed.primitive), r.timed.cluster,
                r.timed.payload_bytes, r.note.c_str());
    return;
  }
  const double peak = r.ReferenceGbps();
  std::printf("%-24s %3d %7d %6d | %8.0f %6.1f | %8.0f %4.0f%% %6.0f%% | %8.0f %7.2f %5.0f\n",
              NameOf(r.timed.primitive), r.timed.cluster, r.timed.payload_bytes, r.blocks, r.Chip(),
              r.PerSm(), peak, 100 * r.Chip() / peak, 100 * r.Chip() / kFig13AxisGbps, r.cycles,
              r.cycles / clock_mhz, ReferenceOf(r.timed.cluster).load_cycles);
}

Json JsonOf(const Row& r, double clock_mhz) {
  return {{"exchange", NameOf(r.timed.primitive)},
          {"cluster", r.timed.cluster},
          {"payload_bytes", r.timed.payload_bytes},
          {"blocks", r.blocks},
          {"bytes_per_block", r.timed.BytesPerRound()},
          {"round_us", r.us},
          {"chip_gbps", r.Chip()},
          {"sm_gbps", r.PerSm()},
          {"latency_cycles", r.cycles},
          {"latency_us", r.cycles / clock_mhz},
          {"plain_copy_gbps", r.ReferenceGbps()},
          {"remote_load_cycles", ReferenceOf(r.timed.cluster).load_cycles},
          {"paper_fig13_axis_gbps", kFig13AxisGbps},
          {"note", r.note}};
}

bool Write(const Options& o, const Machine& machine, const SourceState& source,
           const std::vector<Row>& rows) {
  Json json = {{"machine",
                {{"gpu", machine.gpu},
                 {"sm_count", machine.sm_count},
                 {"clock_mhz", machine.clock_mhz},
                 {"driver", machine.driver},
                 {"cuda", machine.cuda},
                 {"date", machine.date}}},
               {"commit", source.commit},
               {"dirty", source.dirty},
               {"dsm", Json::array()}};
  for (const Row& row : rows) json["dsm"].push_back(JsonOf(row, machine.clock_mhz));
  std::ofstream file(o.out);
  file << json.dump(1) << "\n";
  return file.good();
}

std::vector<DsmTimedCase> CasesOf(const Options& o) {
  std::vector<DsmTimedCase> cases;
  const auto listed = [](const auto& list, const auto& value) {
    return list.empty() || std::find(list.begin(), list.end(), value) != list.end();
  };
  for (const DsmTimedCase& c : AllDsmTimedCases()) {
    if (listed(o.only, std::string(NameOf(c.primitive))) && listed(o.clusters, c.cluster))
      cases.push_back(c);
  }
  return cases;
}

// A fault loses the context: false, and the rest is left out.
bool MeasureAll(DsmDevice* device, const std::vector<DsmTimedCase>& cases, double clock_mhz,
                std::vector<Row>* rows) {
  std::vector<CompileRequest> requests;
  for (const DsmTimedCase& c : cases) requests.push_back(DsmTimedRequest(c));
  double start = Now();
  const auto compiled = device->CompileAll(requests);
  std::printf("%zu kernels compiled in %.1f s\n", cases.size(), Now() - start);
  PrintHeader();
  start = Now();
  for (size_t i = 0; i < cases.size(); ++i) {
    absl::StatusOr<Row> row = absl::DeadlineExceededError("not measured: no time left");
    if (!compiled[i].ok()) row = compiled[i].status();
    if (compiled[i].ok() && Now() - start < kBudgetSeconds)
      row = Timed(device, cases[i]).Measure(*compiled[i]);
    if (!row.ok()) {
      const std::string why(row.status().message());
      row = Row{cases[i], 0, 0, 0, why};
    }
    PrintRow(*row, clock_mhz);
    rows->push_back(*row);
    if (!device->lane(0).RunAndWait([](StreamHandle) { return absl::OkStatus(); }).ok()) {
      std::printf("the device is lost\n");
      return false;
    }
  }
  return true;
}

int Main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IONBF, 0);
  CLI::App app("Measures the exchanges between the blocks of a cluster on a GPU.");
  Options o;
  app.add_option("--out", o.out, "results file");
  app.add_option("--only", o.only, "these exchanges")->delimiter(',');
  app.add_option("--clusters", o.clusters, "these cluster sizes")->delimiter(',');
  CLI11_PARSE(app, argc, argv);
  const absl::StatusOr<Config> config = ConfigFromEnvironment();
  if (!config.ok()) {
    std::fprintf(stderr, "sinter_dsm_bench: %s\n", std::string(config.status().message()).c_str());
    return 2;
  }
  gpu_testing::Watchdog watchdog;
  watchdog.Begin("measuring the exchanges", kWatchdogSeconds);
  const auto device = DsmDevice::Open(*config, 1);
  if (!device.ok()) {
    std::printf("skipped: %s\n", std::string(device.status().message()).c_str());
    return kSkipped;
  }
  const Machine machine = DescribeMachine(*config, 0);
  std::vector<Row> rows;
  bool right = MeasureAll(device->get(), CasesOf(o), machine.clock_mhz, &rows);
  for (const Row& row : rows) right = right && row.note.empty();
  if (!o.out.empty() && !Write(o, machine, DescribeSource(), rows)) {
    std::fprintf(stderr, "sinter_dsm_bench: cannot write '%s'\n", o.out.c_str());
    return 2;
  }
  watchdog.End();
  return right ? 0 : 1;
}

}  // namespace
}  // namespace sinter::bench

int main(int argc, char** argv) { return sinter::bench::Main(argc, argv); }
