// Expander: adds a composite's primitives with one sticky error, all or none.
#ifndef SINTER_SRC_CHAIN_EXPANDER_H_
#define SINTER_SRC_CHAIN_EXPANDER_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/base/refusal.h"
#include "src/base/status.h"
#include "src/chain/builder.h"
#include "src/chain/composites.h"
#include "src/chain/infer.h"

namespace sinter {

// The names that errors give to the operands of a product.
struct ProductFields {
  absl::string_view rows, w = "w", bias = "bias";
};

// After the first error every call is a no-op that returns -1; Finish reports that error as "op 5
// (softmax): ..." with the index at which the composite began, and the builder is rolled back.
// Short-lived, not thread-safe.
class Expander {
 public:
  Expander(ChainBuilder& builder, absl::string_view name)
      : builder_(builder), transaction_(builder), first_(builder.size()), name_(name) {}

  bool ok() const { return status_.ok(); }
  void Fail(absl::string_view message) { Fail(Invalid(message)); }
  void Fail(const absl::Status& status) { status_.Update(status); }
  // False, with the error set, when `id` is not a value of the builder.
  bool Check(absl::string_view field, ValueId id) {
    if (ok() && !builder_.Contains(id)) {
      Fail(WithField(Invalid(field, " is value ", id, ", which does not exist"), field, id, ""));
    }
    return ok();
  }
  // Operands of the composite, which its errors name.
  //
  // False, with the error set, unless `id` takes arithmetic with f32 values.
  bool CheckFloat(absl::string_view field, ValueId id) {
    if (!Check(field, id) || IsFloat(Type(id).dtype)) return ok();
    Fail(InvalidField(field, ToString(Type(id)), "f32, f16 or bf16", ": cast it"));
    return false;
  }
  // `id`, with `widen` as f32, broadcast to the dims of `like`.
  ValueId SpreadOperand(absl::string_view field, ValueId id, ValueId like, bool widen = false) {
    if (!(widen ? Check(field, id) : CheckFloat(field, id))) return -1;
    const std::vector<Dim> dims = Type(like).dims;
    if (!InferBroadcast(Type(id), dims).ok()) {
      const std::string to = ToString(absl::MakeConstSpan(dims));
      Fail(WithField(
          Invalid(field, " is ", ToString(Type(id)), ", must broadcast to ", to,
                  dims.empty() ? "" : absl::StrCat(", as [", ToString(dims.back()), "] does")),
          field, ToString(Type(id)), to));
    }
    return Spread(widen ? Widen(id) : id, like);
  }
  // `id` as f32. It must have the dims of `like`, for the reason `why`, where neither is one
  // number.
  ValueId WidenOperand(absl::string_view field, ValueId id, ValueId like, absl::string_view why) {
    if (!Check(field, id)) return -1;
    const TensorType& type = Type(id);
    if (type.rank() != 0 && Type(like).rank() != 0 && type.dims != Type(like).dims) {
      const std::string dims = ToString(absl::MakeConstSpan(Type(like).dims));
      Fail(WithField(
          Invalid(field, " is ", ToString(type), ", must have the dims ", dims, ": ", why), field,
          ToString(type), absl::StrCat("the dims ", dims)));
    }
    return Widen(id);
  }
  // The product x w: W is [n, k] with `transpose_b`, else [k, n].
  ValueId MatmulOperands(absl::string_view x_field, ValueId x, absl::string_view w_field, ValueId w,
                         bool transpose_b) {
    if (!Check(x_field, x) || !Check(w_field, w)) return -1;
    const TensorType x_type = Type(x), w_type = Type(w);
    for (const auto& [field, type] : {std::pair(x_field, x_type), std::pair(w_field, w_type)}) {
      if (IsFloat(type.dtype) || IsCode(type.dtype)) continue;
      Fail(InvalidField(field, ToString(type), "f32, f16, bf16, e4m3 or s8"));
      return -1;
    }
    if (x_type.rank() < 2) {
      Fail(WithField(Invalid(x_field, " is ", ToString(x_type), ", its rank must be at least 2"),
                     x_field, ToString(x_type), "at least 2"));
      return -1;
    }
    const Dim k = x_type.dims.back();
    if (w_type.rank() < 2 || w_type.dims[w_type.rank() - (transpose_b ? 1 : 2)] != k) {
      const std::string dims = transpose_b ? absl::StrCat("[n,", ToString(k), "]")
                                           : absl::StrCat("[", ToString(k), ",n]");
      Fail(InvalidField(w_field, ToString(w_type),
                        absl::StrCat(dims, " in layout ", transpose_b ? "oi" : "io"), ": ", x_field,
                        " is ", ToString(x_type)));
      return -1;
    }
    return TakeAs(absl::StrCat(x_field, " times ", w_field),
                  builder_.Matmul(x, w, false, transpose_b));
  }

  // `product` with `bias` added to its rows, unless that is kNoValue.
  ValueId AddBias(ValueId product, const ProductFields& fields, ValueId bias) {
    return bias == kNoValue ? product : Add(product, SpreadOperand(fields.bias, bias, product));
  }
  ValueId Activate(Activation act, ValueId x) {
    return ok() ? Take(AddActivation(builder_, act, x)) : -1;
  }

  // Valid only while ok().
  const TensorType& Type(ValueId id) const { return builder_.TypeOf(id); }
  ChainBuilder& builder() { return builder_; }

  ValueId Take(absl::StatusOr<ValueId> id) {
    if (!id.ok() && ok()) status_ = id.status();
    return ok() ? *id : -1;
  }
  ValueId Scalar(double v) { return ok() ? Take(builder_.Scalar(v)) : -1; }
  // Takes an op that the composite adds for its user. Its error begins with `what`, because the
  // op's number and kind would mean nothing to the user.
  ValueId TakeAs(absl::string_view what, const absl::StatusOr<ValueId>& id) {
    if (!id.ok()) FailAs(what, id.status());
    return ok() ? *id : -1;
  }
  void FailAs(absl::string_view what, const absl::Status& status) {
    absl::string_view message = status.message();
    const size_t end = message.find("): ");
    if (end != message.npos) message.remove_prefix(end + 3);
    Fail(WithMessage(status, absl::StrCat(what, ": ", message)));
  }
  ValueId Unary(UnaryKind kind, ValueId a) { return ok() ? Take(builder_.Unary(kind, a)) : -1; }
  ValueId Binary(BinaryKind kind, ValueId a, ValueId b) {
    return ok() ? Take(builder_.Binary(kind, a, b)) : -1;
  }
  ValueId Add(ValueId a, ValueId b) { return Binary(BinaryKind::kAdd, a, b); }
  ValueId Sub(ValueId a, ValueId b) { return Binary(BinaryKind::kSub, a, b); }
  ValueId Mul(ValueId a, ValueId b) { return Binary(BinaryKind::kMul, a, b); }
  ValueId Compare(CompareKind kind, ValueId a, ValueId b) {
    return ok() ? Take(builder_.Compare(kind, a, b)) : -1;
  }
  // a where the condition holds, else b.
  ValueId Where(ValueId condition, ValueId a, ValueId b) {
    return ok() ? Take(builder_.Select(condition, a, b)) : -1;
  }
  ValueId Reshape(ValueId a, const std::vector<Dim>& dims) {
    return ok() ? Take(builder_.Reshape(a, dims)) : -1;
  }
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
    return OfOp(first_, name_, status_);
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

// WholeChain: a chain from its first input to its last output, with one sticky error.

// An add that fails returns -1, which later adds refuse; Finish reports the first error.
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

#endif  // SINTER_SRC_CHAIN_EXPANDER_H_
