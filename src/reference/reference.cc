#include "src/reference/reference.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "absl/strings/str_cat.h"
#include "src/base/status.h"
#include "src/reference/evaluator.h"
#include "src/reference/rows.h"

namespace sinter {
namespace {

using reference::Pass;
using reference::Storage;
using reference::Tensor;
using reference::View;

// Where an output goes: strides in elements; `rows[i]` is where the i-th row of a pass is put.
struct Sink {
  void* data = nullptr;
  Storage storage = Storage::kF64;
  std::vector<int64_t> strides;
  int m_axis = -1;
};

template <typename... Args>
absl::Status Bad(const Args&... args) {
  return Invalid("reference: ", args...);
}

absl::Status CheckBuffer(absl::string_view what, int index, const TensorType& type,
                         const std::vector<Stride>& strides, int64_t m, const void* data) {
  SINTER_ASSIGN_OR_RETURN(int64_t bytes, BufferBytes(type, strides, m));
  if (bytes == 0 || data != nullptr) return absl::OkStatus();
  return Bad("pointer of ", what, " ", index, " is null, ", bytes, " bytes are needed");
}

// `what` counts the buffers of all ranks.
absl::Status CheckCount(const Chain& chain, absl::string_view what, size_t count, int of_a_rank) {
  if (count == static_cast<size_t>(of_a_rank * chain.ranks())) return absl::OkStatus();
  if (chain.ranks() == 1) return Bad(what, " are ", count, ", the chain has ", of_a_rank);
  return Bad(what, " are ", count, ", the chain has ", of_a_rank, " of each of ", chain.ranks(),
             " ranks: give those of rank 0, then those of rank 1, and so on");
}

absl::Status CheckInputs(const Chain& chain, int64_t m, const std::vector<const void*>& inputs) {
  SINTER_RETURN_IF_ERROR(CheckCount(chain, "inputs", inputs.size(), chain.num_inputs()));
  for (size_t i = 0; i < inputs.size(); ++i) {
    const int input = static_cast<int>(i) % chain.num_inputs();
    const Op& op = chain.input_op(input);
    SINTER_RETURN_IF_ERROR(CheckBuffer("input", input, op.type, op.strides, m, inputs[i]));
  }
  for (const Op& op : chain.ops()) {
    SINTER_RETURN_IF_ERROR(ElementCount(op.type.dims, m).status());
  }
  return absl::OkStatus();
}

absl::Status CheckRows(const Chain& chain, int64_t m, const ReferenceOptions& options) {
  if (options.rows == nullptr) return absl::OkStatus();
  const std::string why = reference::WhyRowsMix(chain);
  if (!why.empty()) return absl::FailedPreconditionError("reference: rows given, but " + why);
  for (int64_t row : *options.rows) {
    if (row < 0 || row >= m) return Bad("row is ", row, ", must be in [0, ", m - 1, "]");
  }
  return absl::OkStatus();
}

absl::Status CheckRun(const Chain& chain, int64_t m, const ReferenceOptions& options,
                      bool keeps_outputs) {
  SINTER_RETURN_IF_ERROR(CheckRows(chain, m, options));
  const int64_t rows = options.rows == nullptr ? -1 : static_cast<int64_t>(options.rows->size());
  return reference::CheckBudget(chain, m, rows, keeps_outputs, options.budget);
}

int ThreadCount(int asked) { return asked > 0 ? asked : reference::HardwareThreads(); }

// `value` to the sink, its row i going to row target[i] (the same row without a target).
void Store(const Tensor& value, const Sink& sink, const int64_t* target) {
  const View& view = value.view;
  const int last = view.rank() - 1;
  const int64_t length = last < 0 ? 1 : view.dims[last];
  const int64_t runs = length == 0 ? 0 : view.Count() / length;
  const int64_t in_stride = last < 0 ? 0 : view.strides[last];
  const int64_t out_stride = last < 0 ? 0 : sink.strides[last];
  std::vector<double> scratch(length);
  for (int64_t run = 0; run < runs; ++run) {
    int64_t in = 0, out = 0, rest = run;
    for (int axis = last - 1; axis >= 0; --axis) {
      const int64_t index = rest % view.dims[axis];
      rest /= view.dims[axis];
      in += index * view.strides[axis];
      out +=
          (axis == sink.m_axis && target != nullptr ? target[index] : index) * sink.strides[axis];
    }
    reference::ReadRun(view, in, in_stride, length, scratch.data());
    if (last < 0 || sink.m_axis != last || target == nullptr) {
      reference::StoreRun(scratch.data(), length, sink.data, sink.storage, out, out_stride);
      continue;
    }
    for (int64_t i = 0; i < length; ++i) {
      reference::StoreRun(&scratch[i], 1, sink.data, sink.storage, out + target[i] * out_stride, 0);
    }
  }
}

// One pass over all rows, or several over a few rows each. Outputs without M are computed in the
// last pass, so that one that shares an input's buffer does not disturb the others.
class Execution {
 public:
  Execution(const Chain& chain, int64_t m, const std::vector<const void*>& inputs,
            const ReferenceOptions& options)
      : chain_(chain), m_(m), options_(options) {
    const auto count = static_cast<std::ptrdiff_t>(chain.num_inputs());
    for (std::ptrdiff_t rank = 0; rank < chain.ranks(); ++rank) {
      const auto first = inputs.begin() + rank * count;
      inputs_.emplace_back(first, first + count);
    }
    for (const std::vector<const void*>& own : inputs_) {
      Pass& pass = passes_.emplace_back();
      pass.chain = &chain;
      pass.m = m;
      pass.inputs = &own;
      pass.skip_final_cast = options.skip_final_cast;
      pass.threads = ThreadCount(options.threads);
      pass.wanted.assign(chain.num_outputs(), true);
    }
  }

  // `compact`: the i-th computed row is stored at i, not at its number.
  void Run(const std::vector<Sink>& sinks, bool compact) {
    if (options_.rows == nullptr && !reference::WhyRowsMix(chain_).empty()) {
      return Put(sinks, nullptr);
    }
    std::vector<int64_t> rows;
    if (options_.rows != nullptr) {
      rows = *options_.rows;
    } else {
      rows.resize(chain_.UsesM() ? m_ : 0);
      std::iota(rows.begin(), rows.end(), 0);
    }
    const int64_t total = static_cast<int64_t>(rows.size());
    const int64_t step = reference::RowsPerPass(chain_, total);
    int64_t begin = 0;
    do {
      const int64_t end = std::min(total, begin + step);
      const std::vector<int64_t> part(rows.begin() + begin, rows.begin() + end);
      std::vector<int64_t> target = part;
      if (compact) std::iota(target.begin(), target.end(), begin);
      for (Pass& pass : passes_) {
        for (size_t i = 0; i < pass.wanted.size(); ++i) {
          pass.wanted[i] = sinks[i].m_axis >= 0 || end == total;
        }
        pass.rows = &part;
      }
      Put(sinks, target.data());
      begin = end;
    } while (begin < total);
  }

 private:
  void Put(const std::vector<Sink>& sinks, const int64_t* target) {
    std::vector<std::vector<Tensor>> results = reference::Evaluate(passes_);
    const Pass& any = passes_.front();
    for (std::vector<Tensor>& of_rank : results) {
      for (size_t i = 0; i < of_rank.size(); ++i) {
        // Storing an output must not change what is still a view of an input.
        if (of_rank[i].owned || !any.wanted[i]) continue;
        of_rank[i] = reference::Materialise(of_rank[i].view, any.threads);
      }
    }
    size_t next = 0;
    for (const std::vector<Tensor>& of_rank : results) {
      for (size_t i = 0; i < of_rank.size(); ++i, ++next) {
        if (any.wanted[i]) Store(of_rank[i], sinks[next], target);
      }
    }
  }

  const Chain& chain_;
  int64_t m_;
  const ReferenceOptions& options_;
  std::vector<std::vector<const void*>> inputs_;  // by rank
  std::vector<Pass> passes_;
};

}  // namespace

bool IsRowIndependent(const Chain& chain) { return reference::WhyRowsMix(chain).empty(); }

absl::Status RunReference(const Chain& chain, int64_t m, const std::vector<const void*>& inputs,
                          const std::vector<void*>& outputs, const ReferenceOptions& options) {
  SINTER_RETURN_IF_ERROR(CheckInputs(chain, m, inputs));
  SINTER_RETURN_IF_ERROR(CheckCount(chain, "outputs", outputs.size(), chain.num_outputs()));
  std::vector<Sink> sinks;
  for (size_t at = 0; at < outputs.size(); ++at) {
    const int i = static_cast<int>(at) % chain.num_outputs();
    const TensorType& type = chain.output_type(i);
    const std::vector<Stride>& strides = chain.outputs()[i].strides;
    SINTER_RETURN_IF_ERROR(CheckBuffer("output", i, type, strides, m, outputs[at]));
    Sink sink{outputs[at], reference::StorageOf(type.dtype), {}, SymbolicAxis(type.dims)};
    for (Stride stride : strides) sink.strides.push_back(stride.At(m));
    sinks.push_back(std::move(sink));
  }
  SINTER_RETURN_IF_ERROR(CheckRun(chain, m, options, /*keeps_outputs=*/false));
  Execution(chain, m, inputs, options).Run(sinks, false);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::vector<double>>> RunReferenceF64(
    const Chain& chain, int64_t m, const std::vector<const void*>& inputs,
    const ReferenceOptions& options) {
  SINTER_RETURN_IF_ERROR(CheckInputs(chain, m, inputs));
  SINTER_RETURN_IF_ERROR(CheckRun(chain, m, options, /*keeps_outputs=*/true));
  const int64_t rows = options.rows == nullptr ? m : static_cast<int64_t>(options.rows->size());
  std::vector<std::vector<double>> results(
      static_cast<size_t>(chain.num_outputs() * chain.ranks()));
  std::vector<Sink> sinks;
  for (size_t i = 0; i < results.size(); ++i) {
    const std::vector<Dim>& dims =
        chain.output_type(static_cast<int>(i) % chain.num_outputs()).dims;
    SINTER_ASSIGN_OR_RETURN(int64_t count, ElementCount(dims, rows));
    results[i].resize(count);
    Sink sink{results[i].data(), Storage::kF64, {}, SymbolicAxis(dims)};
    std::vector<int64_t> extents;
    for (Dim dim : dims) extents.push_back(dim.At(rows));
    sink.strides = reference::RowMajorStrides(extents);
    sinks.push_back(std::move(sink));
  }
  Execution(chain, m, inputs, options).Run(sinks, true);
  return results;
}

}  // namespace sinter
