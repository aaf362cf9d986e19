// Adder: what every sinter_chain_add_* shares: handle checks, value numbers, extents, the new
// value.
#ifndef SINTER_SRC_CAPI_ADDER_H_
#define SINTER_SRC_CAPI_ADDER_H_

#include <array>
#include <cstdint>
#include <functional>
#include <tuple>
#include <type_traits>
#include <vector>

#include "src/base/refusal.h"
#include "src/capi/firewall.h"
#include "src/capi/objects.h"
#include "src/chain/choices.h"

namespace sinter::capi {

// Translates the arguments of one add. Values are 1 + op index outside, op indices inside. Errors
// read like the builder's: "op 3 (matmul): ..". Argument checks are kept in status(): the first
// failure stays, and later results are of no use.
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
  // One of `kinds`, which are numbered from 1; `constants`: how the header's constants begin.
  template <typename Kinds>
  auto Kind(int32_t kind, const Kinds& kinds, absl::string_view constants) {
    const auto op = static_cast<std::decay_t<decltype(*kinds.begin())>>(kind);
    Require(IsValid(op), "kind", kind,
            absl::StrCat("a ", constants, "_* in [1, ", kinds.size(), "]"));
    return op;
  }
  void Require(bool ok, absl::string_view message);
  // "FIELD is VALUE, must be BOUND", and the remedy.
  template <typename Value, typename... Rest>
  void Require(bool ok, absl::string_view field, const Value& value, const absl::AlphaNum& bound,
               const Rest&... remedy) {
    if (!ok) Refuse(InvalidField(field, value, bound, remedy...));
  }
  void Refuse(const absl::Status& why);  // of the op that is being added
  void Keep(const absl::Status& status);

  // `make(ChainBuilder&, arguments..) -> absl::StatusOr<ValueId>`, once all checks have passed.
  // Arguments that are read, such as an Operand, are read in their order.
  template <typename Make, typename... Arguments>
  absl::StatusOr<ValueId> Add(const Make& make, const Arguments&... arguments) {
    const auto read = std::tuple{Read(arguments)...};
    SINTER_RETURN_IF_ERROR(status_);
    return std::apply([&](const auto&... a) { return std::invoke(make, builder_, a...); }, read);
  }

  const absl::Status& status() const { return status_; }
  ChainBuilder& builder() { return builder_; }

 private:
  template <typename Argument>
  auto Read(const Argument& argument) {
    if constexpr (std::is_invocable_v<const Argument&, Adder&>) {
      return argument(*this);
    } else {
      return argument;
    }
  }
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

// Arguments of an add, which an Adder reads: an operand and its name in errors, one that may be
// absent, extents, a type, a kind.
struct Operand {
  ValueId operator()(Adder& add) const { return add.Operand(field, value); }
  absl::string_view field;
  sinter_value value;
};
struct Optional {
  ValueId operator()(Adder& add) const { return add.OptionalOperand(field, value); }
  absl::string_view field;
  sinter_value value;
};
struct Extents {
  std::vector<Dim> operator()(Adder& add) const { return add.Dims("dims", rank, dims); }
  uint32_t rank;
  const int64_t* dims;
};
struct Type {
  DType operator()(Adder& add) const { return add.Type(dtype); }
  sinter_dtype dtype;
};

// An op that is made of its arguments, as Adder::Add makes it.
template <typename Make, typename... Arguments>
sinter_status AddOf(sinter_chain* chain, absl::string_view kind, sinter_value* out_value,
                    sinter_error** error, const Make& make,
                    const Arguments&... arguments) noexcept {
  return AddValue(chain, kind, out_value, error,
                  [&](Adder& add) { return add.Add(make, arguments...); });
}

// An op with options: `make(Adder&, const Options&) -> absl::StatusOr<ValueId>`.
template <typename Options, typename Make>
sinter_status AddWith(sinter_chain* chain, absl::string_view kind, const Options* options,
                      uint32_t known_flags, sinter_value* out_value, sinter_error** error,
                      const Make& make) noexcept {
  return AddValue(chain, kind, out_value, error, [&](Adder& add) -> absl::StatusOr<ValueId> {
    SINTER_ASSIGN_OR_RETURN(const auto given, ReadOptions(options, kind, known_flags));
    return make(add, given);
  });
}

// Fields of the options of windows and convolutions; 0 is the default, 1.
inline int64_t OneOr(int32_t value) { return value == 0 ? 1 : value; }

inline std::array<int64_t, 2> TapsOf(const sinter_window_options& given) {
  return {given.height, given.width};
}

template <typename Options>
Conv2d MovesOf(const Options& given) {
  Conv2d moves;
  moves.strides = {OneOr(given.stride_height), OneOr(given.stride_width)};
  moves.dilations = {OneOr(given.dilation_height), OneOr(given.dilation_width)};
  moves.pads = {given.pad_top, given.pad_bottom, given.pad_left, given.pad_right};
  return moves;
}

}  // namespace sinter::capi

#endif  // SINTER_SRC_CAPI_ADDER_H_
