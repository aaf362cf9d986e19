#include "src/reference/budget.h"

#include <unistd.h>

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/base/format.h"
#include "src/base/refusal.h"
#include "src/base/status.h"
#include "src/chain/op.h"
#include "src/reference/evaluator.h"
#include "src/reference/rows.h"

namespace sinter {

namespace reference {
namespace {

constexpr double kOperationsPerElement = 16, kBytesPerElement = 8;

// Asked of the kernel once: small chains are evaluated hundreds of thousands of times.
double DefaultBytes() {
  static const double bytes = [] {
    constexpr double kMost = 32.0 * (1 << 30);
    const double pages = static_cast<double>(sysconf(_SC_PHYS_PAGES));
    const double memory = pages * static_cast<double>(sysconf(_SC_PAGESIZE));
    return memory > 0 ? std::min(kMost, memory / 2) : kMost;
  }();
  return bytes;
}

// In floating point no product of extents overflows.
double CountOf(const std::vector<Dim>& dims, int64_t rows) {
  double count = 1;
  for (const Dim dim : dims) count *= static_cast<double>(dim.At(rows));
  return count;
}

bool HasM(const Op& op) { return SymbolicAxis(op.type.dims) >= 0; }

// What the evaluator does with one op.
bool IsView(OpKind kind) {
  return kind == OpKind::kBroadcast || kind == OpKind::kTranspose || kind == OpKind::kSlice;
}
bool Multiplies(OpKind kind) {
  return kind == OpKind::kMatmul || kind == OpKind::kScaledMatmul ||
         kind == OpKind::kGroupedMatmul || kind == OpKind::kConv2d;
}

// Follows the evaluator op by op: which values are buffers, and until when.
class Estimate {
 public:
  // `all_rows` in passes of `pass_rows` each. `picked`: they need not follow each other.
  Estimate(const Chain& chain, int64_t all_rows, int64_t pass_rows, bool picked)
      : chain_(chain),
        picked_(picked),
        all_rows_(all_rows),
        pass_rows_(pass_rows),
        passes_(pass_rows == 0 ? 1 : static_cast<double>((all_rows + pass_rows - 1) / pass_rows)),
        uses_(chain.ops().size(), 0),
        in_each_pass_(chain.ops().size(), false),
        buffer_(chain.ops().size(), kCallers),
        contiguous_(chain.ops().size(), false),
        holders_(chain.ops().size(), 0) {
    for (const ChainOutput& output : chain.outputs()) {
      ++uses_[Index(output.value)];
      if (HasM(chain.op(output.value))) in_each_pass_[Index(output.value)] = true;
    }
    for (size_t id = uses_.size(); id-- > 0;) {
      if (uses_[id] == 0) continue;
      for (const ValueId operand : chain.ops()[id].operands) {
        ++uses_[Index(operand)];
        if (in_each_pass_[id]) in_each_pass_[Index(operand)] = true;
      }
    }
  }

  absl::Status Check(double held, const ReferenceBudget& budget) {
    live_ = held;
    const double bytes = budget.bytes > 0 ? budget.bytes : DefaultBytes();
    for (ValueId id = 0; id < static_cast<ValueId>(uses_.size()); ++id) {
      if (uses_[Index(id)] == 0) continue;
      Hold(id);
      if (live_ + temporary_ > bytes) return TooManyBytes(id, live_ + temporary_, bytes);
      Count(id);
      for (const ValueId operand : chain_.op(id).operands) Release(operand);
    }
    for (const ChainOutput& output : chain_.outputs()) {  // what is a view of an input is copied
      if (buffer_[Index(output.value)] != kCallers) continue;
      live_ += BytesOf(chain_.op(output.value));
      if (live_ > bytes) return TooManyBytes(output.value, live_, bytes);
    }
    return operations_ > budget.operations ? TooManyOperations(budget.operations)
                                           : absl::OkStatus();
  }

 private:
  static constexpr ValueId kCallers = -1;
  static size_t Index(ValueId id) { return static_cast<size_t>(id); }

  double BytesOf(const Op& op) const {
    return kBytesPerElement * CountOf(op.type.dims, pass_rows_) * chain_.ranks();
  }
  // Elements of the largest operand.
  double ReadBy(const Op& op, int64_t rows) const {
    double count = 0;
    for (const ValueId operand : op.operands) {
      count = std::max(count, CountOf(chain_.op(operand).type.dims, rows));
    }
    return count;
  }

  bool IsFree(const Op& op) const {
    if (IsView(op.kind) || IsExactCast(chain_, op)) return true;
    return op.kind == OpKind::kReshape && contiguous_[Index(op.operands[0])];
  }

  // The value of `id` comes to life, with what computing it takes besides.
  void Hold(ValueId id) {
    const Op& op = chain_.op(id);
    temporary_ = 0;
    if (op.kind == OpKind::kInput) {
      contiguous_[Index(id)] = op.strides == ContiguousStrides(op.type.dims);
      if (!picked_ || !HasM(op)) return;
      buffer_[Index(id)] = id;  // a copy of the rows
      live_ += BytesOf(op);
    } else if (IsFree(op)) {
      buffer_[Index(id)] = buffer_[Index(op.operands[0])];
      contiguous_[Index(id)] = !IsView(op.kind) && contiguous_[Index(op.operands[0])];
    } else {
      buffer_[Index(id)] = id;
      contiguous_[Index(id)] = true;
      live_ += BytesOf(op);
      const bool sorts = op.kind == OpKind::kTopK || op.kind == OpKind::kScan;
      if (sorts) temporary_ = 2 * kBytesPerElement * ReadBy(op, pass_rows_);
      if (IsCollective(op)) temporary_ = BytesOf(op);
    }
    if (buffer_[Index(id)] != kCallers) ++holders_[Index(buffer_[Index(id)])];
  }

  void Release(ValueId id) {
    if (--uses_[Index(id)] > 0 || buffer_[Index(id)] == kCallers) return;
    const ValueId buffer = buffer_[Index(id)];
    if (--holders_[Index(buffer)] == 0) live_ -= BytesOf(chain_.op(buffer));
  }

  void Count(ValueId id) {
    const Op& op = chain_.op(id);
    if (op.kind == OpKind::kInput || IsFree(op)) return;
    const int64_t rows = in_each_pass_[Index(id)] ? all_rows_ : pass_rows_;
    const double elements = CountOf(op.type.dims, rows);
    double operations =
        kOperationsPerElement * std::max(elements, ReadBy(op, rows)) * chain_.ranks();
    if (Multiplies(op.kind)) {
      operations = elements * static_cast<double>(chain_.FactorsOf(op).At(rows)) * chain_.ranks();
    }
    if (in_each_pass_[Index(id)] && !HasM(op)) operations *= passes_;
    operations_ += operations;
    if (operations <= most_operations_) return;
    most_operations_ = operations;
    slowest_ = id;
  }

  std::string Name(ValueId id) const {
    const Op& op = chain_.op(id);
    return absl::StrCat("op ", id, " (", NameOf(op), ") : ", ToString(op.type));
  }
  absl::Status TooManyBytes(ValueId id, double bytes, double bound) const {
    return WithOp(
        ResourceExhausted("reference: at ", Name(id), " with ", pass_rows_, " rows, ",
                          FormatText("%.3g GiB of float64 values are held, the bound is %.3g GiB",
                                     bytes / (1 << 30), bound / (1 << 30)),
                          ": ask for fewer rows"),
        id);
  }
  absl::Status TooManyOperations(double bound) const {
    return WithOp(
        ResourceExhausted(
            "reference: the chain takes ",
            FormatText("%.3g operations, %.3g of them at ", operations_, most_operations_),
            Name(slowest_), " with ", all_rows_, FormatText(" rows, the bound is %.3g", bound),
            ": ask for fewer rows, or for `sinter run --large-reference`, which has no such bound"),
        slowest_);
  }

  const Chain& chain_;
  const bool picked_;
  const int64_t all_rows_, pass_rows_;
  const double passes_;
  std::vector<int> uses_;           // that are still to come
  std::vector<bool> in_each_pass_;  // else in the last one
  std::vector<ValueId> buffer_;     // the op whose buffer a value lies in
  std::vector<bool> contiguous_;
  std::vector<int> holders_;         // values that lie in the buffer of an op
  double live_ = 0, temporary_ = 0;  // bytes
  double operations_ = 0, most_operations_ = 0;
  ValueId slowest_ = 0;
};

}  // namespace

absl::Status CheckBudget(const Chain& chain, int64_t m, int64_t rows, bool keeps_outputs,
                         const ReferenceBudget& budget) {
  const int64_t all = rows >= 0 ? rows : m;
  const bool whole = rows < 0 && !WhyRowsMix(chain).empty();
  const int64_t in_a_pass = whole ? all : std::min(all, RowsPerPass(chain, all));
  double held = 0;
  for (const ChainOutput& output : chain.outputs()) {
    if (keeps_outputs) {
      held += kBytesPerElement * CountOf(chain.op(output.value).type.dims, all) * chain.ranks();
    }
  }
  return Estimate(chain, all, in_a_pass, rows >= 0).Check(held, budget);
}

}  // namespace reference
}  // namespace sinter
