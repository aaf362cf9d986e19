// sinter_chain: life, outputs, finish, and what a finished chain can be asked.
#include <algorithm>

#include "src/capi/adder.h"

namespace capi = sinter::capi;

namespace sinter::capi {
namespace {

absl::Status AddOutput(sinter_chain* chain, sinter_value value,
                       const sinter_output_options* options) {
  SINTER_RETURN_IF_ERROR(CheckOpen(chain));
  SINTER_ASSIGN_OR_RETURN(const auto given, ReadOptions(options, "output", 0));
  SINTER_RETURN_IF_ERROR(CheckReserved(given.reserved, "output"));
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
  return absl::OutOfRangeError(absl::StrCat("index is ", index, ", the chain has ",
                                            inputs + chain.num_outputs(), " buffers"));
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
