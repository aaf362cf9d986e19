#include "src/capi/adder.h"

#include "src/chain/tensor_type.h"

namespace sinter::capi {
namespace {

constexpr uint32_t kMostNumbers = 64;  // the widest list an op takes: concat's operands

}  // namespace

absl::Status CheckOpen(const sinter_chain* chain) {
  SINTER_RETURN_IF_ERROR(Check(chain, "chain"));
  if (!chain->chain.has_value()) return absl::OkStatus();
  return absl::FailedPreconditionError("chain is finished: nothing can be added to it");
}

void Adder::Keep(const absl::Status& status) {
  if (status_.ok()) status_ = status;
}

void Adder::Require(bool ok, absl::string_view message) {
  if (ok) return;
  Keep(absl::InvalidArgumentError(
      absl::StrCat("op ", builder_.size(), " (", kind_, "): ", message)));
}

ValueId Adder::Operand(absl::string_view field, sinter_value value) {
  Require(value != SINTER_NO_VALUE, absl::StrCat(field, " is SINTER_NO_VALUE, must be a value"));
  Require(builder_.size() > 0,
          absl::StrCat(field, " is value ", value, ", the chain has no values yet"));
  Require(value >= 1 && value <= builder_.size(),
          absl::StrCat(field, " is value ", value, ", must be in [1, ", builder_.size(), "]"));
  return value - 1;
}

ValueId Adder::OptionalOperand(absl::string_view field, sinter_value value) {
  return value == SINTER_NO_VALUE ? ValueId{-1} : Operand(field, value);
}

bool Adder::Present(absl::string_view field, uint32_t count, const void* pointer) {
  Require(count <= kMostNumbers,
          absl::StrCat(field, " has ", count, " entries, at most ", kMostNumbers, " are allowed"));
  Require(count == 0 || pointer != nullptr, absl::StrCat(field, " is null"));
  return status_.ok() && count > 0;
}

std::vector<Dim> Adder::Dims(absl::string_view field, uint32_t rank, const int64_t* dims) {
  Require(rank <= SINTER_MAX_RANK,
          absl::StrCat("rank is ", rank, ", must be at most ", SINTER_MAX_RANK));
  if (!Present(field, rank, dims)) return {};
  std::vector<Dim> result;
  for (uint32_t i = 0; i < rank; ++i) {
    Require(dims[i] >= SINTER_DIM_M,
            absl::StrCat(field, "[", i, "] is ", dims[i], ", must be in [1, ",
                         BoundText(kMaxExtent), "] or SINTER_DIM_M"));
    result.push_back(dims[i] == SINTER_DIM_M ? Dim::M() : Dim::Constant(dims[i]));
  }
  return result;
}

std::vector<int64_t> Adder::Numbers(absl::string_view field, uint32_t count,
                                    const int64_t* values) {
  if (!Present(field, count, values)) return {};
  return std::vector<int64_t>(values, values + count);
}

std::vector<int32_t> Adder::Numbers(absl::string_view field, uint32_t count,
                                    const int32_t* values) {
  if (!Present(field, count, values)) return {};
  return std::vector<int32_t>(values, values + count);
}

std::vector<Stride> Adder::Strides(uint32_t rank, const int64_t* strides, const int32_t* m_powers) {
  Require(strides != nullptr || m_powers == nullptr, "stride_m_powers is given without strides");
  if (strides == nullptr || !Present("strides", rank, strides)) return {};
  std::vector<Stride> result;
  for (uint32_t i = 0; i < rank; ++i) {
    result.push_back(Stride{strides[i], m_powers != nullptr ? m_powers[i] : 0});
  }
  return result;
}

DType Adder::Type(sinter_dtype dtype) {
  Require(IsValid(static_cast<DType>(dtype)),
          absl::StrCat("dtype is ", dtype, ", must be a SINTER_DTYPE_* in [1, 7]"));
  return static_cast<DType>(dtype);
}

}  // namespace sinter::capi
