// Programs that the device library has forms of.
#pragma once

#include "src/product/epilogue.h"
#include "tests/support/chains.h"

namespace sinter {

// A form applied to scale * factor * y + bias, with the elements of a number of each row and of a
// vector of columns.
struct FormSpec : EpilogueForm {
  float scale = 1;
  std::optional<DType> factor, bias;
  FormSpec() = default;
  FormSpec(const EpilogueForm& form) : EpilogueForm(form) {}      // NOLINT: a form is one
  FormSpec(Activation activation_) { activation = activation_; }  // NOLINT: and an activation
};

namespace testing {

inline TensorType OneElement(DType dtype = DType::kF32) { return {dtype, {Dim::Constant(2)}}; }

// Adds inputs, and their kinds in the same order.
inline absl::StatusOr<ValueId> AddLeaf(ChainBuilder& b, LeafKind kind, DType dtype,
                                       std::vector<LeafKind>* leaves) {
  leaves->push_back(kind);
  SINTER_ASSIGN_OR_RETURN(const ValueId leaf, b.Input(OneElement(dtype)));
  return dtype == DType::kF32 ? leaf : b.Cast(leaf, DType::kF32);
}

// The form's affine part, of the product or of up. `factor`: -1, or the one of the other half.
inline absl::StatusOr<ValueId> AddAffine(ChainBuilder& b, const FormSpec& form, LeafKind of,
                                         ValueId* factor, std::vector<LeafKind>* leaves) {
  SINTER_ASSIGN_OR_RETURN(ValueId value, AddLeaf(b, of, DType::kF32, leaves));
  if (form.factor.has_value()) {
    if (*factor < 0) {
      leaves->push_back(LeafKind::kRow);
      SINTER_ASSIGN_OR_RETURN(*factor, b.Input(OneElement(*form.factor)));
    }
    ValueId row = *factor;
    if (form.factor != DType::kF32) {
      SINTER_ASSIGN_OR_RETURN(row, b.Cast(row, DType::kF32));
    }
    SINTER_ASSIGN_OR_RETURN(value, b.Binary(BinaryKind::kMul, value, row));
  }
  if (form.scale != 1) {
    SINTER_ASSIGN_OR_RETURN(const ValueId scale, b.Scalar(form.scale));
    SINTER_ASSIGN_OR_RETURN(value, b.Binary(BinaryKind::kMul, value, scale));
  }
  if (!form.bias.has_value()) return value;
  SINTER_ASSIGN_OR_RETURN(const ValueId bias, AddLeaf(b, LeafKind::kColumn, *form.bias, leaves));
  return b.Binary(BinaryKind::kAdd, value, bias);
}

// act(y), or act(y) * up, made by the same composites that users call.
inline absl::StatusOr<ValueId> AddProduct(ChainBuilder& b, const FormSpec& form,
                                          std::vector<LeafKind>* leaves) {
  ValueId factor = -1;
  SINTER_ASSIGN_OR_RETURN(ValueId value, AddAffine(b, form, LeafKind::kValue, &factor, leaves));
  SINTER_ASSIGN_OR_RETURN(value, AddActivation(b, form.activation, value));
  if (!form.gate) return value;
  SINTER_ASSIGN_OR_RETURN(const ValueId up, AddAffine(b, form, LeafKind::kUp, &factor, leaves));
  return b.Binary(BinaryKind::kMul, value, up);
}

// The body of a form's program, whose inputs are those leaves.
inline absl::StatusOr<Chain> BodyOf(const FormSpec& form, DType result,
                                    std::vector<LeafKind>* leaves) {
  ChainBuilder b;
  SINTER_ASSIGN_OR_RETURN(ValueId value, AddProduct(b, form, leaves));
  if (form.rounds) {
    SINTER_ASSIGN_OR_RETURN(value, b.Cast(value, result));
    SINTER_ASSIGN_OR_RETURN(value, b.Cast(value, DType::kF32));
  }
  if (form.residual) {
    SINTER_ASSIGN_OR_RETURN(const ValueId matrix, AddLeaf(b, LeafKind::kMatrix, result, leaves));
    SINTER_ASSIGN_OR_RETURN(value, b.Binary(BinaryKind::kAdd, value, matrix));
    SINTER_ASSIGN_OR_RETURN(value, AddActivation(b, form.sum_activation, value));
  }
  SINTER_ASSIGN_OR_RETURN(value, b.Cast(value, result));
  SINTER_RETURN_IF_ERROR(b.Output(value));
  return b.Finish();
}

// No op is refused for floats.
inline EpilogueProgram MakeProgram(const FormSpec& form, DType result) {
  std::vector<LeafKind> leaves;
  auto body = std::make_shared<const Chain>(*BodyOf(form, result, &leaves));
  std::vector<LeafKind> kinds;
  for (const int32_t input : body->InputOrder()) {
    kinds.push_back(leaves[static_cast<size_t>(input)]);
  }
  return ProgramOf(std::move(body), std::move(kinds));
}

}  // namespace testing

// The program of a form whose result is stored as `result`, a floating type, with a residual one of
// 16 bits; none where the form leaves accumulators as they are.
inline EpilogueProgram ProgramOf(const FormSpec& form, DType result) {
  const bool affine = form.scale != 1 || form.factor.has_value() || form.bias.has_value();
  if (!affine && form == EpilogueForm{}) return {};
  return testing::MakeProgram(form, result);
}

}  // namespace sinter
