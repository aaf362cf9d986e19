// Expander: adds a composite's primitives with one sticky error, all or none.
#ifndef SINTER_SRC_CHAIN_EXPANDER_H_
#define SINTER_SRC_CHAIN_EXPANDER_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "src/chain/builder.h"

namespace sinter {

// After the first error every call is a no-op that returns -1; Finish reports that error as "op 5
// (softmax): ..." with the index at which the composite began, and the builder is rolled back.
// Short-lived, not thread-safe.
class Expander {
 public:
  Expander(ChainBuilder& builder, absl::string_view name)
      : builder_(builder), transaction_(builder), first_(builder.size()), name_(name) {}

  bool ok() const { return status_.ok(); }
  void Fail(absl::string_view message) {
    if (ok()) status_ = absl::InvalidArgumentError(message);
  }
  // False, with the error set, when `id` is no value of the builder.
  bool Check(absl::string_view field, ValueId id) {
    if (ok() && !builder_.Contains(id)) {
      Fail(absl::StrCat(field, " is value ", id, ", which does not exist"));
    }
    return ok();
  }
  // Valid only while ok().
  const TensorType& Type(ValueId id) const { return builder_.TypeOf(id); }
  ChainBuilder& builder() { return builder_; }

  ValueId Take(absl::StatusOr<ValueId> id) {
    if (!id.ok() && ok()) status_ = id.status();
    return ok() ? *id : -1;
  }
  ValueId Scalar(double v) { return ok() ? Take(builder_.Scalar(v)) : -1; }
  ValueId Matmul(ValueId a, ValueId b, bool transpose_b) {
    return ok() ? Take(builder_.Matmul(a, b, false, transpose_b)) : -1;
  }
  ValueId Unary(UnaryKind kind, ValueId a) { return ok() ? Take(builder_.Unary(kind, a)) : -1; }
  ValueId Binary(BinaryKind kind, ValueId a, ValueId b) {
    return ok() ? Take(builder_.Binary(kind, a, b)) : -1;
  }
  ValueId Add(ValueId a, ValueId b) { return Binary(BinaryKind::kAdd, a, b); }
  ValueId Sub(ValueId a, ValueId b) { return Binary(BinaryKind::kSub, a, b); }
  ValueId Mul(ValueId a, ValueId b) { return Binary(BinaryKind::kMul, a, b); }
  ValueId Cast(ValueId a, DType dtype) { return ok() ? Take(builder_.Cast(a, dtype)) : -1; }
  // To f32 unless it is f32: exact.
  ValueId Widen(ValueId a) {
    return ok() && Type(a).dtype != DType::kF32 ? Cast(a, DType::kF32) : (ok() ? a : -1);
  }
  // To the dims of `like`.
  ValueId Spread(ValueId a, ValueId like) {
    if (!ok() || Type(a).dims == Type(like).dims) return ok() ? a : -1;
    return Take(builder_.Broadcast(a, std::vector<Dim>(Type(like).dims)));
  }
  // Reduced over `axis`, which stays with extent 1.
  ValueId Statistic(ReduceKind kind, ValueId a, int axis) {
    if (!ok()) return -1;
    return Take(builder_.Reduce(kind, a, {axis}, true));
  }
  // [start, start + size) of the last axis.
  ValueId SliceLast(ValueId a, int64_t start, int64_t size) {
    if (!ok()) return -1;
    std::vector<Dim> limits = Type(a).dims;
    std::vector<int64_t> starts(limits.size(), 0);
    starts.back() = start;
    limits.back() = Dim::Constant(start + size);
    return Take(builder_.Slice(a, starts, limits));
  }

  // Keeps what was added, or reports the error.
  absl::Status Finish() {
    if (ok()) {
      transaction_.Commit();
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(
        absl::StrCat("op ", first_, " (", name_, "): ", status_.message()));
  }
  absl::StatusOr<ValueId> Finish(ValueId result) {
    absl::Status status = Finish();
    if (!status.ok()) return status;
    return result;
  }

 private:
  ChainBuilder& builder_;
  BuilderTransaction transaction_;
  int first_;
  std::string name_;
  absl::Status status_;
};

}  // namespace sinter

#endif  // SINTER_SRC_CHAIN_EXPANDER_H_
