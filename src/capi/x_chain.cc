// sinter_x_*: chains as text and JSON.
#include <cstring>

#include "absl/strings/str_cat.h"
#include "src/capi/adder.h"
#include "src/capi/objects.h"
#include "src/chain/chain_json.h"
#include "src/chain/problem.h"

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

}  // namespace
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
    SINTER_RETURN_IF_ERROR(capi::CheckNotNull(out_digest, "out_digest"));
    std::memcpy(out_digest, finished->CanonicalDigest().bytes.data(), 32);
    return absl::OkStatus();
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
    if (value < 1 || value > chain->builder.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("value is ", value, ", the chain has values 1 to ", chain->builder.size()));
    }
    const sinter::TensorType& type = chain->builder.TypeOf(value - 1);
    sinter_tensor_info known{};
    known.dtype = static_cast<sinter_dtype>(type.dtype);
    known.rank = static_cast<uint32_t>(type.rank());
    for (uint32_t i = 0; i < known.rank; ++i) known.dims[i] = type.dims[i].At(SINTER_DIM_M);
    return capi::WriteStruct(known, "info", info);
  });
}

}  // extern "C"
