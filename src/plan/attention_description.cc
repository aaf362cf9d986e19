// What is told of a kernel of attention.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "src/plan/attention_family.h"

namespace sinter {
namespace {

using Json = nlohmann::ordered_json;

std::string TypeText(DType dtype, const AttentionProblem& p, int64_t rows, int64_t columns) {
  return absl::StrCat(NameOf(dtype), "[", p.of_m ? "M" : "", p.of_m && p.batches > 1 ? " " : "",
                      p.of_m && p.batches == 1 ? "" : absl::StrCat(p.batches), ",", rows, ",",
                      columns, "]");
}

// Different elements that batches have in a buffer.
int64_t DistinctBytesOf(const AttentionProblem& p, const BatchedMatrix& matrix, DType dtype,
                        int64_t rows, int64_t columns, int64_t bucket) {
  int64_t count = SizeOf(dtype);
  if (matrix.row != 0) count *= rows;
  if (matrix.column != 0) count *= columns;
  for (const BatchDigit& digit : matrix.digits) count *= digit.extent == 0 ? bucket : digit.extent;
  return count;
}

bool CountsM(const BatchedMatrix& matrix) {
  return std::any_of(matrix.digits.begin(), matrix.digits.end(),
                     [](const BatchDigit& digit) { return digit.extent == 0; });
}

}  // namespace

std::vector<KernelBuffer> AttentionKernels::Buffers(const KernelSpec& spec, int64_t bucket) const {
  const AttentionProblem& p = ProblemOf(spec);
  const std::vector<BufferPlace>& places = Of(spec).places;
  std::vector<KernelBuffer> list;
  const auto add = [&](const BatchedMatrix& matrix, DType dtype, int64_t rows, int64_t columns,
                       bool write) {
    const BufferPlace& at = write ? places.back() : places[list.size()];
    list.push_back({at.buffer, at.offset_bytes, TypeText(dtype, p, rows, columns),
                    DistinctBytesOf(p, matrix, dtype, rows, columns, bucket), write,
                    CountsM(matrix)});
  };
  add(p.q, p.element, p.rows, p.head, false);
  add(p.k, p.element, p.keys, p.head, false);
  add(p.v, p.element, p.keys, p.value_head, false);
  for (const ScoreStep& step : p.steps) {
    if (step.HasTerm()) add(step.term, step.dtype, p.rows, p.keys, false);
  }
  add(p.out, p.result, p.rows, p.value_head, true);
  return list;
}

KernelDescription AttentionKernels::Describe(const PlannedKernel& kernel, int64_t bucket,
                                             const DeviceModel& model,
                                             const BufferNames& names) const {
  KernelDescription out = KernelFamily::Describe(kernel, bucket, model, names);
  const Prediction& p = kernel.prediction;
  LevelCost tensor{"tensor", p.tensor_us, "products and softmax of the busiest SM", "",
                   "tensor_flop_per_us lanes_per_sm special_lanes_per_sm"};
  out.levels = {HbmCost(p, model), L2Cost(p, model), tensor};
  for (LevelCost& level : out.levels) level.bound = level.level == p.bound;
  out.levels.push_back({"together", p.total_us - p.fixed_us, "the longest, and waits", "", ""});
  out.levels.push_back({"fixed", p.fixed_us, "launch", "", "launch_us fill_us drain_us"});
  out.not_drawn = "a kernel of attention is not drawn";
  return out;
}

void AttentionKernels::WriteJson(const KernelSpec& spec, Json* out) const {
  const AttentionProblem& p = ProblemOf(spec);
  const AttentionSchedule& s = ScheduleOf(spec);
  Json operands = Json::array();
  for (const BufferPlace& operand : Of(spec).places) {
    operands.push_back({{"buffer", operand.buffer}, {"offset_bytes", operand.offset_bytes}});
  }
  out->update({{"problem",
                {{"rows", p.rows},
                 {"keys", p.keys},
                 {"head", p.head},
                 {"value_head", p.value_head},
                 {"batches", p.batches},
                 {"causal", p.causal},
                 {"terms", p.Terms()}}},
               {"schedule",
                {{"warpgroups", s.warpgroups},
                 {"block_keys", s.block_keys},
                 {"stages", s.stages},
                 {"query_stages", s.query_stages},
                 {"resident", s.resident},
                 {"grid", s.grid}}},
               {"operands", operands}});
}

}  // namespace sinter
