// The probes on a chip of known figures: what they measure of it is what it was made of.
#include "runtime/measure/probes.h"

#include "runtime/launch/binding.h"
#include "runtime/query/model_choice.h"
#include "src/base/arch.h"
#include "src/base/device_model.h"
#include "tests/support/test.h"

namespace sinter {
namespace {

// Launches take time on a clock of its own, by the figures of a model.
struct FakeChip {
  DeviceModel model = *BuiltinModel("h200");
  double now_us = 0;
  std::map<std::string, int> compiled;
  std::map<std::string, int> launched;
  std::string broken;      // entry of a probe that takes the same time for any work
  int64_t live_bytes = 0;  // allocated
  bool counter_is_clear = false;

  double HbmUs(double bytes, int blocks) const {
    const double idle = 1 - static_cast<double>(blocks) / model.sm_count;
    return bytes / (model.hbm_bytes_per_us * (1 - model.hbm_idle_loss * idle));
  }

  double StreamUs(const LaunchRecipe& r, const std::vector<double>& n) const {
    const int blocks = static_cast<int>(r.grid[0]);
    const double bytes = n[0] * n[2] * blocks;
    if (blocks == 1) return bytes / model.sm_intake_bytes_per_us;
    if (n[1] == 0) return bytes / model.l2_shared_bytes_per_us;
    const bool cold = n[0] * blocks > static_cast<double>(model.l2_bytes);
    return cold ? HbmUs(bytes, blocks) : bytes / model.l2_bytes_per_us;
  }

  // Stores of kernels reach 0.9 of what pushes do.
  double PushUs(const LaunchRecipe& r, double rounds) const {
    const auto size = static_cast<size_t>(ClusterIndex(static_cast<int>(r.cluster[0])));
    return rounds * 65536 * r.grid[0] / model.dsm_bytes_per_us[size] * 0.9;
  }

  // The time without the launch itself; `n`: the integer arguments.
  double WorkUs(const LaunchRecipe& r, const std::vector<double>& n) const {
    const double sms = model.sm_count;
    if (r.entry == "probe_stream" || r.entry == "probe_copies") return StreamUs(r, n);
    if (r.entry == "probe_push") return PushUs(r, n[0]);
    if (r.entry == "probe_grid_barrier") return n[0] * model.grid_barrier_us;
    if (r.entry == "probe_reduce") return n[0] * 8192 * sms / model.reduce_bytes_per_us;
    if (r.entry == "probe_shared") return n[0] * 8 * 16 * 1024 / model.shared_bytes_per_us;
    if (r.entry == "probe_tensor") {
      return n[0] * sms * 2 * 128 * 256 * 64 / model.tensor_flop_per_us;
    }
    const double mma = n.empty() ? 0 : n[0] * sms * 2 * 8 * 64 * 32;
    if (r.entry == "probe_mma") return 16 * mma / model.tensor_flop_per_us;
    if (r.entry == "probe_mma_codes") return 32 * mma / model.tensor_fp8_flop_per_us;
    return 0;
  }

  void Launch(const LaunchRecipe& r) {
    ++launched[r.entry];
    std::vector<double> integers;
    for (const ArgSlot& arg : r.args) {
      if (arg.kind == ArgKind::kInt32) integers.push_back(static_cast<double>(arg.int_value));
    }
    now_us += model.launch_us;
    if (r.entry != broken) now_us += WorkUs(r, integers);
    if (!r.cooperative) return;
    EXPECT_TRUE(counter_is_clear) << "blocks that wait for a count of 0";
    EXPECT_LE(r.grid[0], static_cast<uint32_t>(model.sm_count)) << "not all blocks are resident";
    counter_is_clear = false;
  }
};

DeviceLimits LimitsOf(const DeviceModel& model) {
  DeviceLimits limits{.max_threads_per_block = 1024,
                      .max_shared_bytes = static_cast<int>(model.shared_bytes_per_block),
                      .cooperative = true};
  for (int i = 0; i < 3; ++i) limits.max_grid[i] = 65535, limits.max_block[i] = 1024;
  return limits;
}

class ChipKernel : public LoadedKernel {
 public:
  struct Bound : BoundKernel {
    LaunchRecipe recipe;
  };
  explicit ChipKernel(FakeChip* chip) : chip_(chip) {}
  absl::Status CheckRecipe(const LaunchRecipe& recipe) const override { return recipe.Check(); }
  absl::StatusOr<std::unique_ptr<BoundKernel>> Bind(const LaunchRecipe& recipe,
                                                    const BufferList& buffers) const override {
    for (const ArgSlot& arg : recipe.args) {
      EXPECT_TRUE(arg.kind != ArgKind::kPointer || arg.index < buffers.count);
    }
    auto bound = std::make_unique<Bound>();
    bound->recipe = recipe;
    return std::unique_ptr<BoundKernel>(std::move(bound));
  }
  absl::Status Launch(const BoundKernel& bound, StreamHandle, int64_t, int64_t,
                      bool) const override {
    chip_->Launch(static_cast<const Bound&>(bound).recipe);
    return absl::OkStatus();
  }
  absl::StatusOr<int> MaxActiveClusters(const LaunchRecipe& recipe) const override {
    EXPECT_EQ(recipe.shared_bytes, kProbeBlock);
    const auto size = static_cast<size_t>(ClusterIndex(static_cast<int>(recipe.cluster[0])));
    return chip_->model.resident_clusters[size];
  }

 private:
  FakeChip* chip_;
};

class ChipPorts : public Compiler, public Loader, public Measurer {
 public:
  explicit ChipPorts(FakeChip* chip) : chip_(chip) {}

  absl::StatusOr<CompiledKernel> Compile(const CompileRequest& request, const KeepGoing*) override {
    ++chip_->compiled[request.entry];
    EXPECT_EQ(request.arch, chip_->model.arch) << request.entry;
    EXPECT_NE(request.source, "") << request.entry;
    return CompiledKernel{.cubin = request.entry};
  }
  absl::StatusOr<std::string> ToolchainId() override { return std::string("fake"); }
  bool Loaded() const override { return true; }
  uint64_t Compiles() const override { return 0; }

  absl::StatusOr<std::shared_ptr<LoadedKernel>> Load(absl::string_view cubin,
                                                     const LaunchRecipe& recipe) override {
    EXPECT_EQ(cubin, recipe.entry);
    EXPECT_TRUE(CheckRecipe(recipe, LimitsOf(chip_->model)).ok()) << recipe.entry;
    return std::shared_ptr<LoadedKernel>(std::make_shared<ChipKernel>(chip_));
  }
  absl::Status MemsetAsync(DevicePtr, uint8_t value, uint64_t bytes, StreamHandle) override {
    chip_->counter_is_clear = value == 0 && bytes == 4;
    return absl::OkStatus();
  }
  absl::StatusOr<bool> IsCapturing(StreamHandle) override { return false; }
  absl::Status TieToCapture(StreamHandle, std::shared_ptr<const void>) override {
    return absl::OkStatus();
  }

  absl::StatusOr<DeviceBuffer> Allocate(uint64_t bytes) override {
    chip_->live_bytes += static_cast<int64_t>(bytes);
    return DeviceBuffer{4096, bytes};
  }
  void Free(DeviceBuffer buffer) override {
    chip_->live_bytes -= static_cast<int64_t>(buffer.bytes);
  }
  absl::Status Upload(DeviceBuffer, const void*, uint64_t) override { return absl::OkStatus(); }
  absl::Status Download(void*, DeviceBuffer, uint64_t) override { return absl::OkStatus(); }
  absl::Status Fill(DeviceBuffer, uint8_t) override { return absl::OkStatus(); }
  absl::StatusOr<double> TimeGraph(const GraphCalls& of, int calls, int) override {
    const double before = chip_->now_us;
    for (int i = 0; i < calls; ++i) {
      const absl::Status status = of.enqueue(nullptr, i);
      if (!status.ok()) return status;
    }
    return (chip_->now_us - before) / calls;
  }
  absl::Status RunAndWait(const std::function<absl::Status(StreamHandle)>&) override {
    return absl::OkStatus();
  }

 private:
  FakeChip* chip_;
};

absl::StatusOr<ProbeTimings> Probe(FakeChip* chip) {
  ChipPorts ports(chip);
  ProbeRunner runner(chip->model.arch, &ports, &ports, &ports);
  return RunProbes(chip->model, &runner);
}

// Another chip, none of whose measured figures is the h200's.
FakeChip Other() {
  FakeChip chip;
  DeviceModel& m = chip.model;
  m.sm_count = 114;
  m.hbm_bytes_per_us = 3e6, m.hbm_idle_loss = 0.15;
  m.l2_bytes_per_us = 7e6, m.l2_shared_bytes_per_us = 18e6, m.sm_intake_bytes_per_us = 0.15e6;
  m.shared_bytes_per_us = 220e3, m.reduce_bytes_per_us = 3e6, m.tensor_flop_per_us = 700e6;
  m.dsm_bytes_per_us = {13e6, 3e6, 2.5e6, 2.4e6, 2.2e6};
  m.resident_clusters = {114, 57, 26, 12, 5};
  m.launch_us = 0.7, m.programmatic_edge_us = 0.6, m.fill_us = 1.1;
  m.cluster_barrier_us = 0.25, m.grid_barrier_us = 1.2;  // the first is not measured
  return chip;
}

TEST(Probes, MeasureWhatAChipIsMadeOf) {
  FakeChip chip = Other();
  const ProbeTimings timings = Got(Probe(&chip));
  DeviceModel nearest = *BuiltinModel("h200");
  nearest.sm_count = 114;
  nearest.resident_clusters = {114, 50, 20, 10, 5};
  nearest.name = "h200-adapted";
  const DeviceModel model = Got(MeasuredModel(nearest, timings));
  EXPECT_EQ(model.name, "h200-measured");
  EXPECT_TRUE(model.measured);
  std::vector<std::pair<double, double>> figures = {
      {model.hbm_bytes_per_us, chip.model.hbm_bytes_per_us},
      {model.hbm_idle_loss, chip.model.hbm_idle_loss},
      {model.l2_bytes_per_us, chip.model.l2_bytes_per_us},
      {model.l2_shared_bytes_per_us, chip.model.l2_shared_bytes_per_us},
      {model.sm_intake_bytes_per_us, chip.model.sm_intake_bytes_per_us},
      {model.shared_bytes_per_us, chip.model.shared_bytes_per_us},
      {model.reduce_bytes_per_us, chip.model.reduce_bytes_per_us},
      {model.tensor_flop_per_us, chip.model.tensor_flop_per_us},
      {model.launch_us, chip.model.launch_us},
      {model.fill_us, nearest.fill_us},
      {model.cluster_barrier_us, nearest.cluster_barrier_us},
      {model.programmatic_edge_us - model.launch_us,
       nearest.programmatic_edge_us - nearest.launch_us},
      {model.grid_barrier_us, chip.model.grid_barrier_us}};
  for (size_t i = 0; i < kClusterSizes.size(); ++i) {
    const DeviceModel& from = kClusterSizes[i] == 1 ? nearest : chip.model;
    figures.push_back({model.dsm_bytes_per_us[i], from.dsm_bytes_per_us[i]});
    EXPECT_EQ(model.resident_clusters[i], chip.model.resident_clusters[i]) << i;
  }
  for (size_t i = 0; i < figures.size(); ++i) {
    EXPECT_NEAR(figures[i].first / figures[i].second, 1, 2e-3) << "figure " << i;
  }
  EXPECT_EQ(chip.live_bytes, 0);
}

TEST(Probes, EachIsCompiledOnceAndLaunched) {
  for (const char* name : {"h200", "a100", "rtx-4090", "b200"}) {
    FakeChip chip{.model = *BuiltinModel(name)};
    ASSERT_TRUE(Probe(&chip).ok());
    const std::vector<std::string> entries = ProbeEntries(*FeaturesOf(chip.model.arch));
    for (const std::string& entry : entries) {
      EXPECT_EQ(chip.compiled[entry], 1) << name << " " << entry;
      EXPECT_GT(chip.launched[entry], 0) << name << " " << entry;
    }
    EXPECT_EQ(chip.compiled.size(), entries.size()) << name;
  }
}

// Figures of what the kernels of such a chip use. The A10 has the smallest L2.
TEST(Probes, MeasureOfOtherChipsWhatTheirKernelsUse) {
  for (const char* name : {"a10", "a100", "rtx-4090", "b200", "gb10"}) {
    SCOPED_TRACE(name);
    const DeviceModel nearest = *BuiltinModel(name);
    FakeChip chip{.model = nearest};
    constexpr double DeviceModel::*kMeasured[] = {
        &DeviceModel::hbm_bytes_per_us,       &DeviceModel::l2_bytes_per_us,
        &DeviceModel::l2_shared_bytes_per_us, &DeviceModel::sm_intake_bytes_per_us,
        &DeviceModel::shared_bytes_per_us,    &DeviceModel::tensor_flop_per_us,
        &DeviceModel::tensor_fp8_flop_per_us, &DeviceModel::launch_us,
        &DeviceModel::grid_barrier_us};
    double share = 0.9;
    for (const auto field : kMeasured) chip.model.*field *= share -= 0.03;
    const DeviceModel model = Got(MeasuredModel(nearest, Got(Probe(&chip))));
    EXPECT_EQ(model.name, absl::StrCat(name, "-measured"));
    EXPECT_EQ(model.arch, nearest.arch);
    for (const auto field : kMeasured) {
      EXPECT_NEAR(model.*field / (chip.model.*field), 1, 2e-3);
    }
    size_t measured = 0;
    for (const auto& [key, provenance] : model.provenance) {
      measured += provenance.ToText() == "measured" ? 1 : 0;
    }
    EXPECT_EQ(measured, std::size(kMeasured));
    DeviceModel rest = model;
    for (const auto field : kMeasured) rest.*field = nearest.*field;
    rest.name = nearest.name, rest.measured = nearest.measured;
    EXPECT_TRUE(rest.ModelDigest() == nearest.ModelDigest()) << "the rest is the data sheet's";
    EXPECT_EQ(chip.live_bytes, 0);
  }
}

TEST(Probes, WhatIsNotMeasuredSaysWhoseItIs) {
  FakeChip chip;
  const DeviceModel nearest = *BuiltinModel("h200");
  const DeviceModel model = *MeasuredModel(nearest, *Probe(&chip));
  EXPECT_EQ(model.provenance.size(), nearest.provenance.size());
  int measured = 0;
  for (const auto& [key, provenance] : model.provenance) {
    if (provenance.origin == Origin::kArchitecture) {
      EXPECT_EQ(provenance.from, "") << key;
    } else if (provenance.from.empty()) {
      EXPECT_EQ(provenance.origin, Origin::kMeasured) << key;
      ++measured;
    } else {
      EXPECT_EQ(provenance.ToText(), nearest.provenance.at(key).ToText() + " from h200") << key;
    }
  }
  EXPECT_EQ(measured, 12);
}

// What the command prints is a model file.
TEST(Probes, TheTextIsAModelFileAndShowsTheNearestModelsFigures) {
  FakeChip chip;
  const DeviceModel nearest = *BuiltinModel("h200");
  const DeviceModel model = *MeasuredModel(nearest, *Probe(&chip));
  const std::string text = MeasuredModelText(model, nearest, "NVIDIA H200, driver for CUDA 13.0");
  EXPECT_EQ(Got(DeviceModel::FromText(text)).ToText(), model.ToText());
  EXPECT_THAT(text, HasSubstr("# NVIDIA H200, driver for CUDA 13.0."));
  EXPECT_THAT(text, HasSubstr("hbm_bytes_per_us = 4640000 [measured]  # h200: 4640000\n"));
  EXPECT_THAT(text, HasSubstr("stitch_read_us = 0.5 [fitted from h200]\n"));
}

TEST(Probes, AProbeThatMakesNoSenseIsAnErrorNamingItsFigure) {
  const std::pair<const char*, const char*> rows[] = {
      {"probe_stream", "hbm_bytes_per_us"},      {"probe_push", "dsm_bytes_per_us"},
      {"probe_grid_barrier", "grid_barrier_us"}, {"probe_tensor", "tensor_flop_per_us"},
      {"probe_shared", "shared_bytes_per_us"},   {"probe_reduce", "reduce_bytes_per_us"},
  };
  for (const auto& [entry, figure] : rows) {
    FakeChip chip{.broken = entry};
    EXPECT_TRUE(Fails(MeasuredModel(*BuiltinModel("h200"), *Probe(&chip)),
                      absl::StatusCode::kInternal, figure))
        << entry;
  }
}

TEST(Probes, AProbeOfAnotherChipThatMakesNoSenseNamesItsFigure) {
  const std::pair<const char*, const char*> rows[] = {
      {"probe_copies", "hbm_bytes_per_us"},
      {"probe_mma", "tensor_flop_per_us"},
      {"probe_mma_codes", "tensor_fp8_flop_per_us"},
  };
  for (const auto& [entry, figure] : rows) {
    FakeChip chip{.model = *BuiltinModel("a100"), .broken = entry};
    EXPECT_TRUE(Fails(MeasuredModel(*BuiltinModel("a100"), *Probe(&chip)),
                      absl::StatusCode::kInternal, figure))
        << entry;
  }
}

TEST(Probes, AnUnknownArchIsRefused) {
  FakeChip chip;
  chip.model.arch = "sm_75";
  EXPECT_TRUE(Fails(Probe(&chip), absl::StatusCode::kInvalidArgument, "sm_75"));
}

TEST(Probes, ASizeOfWhichNoClusterIsResidentKeepsItsRate) {
  FakeChip chip;
  chip.model.resident_clusters[4] = 0;
  const DeviceModel nearest = *BuiltinModel("h200");
  const DeviceModel model = Got(MeasuredModel(nearest, *Probe(&chip)));
  EXPECT_EQ(model.resident_clusters[4], 0);
  EXPECT_EQ(model.dsm_bytes_per_us[4], nearest.dsm_bytes_per_us[4]);
}

// The streams of an H200 by 132, 120, 112, 96, 64 and 40 blocks, in TB/s.
TEST(MeasuredModel, HasTheLinkThatWasMeasured) {
  FakeChip chip;
  ProbeTimings timings = *Probe(&chip);
  const DeviceModel alone = *MeasuredModel(*BuiltinModel("h200"), timings);
  EXPECT_EQ(alone.link_bytes_per_us, BuiltinModel("h200")->link_bytes_per_us);
  EXPECT_EQ(alone.provenance.at("link_bytes_per_us").ToText(), "measured from h200");
  timings.link_bytes = {64e6, 210, 128e6, 410};
  const DeviceModel two = *MeasuredModel(*BuiltinModel("h200"), timings);
  EXPECT_EQ(two.link_bytes_per_us, 272e3) << "0.85 of what copies reach";
  EXPECT_EQ(two.provenance.at("link_bytes_per_us").ToText(), "measured");
}

TEST(MeasuredModel, FindsTheLossOfIdleSmsThatIsNearestToAllStreams) {
  FakeChip chip;
  ProbeTimings timings = *Probe(&chip);
  timings.hbm.clear();
  const std::pair<int, double> streams[] = {{132, 4.64}, {120, 4.59}, {112, 4.50},
                                            {96, 4.20},  {64, 4.11},  {40, 3.94}};
  for (const auto& [blocks, rate] : streams) {
    timings.hbm.push_back({blocks, {1e6, 10, 2e6, 10 + 1 / rate}});
  }
  const DeviceModel model = *MeasuredModel(*BuiltinModel("h200"), timings);
  EXPECT_NEAR(model.hbm_bytes_per_us, 4.64e6, 1e3);
  EXPECT_NEAR(model.hbm_idle_loss, 0.2, 0.03);
}

}  // namespace
}  // namespace sinter
