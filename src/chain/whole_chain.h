// WholeChain: a chain from its first input to its last output, with one sticky error.
#ifndef SINTER_SRC_CHAIN_WHOLE_CHAIN_H_
#define SINTER_SRC_CHAIN_WHOLE_CHAIN_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/base/status.h"
#include "src/chain/builder.h"
#include "src/chain/composites.h"

namespace sinter {

// An add that fails returns -1, which the adds behind it refuse; Finish reports the first error.
// Adds are numbered in the order of the calls: two of them are never arguments of one call.
// Short-lived, not thread-safe.
class WholeChain {
 public:
  explicit WholeChain(DType dtype, Dim rows = Dim::M()) : dtype_(dtype), rows_(rows) {}

  ChainBuilder& b() { return b_; }
  ValueId Take(const absl::StatusOr<ValueId>& value) {
    if (!value.ok()) Fail(value.status());
    return value.ok() ? *value : -1;
  }
  void Fail(const absl::Status& status) { status_.Update(status); }

  ValueId Input(std::string name, const TensorType& type, bool constant = false) {
    return Take(b_.Input(type, {constant, {}, std::move(name)}));
  }
  // [rows, columns] of the chain's dtype.
  ValueId Rows(std::string name, int64_t columns) {
    return Input(std::move(name), {dtype_, {rows_, Dim::Constant(columns)}});
  }
  // A constant of the chain's dtype, or of another; kNoValue unless `wanted`.
  ValueId Constant(std::string name, const std::vector<int64_t>& extents, bool wanted = true) {
    return Constant(std::move(name), extents, wanted, dtype_);
  }
  ValueId Constant(std::string name, const std::vector<int64_t>& extents, bool wanted,
                   DType dtype) {
    if (!wanted) return kNoValue;
    std::vector<Dim> dims;
    for (int64_t extent : extents) dims.push_back(Dim::Constant(extent));
    return Input(std::move(name), {dtype, std::move(dims)}, true);
  }
  ValueId Binary(BinaryKind kind, ValueId a, ValueId b) { return Take(b_.Binary(kind, a, b)); }
  // To f32 unless the chain's dtype is.
  ValueId Widen(ValueId x) { return dtype_ == DType::kF32 ? x : Take(b_.Cast(x, DType::kF32)); }
  // To the dims of `like`.
  ValueId Spread(ValueId x, ValueId like) {
    return b_.Contains(like) ? Take(b_.Broadcast(x, std::vector<Dim>(b_.TypeOf(like).dims))) : -1;
  }

  void Output(ValueId value, const OutputOptions& options = {}) {
    if (status_.ok()) Fail(b_.Output(value, options));
  }
  void RoundedOutput(ValueId value) { Output(Take(b_.Cast(value, dtype_))); }
  // With `value`, rounded, as the last output.
  absl::StatusOr<Chain> Finish(const absl::StatusOr<ValueId>& value) {
    RoundedOutput(Take(value));
    return Finish();
  }
  absl::StatusOr<Chain> Finish() {
    SINTER_RETURN_IF_ERROR(status_);
    return b_.Finish();
  }

 private:
  ChainBuilder b_;
  DType dtype_;
  Dim rows_;
  absl::Status status_;
};

}  // namespace sinter

#endif  // SINTER_SRC_CHAIN_WHOLE_CHAIN_H_
