// sinter_x_*: chains as text and JSON.

#include "absl/strings/str_cat.h"
#include "src/base/refusal.h"
#include "src/base/status.h"
#include "src/capi/adder.h"
#include "src/capi/firewall.h"
#include "src/capi/host_reference.h"
#include "src/capi/objects.h"
#include "src/chain/chain.h"
#include "src/chain/problem.h"
#include "src/reference/compare.h"
#include "src/reference/reference.h"

namespace capi = sinter::capi;

namespace sinter::capi {
namespace {

// Hands out what the caller has a place for.
absl::Status GiveProblem(Problem problem, sinter_chain** out_chain, int64_t* out_m,
                         sinter_x_text** out_line) {
  const int64_t m = problem.m.has_value() ? *problem.m : -1;
  std::unique_ptr<sinter_x_text> line(out_line != nullptr ? NewText(WriteProblem(problem))
                                                          : nullptr);
  *out_chain = NewFinishedChain(std::move(problem.chain));
  if (out_m != nullptr) *out_m = m;
  if (out_line != nullptr) *out_line = line.release();
  return absl::OkStatus();
}

// sinter_x_reference_*: the CPU executor and the comparison with it, in the caller's buffer order.

absl::Status CheckCounts(const Chain& chain, uint32_t inputs, uint32_t outputs) {
  if (inputs == static_cast<uint32_t>(chain.num_inputs() * chain.ranks()) &&
      outputs == static_cast<uint32_t>(chain.num_outputs() * chain.ranks())) {
    return absl::OkStatus();
  }
  return Invalid("input_count is ", inputs, " and output_count ", outputs, ", the chain has ",
                 chain.num_inputs(), " and ", chain.num_outputs(),
                 chain.ranks() == 1 ? "" : absl::StrCat(" of each of ", chain.ranks(), " ranks"));
}

absl::StatusOr<std::vector<const void*>> CanonicalInputs(const Chain& chain,
                                                         const void* const* inputs) {
  std::vector<const void*> result;
  for (int rank = 0; rank < chain.ranks(); ++rank) {
    for (const int32_t caller : chain.InputOrder()) {
      SINTER_RETURN_IF_ERROR(CheckNotNull(inputs, "inputs"));
      result.push_back(inputs[rank * chain.num_inputs() + caller]);
    }
  }
  return result;
}

// `count` rows of [0, m), spread evenly, first and last among them.
std::vector<int64_t> SpreadRows(int64_t m, int64_t count) {
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < count; ++i) {
    rows.push_back(count == 1 ? 0 : i * (m - 1) / (count - 1));
  }
  return rows;
}

// Output `i` as a contiguous buffer; with `rows` those along M only.
class Gather {
 public:
  Gather(const Chain& chain, int i, int64_t m, const std::vector<int64_t>* rows)
      : type_(chain.output_type(i)), axis_(SymbolicAxis(type_.dims)), rows_(rows) {
    for (int d = 0; d < type_.rank(); ++d) {
      extents_.push_back(d == axis_ && rows ? static_cast<int64_t>(rows->size())
                                            : type_.dims[d].At(m));
      strides_.push_back(chain.outputs()[i].strides[d].At(m));
    }
  }

  std::string Read(const void* buffer) {
    from_ = static_cast<const char*>(buffer);
    Append(0, 0);
    return std::move(bytes_);
  }

 private:
  void Append(int dim, int64_t offset) {
    const int64_t size = SizeOf(type_.dtype);
    if (dim == type_.rank()) {
      bytes_.append(from_ + offset * size, static_cast<size_t>(size));
      return;
    }
    for (int64_t i = 0; i < extents_[dim]; ++i) {
      const int64_t row = dim == axis_ && rows_ != nullptr ? (*rows_)[i] : i;
      Append(dim + 1, offset + row * strides_[dim]);
    }
  }

  const TensorType& type_;
  int axis_;
  const std::vector<int64_t>* rows_;
  std::vector<int64_t> extents_, strides_;
  const char* from_ = nullptr;
  std::string bytes_;
};

sinter_x_check ToCheck(const ErrorMeasure& measure, const Bounds& bounds) {
  sinter_x_check check{};
  check.within = measure.Within(bounds) ? 1 : 0;
  check.relative = measure.relative;
  check.max_over_rms = measure.max_over_rms;
  check.relative_bound = bounds.relative;
  check.max_bound = bounds.max;
  check.count = measure.count;
  check.nans = measure.nans;
  return check;
}

bool Worse(const sinter_x_check& a, const sinter_x_check& b) {
  if (a.within != b.within) return a.within < b.within;
  return a.max_over_rms > b.max_over_rms;
}

}  // namespace

absl::Status RunOnHost(const Chain& chain, int64_t m, const HostBuffers& buffers, uint32_t threads,
                       const ReferenceBudget& budget) {
  SINTER_RETURN_IF_ERROR(CheckCounts(chain, buffers.input_count, buffers.output_count));
  SINTER_RETURN_IF_ERROR(CheckNotNull(buffers.outputs, "outputs"));
  SINTER_ASSIGN_OR_RETURN(const auto ordered, CanonicalInputs(chain, buffers.inputs));
  ReferenceOptions options;
  options.threads = static_cast<int>(std::min(threads, 1024u));
  options.budget = budget;
  const std::vector<void*> outputs(buffers.outputs, buffers.outputs + buffers.output_count);
  return RunReference(chain, m, ordered, outputs, options);
}

absl::StatusOr<sinter_x_check> CheckOnHost(const Chain& chain, int64_t m,
                                           const HostBuffers& buffers, int64_t max_rows,
                                           uint32_t threads, const ReferenceBudget& budget) {
  SINTER_RETURN_IF_ERROR(CheckCounts(chain, buffers.input_count, buffers.output_count));
  SINTER_RETURN_IF_ERROR(CheckNotNull(buffers.outputs, "outputs"));
  SINTER_ASSIGN_OR_RETURN(const auto inputs, CanonicalInputs(chain, buffers.inputs));
  void* const* const outputs = buffers.outputs;
  std::vector<int64_t> rows;
  ReferenceOptions options;
  options.threads = static_cast<int>(std::min(threads, 1024u));
  options.budget = budget;
  if (max_rows > 0 && m > max_rows && chain.UsesM() && IsRowIndependent(chain)) {
    rows = SpreadRows(m, max_rows);
    options.rows = &rows;
  }
  SINTER_ASSIGN_OR_RETURN(const auto expected, RunReferenceF64(chain, m, inputs, options));
  sinter_x_check worst{};
  for (size_t at = 0; at < expected.size(); ++at) {
    const int i = static_cast<int>(at) % chain.num_outputs();
    SINTER_RETURN_IF_ERROR(CheckNotNull(outputs[at], absl::StrCat("outputs[", at, "]")));
    const DType dtype = chain.output_type(i).dtype;
    const std::string got = Gather(chain, i, m, options.rows).Read(outputs[at]);
    const auto check = ToCheck(CompareBuffer(got.data(), dtype, expected[at]), BoundsOf(chain, i));
    if (at == 0 || Worse(check, worst)) worst = check;
  }
  return worst;
}

}  // namespace sinter::capi

using Text = absl::StatusOr<std::string>;

extern "C" {

sinter_status sinter_x_chain_from_text(const char* line, sinter_chain** out_chain, int64_t* out_m,
                                       sinter_x_text** out_line, sinter_error** error) {
  return capi::Guard(error, [&]() -> absl::Status {
    SINTER_RETURN_IF_ERROR(capi::CheckNotNull(line, "line"));
    SINTER_RETURN_IF_ERROR(capi::CheckNotNull(out_chain, "out_chain"));
    SINTER_ASSIGN_OR_RETURN(sinter::Problem problem, sinter::ParseProblem(line));
    return capi::GiveProblem(std::move(problem), out_chain, out_m, out_line);
  });
}

sinter_status sinter_x_problem_help(const char* kind, sinter_x_text** out_text,
                                    sinter_error** error) {
  return capi::GiveText(out_text, error, [&]() -> Text {
    return kind == nullptr ? sinter::ProblemHelp() : sinter::ProblemHelp(kind);
  });
}

sinter_status sinter_x_chain_from_json(const char* json, sinter_chain** out_chain,
                                       sinter_error** error) {
  return capi::Guard(error, [&]() -> absl::Status {
    SINTER_RETURN_IF_ERROR(capi::CheckNotNull(json, "json"));
    SINTER_RETURN_IF_ERROR(capi::CheckNotNull(out_chain, "out_chain"));
    SINTER_ASSIGN_OR_RETURN(sinter::Chain chain, sinter::ChainFromJson(json));
    *out_chain = capi::NewFinishedChain(std::move(chain));
    return absl::OkStatus();
  });
}

sinter_status sinter_x_chain_to_json(const sinter_chain* chain, sinter_x_text** out_json,
                                     sinter_error** error) {
  return capi::GiveText(out_json, error, [&]() -> Text {
    SINTER_ASSIGN_OR_RETURN(const sinter::Chain* finished, capi::Finished(chain));
    return sinter::ChainToJson(*finished);
  });
}

sinter_status sinter_x_chain_to_text(const sinter_chain* chain, sinter_x_text** out_text,
                                     sinter_error** error) {
  return capi::GiveText(out_text, error, [&]() -> Text {
    SINTER_ASSIGN_OR_RETURN(const sinter::Chain* finished, capi::Finished(chain));
    return finished->ToString();
  });
}

sinter_status sinter_x_chain_get_digest(const sinter_chain* chain, uint8_t out_digest[32],
                                        sinter_error** error) {
  return capi::Guard(error, [&]() -> absl::Status {
    SINTER_ASSIGN_OR_RETURN(const sinter::Chain* finished, capi::Finished(chain));
    return capi::CopyDigest(finished->CanonicalDigest(), out_digest);
  });
}

double sinter_x_chain_get_flops(const sinter_chain* chain, int64_t m) {
  if (!capi::IsLive(chain) || !chain->chain.has_value()) return 0;
  return capi::GuardOr<double>(0, [&] { return chain->chain->MatmulFlops(m); });
}

sinter_status sinter_x_chain_get_value(const sinter_chain* chain, sinter_value value,
                                       sinter_tensor_info* info, sinter_error** error) {
  return capi::Guard(error, [&]() -> absl::Status {
    SINTER_RETURN_IF_ERROR(capi::CheckOpen(chain));
    const int values = chain->builder.size();
    if (value < 1 || value > values) {
      return sinter::WithField(
          sinter::Invalid("value is ", value, ", the chain has values 1 to ", values), "value",
          value, absl::StrCat("1 to ", values));
    }
    const sinter::TensorType& type = chain->builder.TypeOf(value - 1);
    sinter_tensor_info known{};
    known.dtype = static_cast<sinter_dtype>(type.dtype);
    known.rank = static_cast<uint32_t>(type.rank());
    for (uint32_t i = 0; i < known.rank; ++i) known.dims[i] = type.dims[i].At(SINTER_DIM_M);
    return capi::WriteStruct(known, "info", info);
  });
}

sinter_status sinter_x_reference_run(const sinter_chain* chain, int64_t m, uint32_t input_count,
                                     const void* const* inputs, uint32_t output_count,
                                     void* const* outputs, uint32_t threads, sinter_error** error) {
  return capi::Guard(error, [&]() -> absl::Status {
    SINTER_ASSIGN_OR_RETURN(const sinter::Chain* finished, capi::Finished(chain));
    return capi::RunOnHost(*finished, m, {input_count, inputs, output_count, outputs}, threads,
                           sinter::ReferenceBudget());
  });
}

sinter_status sinter_x_reference_check(const sinter_chain* chain, int64_t m, uint32_t input_count,
                                       const void* const* inputs, uint32_t output_count,
                                       const void* const* outputs, int64_t max_rows,
                                       uint32_t threads, sinter_x_check* out_check,
                                       sinter_error** error) {
  return capi::Guard(error, [&]() -> absl::Status {
    SINTER_ASSIGN_OR_RETURN(const sinter::Chain* finished, capi::Finished(chain));
    // Outputs are only read.
    const capi::HostBuffers buffers{input_count, inputs, output_count,
                                    const_cast<void* const*>(outputs)};
    SINTER_ASSIGN_OR_RETURN(
        const auto check,
        capi::CheckOnHost(*finished, m, buffers, max_rows, threads, sinter::ReferenceBudget()));
    return capi::WriteStruct(check, "check", out_check);
  });
}

}  // extern "C"
