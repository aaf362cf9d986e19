// sinter_chain: life, outputs, finish, and what a finished chain can be asked.
#include <algorithm>

#include "src/base/refusal.h"
#include "src/base/status.h"
#include "src/capi/adder.h"
#include "src/chain/tensor_type.h"

namespace sinter::capi {
namespace {

constexpr uint32_t kMostNumbers = 64;  // the widest list an op takes: concat's operands

}  // namespace

absl::Status CheckOpen(const sinter_chain* chain) {
  SINTER_RETURN_IF_ERROR(Check(chain, "chain"));
  if (!chain->chain.has_value()) return absl::OkStatus();
  return FailedPrecondition("chain is finished: nothing can be added to it");
}

void Adder::Keep(const absl::Status& status) {
  if (status_.ok()) status_ = status;
}

void Adder::Require(bool ok, absl::string_view message) {
  if (!ok) Refuse(Invalid(message));
}

void Adder::Refuse(const absl::Status& why) { Keep(OfOp(builder_.size(), kind_, why)); }

ValueId Adder::Operand(absl::string_view field, sinter_value value) {
  Require(value != SINTER_NO_VALUE, field, "SINTER_NO_VALUE", "a value");
  const int values = builder_.size();
  if (value < 1 || value > values) {
    const std::string bound = values == 0 ? "" : absl::StrCat("in [1, ", values, "]");
    const std::string what =
        values == 0 ? "the chain has no values yet" : absl::StrCat("must be ", bound);
    Refuse(WithField(Invalid(field, " is value ", value, ", ", what), field, value, bound));
  }
  return status_.ok() ? value - 1 : ValueId{-1};
}

ValueId Adder::OptionalOperand(absl::string_view field, sinter_value value) {
  return value == SINTER_NO_VALUE ? ValueId{-1} : Operand(field, value);
}

bool Adder::Present(absl::string_view field, uint32_t count, const void* pointer) {
  if (count > kMostNumbers) {
    Refuse(WithField(
        Invalid(field, " has ", count, " entries, at most ", kMostNumbers, " are allowed"), field,
        count, absl::StrCat("at most ", kMostNumbers)));
  }
  if (count > 0 && pointer == nullptr) Refuse(CheckNotNull(pointer, field));
  return status_.ok() && count > 0;
}

std::vector<Dim> Adder::Dims(absl::string_view field, uint32_t rank, const int64_t* dims) {
  Require(rank <= SINTER_MAX_RANK, "rank", rank, absl::StrCat("at most ", SINTER_MAX_RANK));
  if (!Present(field, rank, dims)) return {};
  std::vector<Dim> result;
  for (uint32_t i = 0; i < rank; ++i) {
    Require(dims[i] >= SINTER_DIM_M, absl::StrCat(field, "[", i, "]"), dims[i],
            absl::StrCat("in [1, ", BoundText(kMaxExtent), "] or SINTER_DIM_M"));
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
  Require(IsValid(static_cast<DType>(dtype)), "dtype", dtype,
          absl::StrCat("a SINTER_DTYPE_* in [1, ", SINTER_DTYPE_S64, "]"));
  return static_cast<DType>(dtype);
}

namespace {

absl::Status AddOutput(sinter_chain* chain, sinter_value value,
                       const sinter_output_options* options) {
  SINTER_RETURN_IF_ERROR(CheckOpen(chain));
  SINTER_ASSIGN_OR_RETURN(const auto given, ReadOptions(options, "output", 0));
  Adder add(chain, "output");
  const ValueId id = add.Operand("value", value);
  OutputOptions output;
  output.alias = add.OptionalOperand("alias", given.alias);
  SINTER_RETURN_IF_ERROR(add.status());
  const auto rank = static_cast<uint32_t>(chain->builder.TypeOf(id).rank());
  output.strides = add.Strides(rank, given.strides, given.stride_m_powers);
  SINTER_RETURN_IF_ERROR(add.status());
  return chain->builder.Output(id, output);
}

// Buffer `index` in the caller's order.
struct BufferView {
  const TensorType* type;
  const std::vector<Stride>* strides;
  bool constant;
  const char* name;
};

absl::StatusOr<BufferView> FindBuffer(const Chain& chain, uint32_t index) {
  const auto inputs = static_cast<uint32_t>(chain.num_inputs());
  if (index < inputs) {
    const Op& op = chain.input_op(chain.CallerOrder()[index]);
    return BufferView{&op.type, &op.strides, op.constant,
                      chain.InputName(static_cast<int>(index)).c_str()};
  }
  const uint32_t output = index - inputs;
  if (output < static_cast<uint32_t>(chain.num_outputs())) {
    const int i = static_cast<int>(output);
    return BufferView{&chain.output_type(i), &chain.outputs()[i].strides, false, ""};
  }
  const auto buffers = inputs + static_cast<uint32_t>(chain.num_outputs());
  return WithField(OutOfRange("index is ", index, ", the chain has ", buffers, " buffers"), "index",
                   index, absl::StrCat(buffers, " buffers"));
}

absl::StatusOr<sinter_tensor_info> Describe(const Chain& chain, uint32_t index, int64_t m) {
  SINTER_ASSIGN_OR_RETURN(const BufferView view, FindBuffer(chain, index));
  SINTER_ASSIGN_OR_RETURN(const int64_t bytes, BufferBytes(*view.type, *view.strides, m));
  sinter_tensor_info info{};
  info.flags = view.constant ? SINTER_INPUT_CONSTANT : 0;
  info.dtype = static_cast<sinter_dtype>(view.type->dtype);
  info.rank = static_cast<uint32_t>(view.type->rank());
  info.bytes = static_cast<uint64_t>(bytes);
  info.name = view.name;
  for (uint32_t i = 0; i < info.rank; ++i) {
    info.dims[i] = view.type->dims[i].At(m);
    info.strides[i] = (*view.strides)[i].At(m);
  }
  return info;
}

}  // namespace
}  // namespace sinter::capi

namespace capi = sinter::capi;

extern "C" {

sinter_status sinter_chain_create(sinter_chain** out_chain, sinter_error** error) {
  return capi::Give(out_chain, "out_chain", error,
                    []() -> absl::StatusOr<sinter_chain*> { return new sinter_chain; });
}

void sinter_chain_retain(const sinter_chain* chain) { capi::RetainHandle(chain); }
void sinter_chain_release(const sinter_chain* chain) { capi::ReleaseHandle(chain); }

sinter_status sinter_chain_add_output(sinter_chain* chain, sinter_value value,
                                      const sinter_output_options* options, sinter_error** error) {
  return capi::Guard(error, [&] { return capi::AddOutput(chain, value, options); });
}

sinter_status sinter_chain_finish(sinter_chain* chain, sinter_error** error) {
  return capi::Guard(error, [&]() -> absl::Status {
    SINTER_RETURN_IF_ERROR(capi::CheckOpen(chain));
    SINTER_ASSIGN_OR_RETURN(sinter::Chain finished, chain->builder.Finish());
    chain->chain.emplace(std::move(finished));
    return absl::OkStatus();
  });
}

uint32_t sinter_chain_get_input_count(const sinter_chain* chain) {
  if (!capi::IsLive(chain) || !chain->chain.has_value()) return 0;
  return static_cast<uint32_t>(chain->chain->num_inputs());
}

uint32_t sinter_chain_get_output_count(const sinter_chain* chain) {
  if (!capi::IsLive(chain) || !chain->chain.has_value()) return 0;
  return static_cast<uint32_t>(chain->chain->num_outputs());
}

int32_t sinter_chain_uses_m(const sinter_chain* chain) {
  if (!capi::IsLive(chain) || !chain->chain.has_value()) return 0;
  return chain->chain->UsesM() ? 1 : 0;
}

sinter_status sinter_chain_get_buffer(const sinter_chain* chain, uint32_t index, int64_t m,
                                      sinter_tensor_info* info, sinter_error** error) {
  return capi::Guard(error, [&]() -> absl::Status {
    SINTER_ASSIGN_OR_RETURN(const sinter::Chain* finished, capi::Finished(chain));
    SINTER_ASSIGN_OR_RETURN(const auto described, capi::Describe(*finished, index, m));
    return capi::WriteStruct(described, "info", info);
  });
}

}  // extern "C"
