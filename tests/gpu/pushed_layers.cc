#include "tests/gpu/pushed_layers.h"

#include "src/plan/collective_family.h"
#include "tests/support/product_in.h"

namespace sinter::gpu_testing {
namespace {

constexpr int kBlocks = 131;  // of a sum, at most

uint16_t Bf16(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

// The same on every host. Multiples of 1 / 64 up to `most`.
std::string Values(int64_t count, uint32_t seed, float most) {
  std::string bytes(static_cast<size_t>(count) * 2, '\0');
  uint32_t state = seed * 2654435761u + 1;
  for (int64_t i = 0; i < count; ++i) {
    state = state * 1664525 + 1013904223;
    const uint16_t value = Bf16(static_cast<float>(static_cast<int>(state >> 25) - 64) / 64 * most);
    std::memcpy(&bytes[static_cast<size_t>(i) * 2], &value, 2);
  }
  return bytes;
}

}  // namespace

Layer::Layer(int64_t n, int64_t k, int64_t most) : n(n), k(k), most(most) {
  const auto problem =
      Got(ParseProblem(absl::StrCat("row_parallel m=M n=", n, " k=", k, " ranks=", Ranks())));
  chain = Got(NormalFormOf(std::make_shared<const Chain>(problem.chain)))->chain;
}

Plan Layer::PlainPlan(int64_t bucket) const {
  auto plans = Got(PlanChain(*chain, bucket, *BuiltinModel("h100"), {}));
  std::vector<Plan> all = {plans.chosen};
  all.insert(all.end(), plans.alternatives.begin(), plans.alternatives.end());
  for (Plan& plan : all) {
    if (plan.kernels.size() == 2 && ProductOf(plan.kernels[0].spec).schedule.pushes == 0)
      return plan;
  }
  ADD_FAILURE() << "no plan of a product and a sum";
  return {};
}

Plan With(Plan plan, Schedule product, bool pushes, int threads, int64_t columns) {
  product.pushes = pushes || columns > 0 ? Ranks() : 0;
  product.pushed_columns = static_cast<int>(columns);
  ProductIn(&plan.kernels[0].spec).schedule = product;
  auto own = std::make_shared<CollectiveSpec>(CollectiveKernels::Of(plan.kernels[1].spec));
  CollectiveSchedule& sum = own->code.schedule;
  sum.two_shot = false;
  sum.pushed = pushes ? 1 : 0;
  sum.pushed_columns = static_cast<int>(columns);
  sum.threads = threads;
  sum.grid = static_cast<int>(std::min<int64_t>(plan.bucket, kBlocks));
  EXPECT_OK(CheckCollective(own->code.problem, sum));
  EXPECT_OK(
      CheckSchedule(ProductOf(plan.kernels[0].spec).sequence, product, *BuiltinModel("h100")));
  plan.kernels[1].spec.body = MakeBody(std::move(*own));
  return plan;
}

std::vector<Schedule> Cuts(const Plan& plain) {
  const DeviceModel model = *BuiltinModel("h100");
  const ProductSequence& sequence = ProductOf(plain.kernels[0].spec).sequence;
  std::map<std::tuple<bool, int, bool>, std::pair<double, Schedule>> best;
  for (Schedule s : LegalSchedules(sequence, model, Dataflow::kProduct)) {
    s.pushes = Ranks();
    if (!CheckSchedule(sequence, s, model).ok() || s.first.split_k > 8) continue;
    s.pushes = 0;
    const double us = Predict(sequence, s, model).total_us;
    const auto [at, fresh] = best.try_emplace(
        {s.swapped, s.first.split_k, TurnsOf(sequence, s) > 1}, std::make_pair(us, s));
    if (!fresh && us < at->second.first) at->second = {us, s};
  }
  std::vector<Schedule> cuts;
  for (const auto& [key, one] : best) cuts.push_back(one.second);
  return cuts;
}

std::vector<Schedule> EarlyCuts(const Plan& plain) {
  const DeviceModel model = *BuiltinModel("h100");
  const ProductSequence& sequence = ProductOf(plain.kernels[0].spec).sequence;
  std::map<std::tuple<Share, int>, std::pair<double, Schedule>> best;
  for (Schedule s : LegalSchedules(sequence, model, Dataflow::kProduct)) {
    s.pushes = Ranks();
    s.pushed_columns = static_cast<int>(EarlyColumns(sequence, s));
    if (s.pushed_columns == 0 || !CheckSchedule(sequence, s, model).ok()) continue;
    s.pushes = s.pushed_columns = 0;
    const double us = Predict(sequence, s, model).total_us;
    const auto [at, fresh] =
        best.try_emplace({s.share, s.first.block_n / 64}, std::make_pair(us, s));
    if (!fresh && us < at->second.first) at->second = {us, s};
  }
  std::vector<Schedule> cuts;
  for (const auto& [key, one] : best) cuts.push_back(one.second);
  return cuts;
}

absl::Status LayerRank::Allocate(const Layer& layer, int rank) {
  Free();
  const int64_t of_rows = layer.most * layer.n;
  const std::string values[] = {
      Values(layer.most * layer.k, static_cast<uint32_t>(rank), 1),
      Values(layer.n * layer.k, static_cast<uint32_t>(10 + rank), 1.0f / 16),
      Values(of_rows, 20, 2), Values(layer.n, 21, 1)};
  for (const std::string& value : values) {
    SINTER_ASSIGN_OR_RETURN(const DeviceBuffer buffer, ports.measurer->Allocate(value.size()));
    buffers.push_back(buffer);
    SINTER_RETURN_IF_ERROR(ports.measurer->Upload(buffer, value.data(), value.size()));
  }
  for (int i = 0; i < 2; ++i) {
    SINTER_ASSIGN_OR_RETURN(const DeviceBuffer buffer,
                            ports.measurer->Allocate(static_cast<uint64_t>(of_rows) * 2));
    buffers.push_back(buffer);
  }
  SINTER_ASSIGN_OR_RETURN(workspace, ports.measurer->Allocate(256 << 20));
  return ports.measurer->Fill(workspace, 0);
}

void LayerRank::Free() {
  for (const DeviceBuffer& buffer : buffers) ports.measurer->Free(buffer);
  if (!buffers.empty()) ports.measurer->Free(workspace);
  buffers.clear();
}

absl::StatusOr<std::shared_ptr<const BoundPlan>> LayerRank::Bind(const LoadedPlanPtr& plan) const {
  std::vector<DevicePtr> pointers;
  for (const DeviceBuffer& buffer : buffers) pointers.push_back(buffer.ptr);
  return BindPlan(plan, pointers, workspace.ptr, false, nullptr, group);
}

absl::Status LayerRank::Poison() const {
  SINTER_RETURN_IF_ERROR(ports.measurer->Fill(buffers[4], 0xAB));
  return ports.measurer->Fill(buffers[5], 0xAB);
}

absl::StatusOr<std::string> LayerRank::Results() const {
  std::string all;
  for (size_t i = 4; i < 6; ++i) {
    std::string bytes(buffers[i].bytes, '\0');
    SINTER_RETURN_IF_ERROR(ports.measurer->Download(&bytes[0], buffers[i], bytes.size()));
    all += bytes;
  }
  return all;
}

}  // namespace sinter::gpu_testing
