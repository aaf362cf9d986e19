#include "src/engine/verify.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/status.h"
#include "src/engine/bound_plan.h"
#include "src/engine/trial_data.h"
#include "src/reference/compare.h"
#include "src/reference/reference.h"

namespace sinter {
namespace {

constexpr int64_t kMaxElements = int64_t{1} << 25;  // in all outputs together
constexpr int64_t kReferenceRows = 8;
constexpr double kMaxReferenceFlop = 5e10, kMaxReferenceElements = 2e10;
constexpr uint8_t kPoison = 0xff;  // a NaN in every floating type

uint64_t SeedOf(const Chain& chain) {
  uint64_t seed;
  std::memcpy(&seed, chain.CanonicalDigest().bytes.data(), sizeof seed);
  return seed;
}

// Elements of all values at m rows, constants included.
double ElementsOf(const Chain& chain, int64_t m) {
  double all = 0;
  for (const Op& op : chain.ops()) {
    double elements = 1;
    for (const Dim dim : op.type.dims) elements *= static_cast<double>(dim.At(m));
    all += elements;
  }
  return all;
}

absl::StatusOr<int64_t> TrialRows(const Chain& chain, int64_t bucket) {
  int64_t per_row = 0;
  for (int i = 0; i < chain.num_inputs(); ++i) {
    const TensorType& type = chain.input_op(i).type;
    if (SymbolicAxis(type.dims) < 0) continue;
    SINTER_ASSIGN_OR_RETURN(const int64_t elements, ElementCount(type.dims, 1));
    per_row += elements;
  }
  for (int i = 0; i < chain.num_outputs(); ++i) {
    SINTER_ASSIGN_OR_RETURN(const int64_t elements, ElementCount(chain.output_type(i).dims, 1));
    per_row += elements;
  }
  return std::clamp<int64_t>(kMaxElements / std::max<int64_t>(per_row, 1), 1, bucket);
}

// The first, the last, and rows evenly between.
std::vector<int64_t> SampleRows(int64_t m) {
  std::vector<int64_t> rows;
  const int64_t count = std::min(m, kReferenceRows);
  for (int64_t i = 0; i < count; ++i) rows.push_back(count == 1 ? 0 : i * (m - 1) / (count - 1));
  return rows;
}

// The sampled rows of a contiguous tensor whose M axis may be anywhere.
std::vector<double> PickRows(const std::vector<double>& values, const TensorType& type, int64_t m,
                             const std::vector<int64_t>& rows) {
  const int axis = SymbolicAxis(type.dims);
  if (axis < 0) return values;
  int64_t outer = 1, inner = 1;
  for (int i = 0; i < type.rank(); ++i) {
    if (i != axis) (i < axis ? outer : inner) *= type.dims[i].At(m);
  }
  std::vector<double> picked;
  picked.reserve(static_cast<size_t>(outer * inner) * rows.size());
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t row : rows) {
      const auto from = values.begin() + (o * m + row) * inner;
      picked.insert(picked.end(), from, from + inner);
    }
  }
  return picked;
}

}  // namespace

Verifier::Verifier(EngineCore* core, std::shared_ptr<const Chain> chain, int64_t rows,
                   Measurer* measurer)
    : core_(core),
      measurer_(measurer),
      chain_(std::move(chain)),
      rows_(rows),
      seed_(SeedOf(*chain_)),
      arena_(measurer) {}

absl::StatusOr<std::unique_ptr<Verifier>> Verifier::Make(EngineCore* core,
                                                         std::shared_ptr<const Chain> chain,
                                                         int64_t bucket, int64_t fixed_rows,
                                                         Measurer* measurer) {
  if (core->ports.loader == nullptr || measurer == nullptr) {
    return absl::UnavailableError(core->ports.no_gpu_reason);
  }
  int64_t rows = fixed_rows;
  if (rows < 0) {
    SINTER_ASSIGN_OR_RETURN(rows, TrialRows(*chain, bucket));
  }
  std::unique_ptr<Verifier> verifier(new Verifier(core, std::move(chain), rows, measurer));
  SINTER_RETURN_IF_ERROR(verifier->Upload());
  return verifier;
}

absl::Status Verifier::Upload() {
  SINTER_ASSIGN_OR_RETURN(inputs_, RandomInputs(*chain_, rows_, seed_));
  for (const std::string& input : inputs_) {
    SINTER_ASSIGN_OR_RETURN(const DeviceBuffer buffer, arena_.Allocate(input.size()));
    SINTER_RETURN_IF_ERROR(measurer_->Upload(buffer, input.data(), input.size()));
    buffers_.push_back(buffer);
  }
  for (int i = 0; i < chain_->num_outputs(); ++i) {
    SINTER_ASSIGN_OR_RETURN(const int64_t bytes, OutputBytes(*chain_, i, rows_));
    SINTER_ASSIGN_OR_RETURN(const DeviceBuffer buffer,
                            arena_.Allocate(static_cast<uint64_t>(bytes)));
    buffers_.push_back(buffer);
  }
  for (const DeviceBuffer& buffer : buffers_) pointers_.push_back(buffer.ptr);
  return absl::OkStatus();
}

absl::StatusOr<Verifier::Outputs> Verifier::Download() {
  Outputs outputs;
  for (int i = 0; i < chain_->num_outputs(); ++i) {
    const DeviceBuffer& buffer = buffers_[static_cast<size_t>(chain_->num_inputs() + i)];
    SINTER_ASSIGN_OR_RETURN(const int64_t bytes, OutputBytes(*chain_, i, rows_));
    std::string host(static_cast<size_t>(bytes), '\0');
    SINTER_RETURN_IF_ERROR(measurer_->Download(&host[0], buffer, host.size()));
    SINTER_ASSIGN_OR_RETURN(std::vector<double> values, OutputValues(*chain_, i, rows_, host));
    outputs.push_back(std::move(values));
  }
  return outputs;
}

absl::StatusOr<Verifier::Outputs> Verifier::Run(const LoadedPlanPtr& plan) {
  Measurer& measurer = *measurer_;
  DeviceArena arena(measurer_);
  SINTER_ASSIGN_OR_RETURN(const DeviceBuffer workspace, arena.Allocate(plan->plan.workspace_bytes));
  SINTER_RETURN_IF_ERROR(measurer.Fill(workspace, kPoison));
  for (int i = 0; i < chain_->num_outputs(); ++i) {
    SINTER_RETURN_IF_ERROR(
        measurer.Fill(buffers_[static_cast<size_t>(chain_->num_inputs() + i)], kPoison));
  }
  SINTER_ASSIGN_OR_RETURN(const std::shared_ptr<const BoundPlan> bound,
                          BindPlan(plan, pointers_, workspace.ptr));
  SINTER_RETURN_IF_ERROR(measurer.RunAndWait([&](StreamHandle stream) -> absl::Status {
    SINTER_RETURN_IF_ERROR(ClearHeader(plan->plan, *core_->ports.loader, workspace.ptr, stream));
    return EnqueuePlan(*bound, stream, rows_, false);
  }));
  return Download();
}

Verdict Verifier::Judge(const Outputs& got, const Outputs& want, absl::string_view against) const {
  Verdict verdict{true, seed_, 0, "", {}};
  for (size_t i = 0; i < got.size(); ++i) {
    const Bounds bounds = BoundsOf(*chain_, static_cast<int>(i));
    const DType dtype = chain_->output_type(static_cast<int>(i)).dtype;
    const ErrorMeasure measure = Compare(got[i], want[i], dtype);
    verdict.error = std::max(verdict.error, measure.relative);
    if (measure.Within(bounds) || !verdict.right) continue;
    verdict.right = false;
    verdict.detail = absl::StrCat("output ", i, " differs from ", against, " at m ", rows_,
                                  ", seed ", seed_, ": ", measure.ToString());
  }
  return verdict;
}

absl::StatusOr<Verdict> Verifier::JudgeByReference(const Outputs& got) const {
  const bool sampled = chain_->UsesM() && IsRowIndependent(*chain_);
  if (!sampled && (chain_->MatmulFlops(rows_) > kMaxReferenceFlop ||
                   ElementsOf(*chain_, rows_) > kMaxReferenceElements)) {
    return absl::FailedPreconditionError("the chain is too large for the reference");
  }
  const std::vector<int64_t> rows = SampleRows(rows_);
  std::vector<const void*> inputs;
  for (const std::string& input : inputs_) inputs.push_back(input.data());
  ReferenceOptions options;
  if (sampled) options.rows = &rows;
  SINTER_ASSIGN_OR_RETURN(const Outputs want, RunReferenceF64(*chain_, rows_, inputs, options));
  if (!sampled) return Judge(got, want, "the reference");
  Outputs picked;
  for (size_t i = 0; i < got.size(); ++i) {
    picked.push_back(PickRows(got[i], chain_->output_type(static_cast<int>(i)), rows_, rows));
  }
  return Judge(picked, want, "the reference");
}

absl::StatusOr<Verdict> Verifier::Check(const LoadedPlanPtr& candidate,
                                        const LoadedPlanPtr& unfused) {
  const absl::StatusOr<Outputs> got = Run(candidate);
  if (!got.ok()) {
    if (absl::IsResourceExhausted(got.status())) return got.status();
    return Verdict{false, seed_, 0, absl::StrCat("seed ", seed_, ": ", got.status().message()),
                   IsContextLost(got.status()) ? got.status() : absl::OkStatus()};
  }
  if (unfused == nullptr || unfused == candidate) return JudgeByReference(*got);
  if (unfused_ != unfused) {
    SINTER_ASSIGN_OR_RETURN(unfused_outputs_, Run(unfused));
    unfused_ = unfused;
  }
  Verdict verdict = Judge(*got, unfused_outputs_, "the plain plan");
  if (verdict.right) return verdict;
  absl::StatusOr<Verdict> reference = JudgeByReference(*got);
  // Without a reference the plain plan is taken as right. With one, the sampled rows may miss the
  // wrong spot; so a candidate is right only if the plain plan is found wrong on them.
  if (!reference.ok() || !reference->right) return reference.ok() ? *reference : verdict;
  SINTER_ASSIGN_OR_RETURN(const Verdict other, JudgeByReference(unfused_outputs_));
  return other.right ? verdict : *reference;
}

}  // namespace sinter
