// Adder: what every sinter_chain_add_* shares: handle checks, value numbers, extents, the new
// value.
#ifndef SINTER_SRC_CAPI_ADDER_H_
#define SINTER_SRC_CAPI_ADDER_H_

#include <vector>

#include "src/capi/firewall.h"
#include "src/capi/objects.h"

namespace sinter::capi {

// Translates the arguments of one add. Values are 1 + op index outside, op indices inside. Errors
// read like the builder's: "op 3 (matmul): ..". Argument checks are kept in status(): the first
// failure stays, and what is returned after it is of no use.
class Adder {
 public:
  Adder(sinter_chain* chain, absl::string_view kind) : builder_(chain->builder), kind_(kind) {}
  ValueId Operand(absl::string_view field, sinter_value value);
  ValueId OptionalOperand(absl::string_view field, sinter_value value);  // kNoValue when absent
  std::vector<Dim> Dims(absl::string_view field, uint32_t rank, const int64_t* dims);
  // `count` numbers, at most `most`.
  std::vector<int64_t> Numbers(absl::string_view field, uint32_t count, const int64_t* values);
  std::vector<int32_t> Numbers(absl::string_view field, uint32_t count, const int32_t* values);
  // Empty when `strides` is null.
  std::vector<Stride> Strides(uint32_t rank, const int64_t* strides, const int32_t* m_powers);
  DType Type(sinter_dtype dtype);
  void Require(bool ok, absl::string_view message);
  void Keep(const absl::Status& status);

  const absl::Status& status() const { return status_; }
  ChainBuilder& builder() { return builder_; }

 private:
  bool Present(absl::string_view field, uint32_t count, const void* pointer);
  ChainBuilder& builder_;
  absl::string_view kind_;
  absl::Status status_;
};

// OK when ops may be added to `chain`.
absl::Status CheckOpen(const sinter_chain* chain);

// Runs `add(Adder&) -> absl::StatusOr<ValueId>` behind the firewall and stores the new value.
template <typename Add>
sinter_status AddValue(sinter_chain* chain, absl::string_view kind, sinter_value* out_value,
                       sinter_error** error, Add&& add) noexcept {
  return Guard(error, [&]() -> absl::Status {
    SINTER_RETURN_IF_ERROR(CheckOpen(chain));
    SINTER_RETURN_IF_ERROR(CheckNotNull(out_value, "out_value"));
    Adder adder(chain, kind);
    SINTER_ASSIGN_OR_RETURN(const ValueId value, add(adder));
    *out_value = value + 1;
    return absl::OkStatus();
  });
}

}  // namespace sinter::capi

#endif  // SINTER_SRC_CAPI_ADDER_H_
