#include "src/engine/verify.h"

#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/numbers.h"
#include "src/engine/bound_plan.h"
#include "src/reference/compare.h"
#include "src/reference/evaluator.h"
#include "src/reference/reference.h"
#include "src/reference/rows.h"

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
    return Unavailable(core->ports.no_gpu_reason);
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
    return FailedPrecondition("the chain is too large for the reference");
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
    if (absl::IsResourceExhausted(got.status()) || absl::IsCancelled(got.status()) ||
        absl::IsDeadlineExceeded(got.status())) {
      return got.status();  // which says nothing of the kernels
    }
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

namespace {

constexpr int64_t kPeriod = 1048573;  // the largest prime below 2^20

float Symmetric(SplitMix64& random) {  // in [-1, 1)
  return static_cast<float>(static_cast<int64_t>(random.Next()) >> 39) * 0x1p-24f;
}

// Floats are uniform in [offset - scale, offset + scale], integers are in [0, below).
struct Range {
  float offset = 0, scale = 1;
  int64_t below = 16;
};

double DrawValue(DType dtype, Range range, SplitMix64& random) {
  if (dtype == DType::kS32 || dtype == DType::kS64) {
    return static_cast<double>(random.Next() % static_cast<uint64_t>(range.below));
  }
  if (dtype == DType::kPred) return static_cast<double>(random.Next() & 1);
  if (dtype == DType::kS8) return Symmetric(random) * LargestOf(dtype);
  return range.offset + Symmetric(random) * range.scale;
}

// A sum of k products of uniform numbers has the scale of one factor when the other's variance is
// 1/k. Which dimension of a weight is summed over is unknown here; the geometric mean of both is
// close enough.
float ScaleOf(const Op& input, int64_t m) {
  if (!input.constant || input.type.rank() < 2) return 1.0f;
  const int rank = input.type.rank();
  double rows = static_cast<double>(input.type.dims[rank - 2].At(m));
  for (int i = 0; rank == 4 && i < 2; ++i) {  // a filter is treated as a matrix along its last axis
    rows *= static_cast<double>(input.type.dims[i].At(m));
  }
  const double columns = static_cast<double>(input.type.dims[rank - 1].At(m));
  return static_cast<float>(std::sqrt(3.0 / std::max(1.0, std::sqrt(rows * columns))));
}

// Whether products sum their operands unscaled. Codes have scales, which are positive.
bool SumsOperands(const Chain& chain) {
  return std::any_of(chain.ops().begin(), chain.ops().end(), [](const Op& op) {
    return op.kind == OpKind::kMatmul || op.kind == OpKind::kConv2d ||
           (op.kind == OpKind::kGroupedMatmul && !IsScaledGrouped(op));
  });
}

// f32 in a chain without such products lies where roots and divisions are well behaved.
Range RangeOf(const Op& input, int64_t m, bool products) {
  if (!products && input.type.dtype == DType::kF32) return {0.625f, 0.375f};
  return {0, ScaleOf(input, m)};
}

// The number of the input that `id` is a view of; -1: of none.
int InputBelow(const Chain& chain, ValueId id) {
  while (IsView(chain.op(id))) id = chain.op(id).operands[0];
  return chain.op(id).input;
}

// For each input: the smallest extent that an op indexes with it; 0: no op reads it as ids.
std::vector<int64_t> PlacesOfIds(const Chain& chain, int64_t m) {
  std::vector<int64_t> places(static_cast<size_t>(chain.num_inputs()));
  for (const Op& op : chain.ops()) {
    const bool grouped = op.kind == OpKind::kGroupedMatmul && !IsByEnds(op);
    if (op.kind != OpKind::kGather && op.kind != OpKind::kScatter && !grouped) continue;
    const int ids = InputBelow(chain, op.operands[grouped ? 2 : 1]);
    if (ids < 0) continue;
    const TensorType& x = chain.op(op.operands[grouped ? 1 : 0]).type;
    const int64_t all =
        std::max<int64_t>(1, x.dims[static_cast<size_t>(std::max(op.axis, 0))].At(m));
    int64_t& fewest = places[static_cast<size_t>(ids)];
    fewest = fewest == 0 ? all : std::min(fewest, all);
  }
  return places;
}

// For each input: how many rows it divides into groups by their ends; 0: it holds no ends.
std::vector<int64_t> RowsOfEnds(const Chain& chain, int64_t m) {
  std::vector<int64_t> rows(static_cast<size_t>(chain.num_inputs()));
  for (const Op& op : chain.ops()) {
    if (!IsByEnds(op)) continue;
    const int ends = InputBelow(chain, op.operands[2]);
    if (ends >= 0) rows[static_cast<size_t>(ends)] = op.type.dims[0].At(m);
  }
  return rows;
}

// Ends of equal groups, as a router that spreads rows evenly gives them.
std::string FillEnds(int64_t rows, int64_t bytes) {
  const int64_t count = bytes / SizeOf(DType::kS32);
  std::string out(static_cast<size_t>(bytes), '\0');
  for (int64_t i = 0; i < count; ++i) {
    const auto end = static_cast<int32_t>(rows * (i + 1) / count);
    std::memcpy(&out[static_cast<size_t>(i) * sizeof(end)], &end, sizeof(end));
  }
  return out;
}

std::string Fill(DType dtype, Range range, int64_t bytes, SplitMix64& random) {
  const int64_t elements = bytes / SizeOf(dtype);
  std::vector<double> values(static_cast<size_t>(std::min(elements, kPeriod)));
  for (double& value : values) value = DrawValue(dtype, range, random);
  std::string out;
  out.reserve(static_cast<size_t>(bytes));
  out.resize(values.size() * static_cast<size_t>(SizeOf(dtype)));
  reference::StoreRun(values.data(), static_cast<int64_t>(values.size()), out.data(),
                      reference::StorageOf(dtype), 0, 1);
  const size_t period = out.size();
  while (static_cast<int64_t>(out.size()) < bytes) {
    out.append(out, 0, std::min(period, static_cast<size_t>(bytes) - out.size()));
  }
  return out;
}

constexpr int64_t kPiece = int64_t{1} << 18;  // elements that one thread reads at a time

// A strided tensor's elements in row-major order.
struct OutputWalk {
  const TensorType& type;
  const std::vector<Stride>& strides;
  const int64_t m;

  // Reads elements [begin, end) into the same places of `values`.
  void Read(const char* bytes, int64_t begin, int64_t end, double* values) const {
    std::vector<int64_t> index(type.dims.size(), 0);
    int64_t offset = 0, rest = begin;
    for (int axis = type.rank() - 1; axis >= 0; --axis) {
      const int64_t extent = type.dims[axis].At(m);
      index[axis] = rest % extent;
      offset += index[axis] * strides[axis].At(m);
      rest /= extent;
    }
    const reference::View view{bytes, reference::StorageOf(type.dtype), {}, {}};
    for (int64_t i = begin; i < end; ++i) {
      reference::ReadRun(view, offset, 0, 1, &values[i]);
      for (int axis = type.rank() - 1; axis >= 0; --axis) {
        const int64_t stride = strides[axis].At(m);
        offset += stride;
        if (++index[axis] < type.dims[axis].At(m)) break;
        offset -= stride * type.dims[axis].At(m);
        index[axis] = 0;
      }
    }
  }
};

}  // namespace

absl::StatusOr<int64_t> InputBytes(const Chain& chain, int i, int64_t m) {
  const Op& input = chain.input_op(i);
  return BufferBytes(input.type, input.strides, m);
}

absl::StatusOr<int64_t> OutputBytes(const Chain& chain, int i, int64_t m) {
  return BufferBytes(chain.output_type(i), chain.outputs()[i].strides, m);
}

absl::StatusOr<std::vector<std::string>> RandomInputs(const Chain& chain, int64_t m,
                                                      uint64_t seed) {
  const bool products = SumsOperands(chain);
  const std::vector<int64_t> places = PlacesOfIds(chain, m), ends = RowsOfEnds(chain, m);
  std::vector<std::string> inputs;
  for (int i = 0; i < chain.num_inputs(); ++i) {
    SINTER_ASSIGN_OR_RETURN(const int64_t bytes, InputBytes(chain, i, m));
    const Op& input = chain.input_op(i);
    if (ends[static_cast<size_t>(i)] > 0 && input.type.dtype == DType::kS32) {
      inputs.push_back(FillEnds(ends[static_cast<size_t>(i)], bytes));
      continue;
    }
    SplitMix64 random(seed + static_cast<uint64_t>(i) * 0x100000001b3u);
    Range range = RangeOf(input, m, products);
    if (places[static_cast<size_t>(i)] > 0) range.below = places[static_cast<size_t>(i)];
    inputs.push_back(Fill(input.type.dtype, range, bytes, random));
  }
  return inputs;
}

absl::StatusOr<std::vector<double>> OutputValues(const Chain& chain, int i, int64_t m,
                                                 const std::string& bytes) {
  const TensorType& type = chain.output_type(i);
  const std::vector<Stride>& strides = chain.outputs()[i].strides;
  SINTER_ASSIGN_OR_RETURN(const int64_t count, ElementCount(type.dims, m));
  SINTER_ASSIGN_OR_RETURN(const int64_t need, BufferBytes(type, strides, m));
  if (need > static_cast<int64_t>(bytes.size())) {
    return Invalid("output ", i, " has ", bytes.size(), " bytes, needs ", need);
  }
  std::vector<double> values(static_cast<size_t>(count));
  const OutputWalk walk{type, strides, m};
  reference::ParallelFor(
      reference::HardwareThreads(), count, kPiece,
      [&](int64_t begin, int64_t end) { walk.Read(bytes.data(), begin, end, values.data()); });
  return values;
}

}  // namespace sinter
