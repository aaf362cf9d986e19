// The kinds of the text form: their keys and the chains that they stand for. Definitions:
// docs/chains.md.
#ifndef SINTER_SRC_CHAIN_PROBLEM_KINDS_H_
#define SINTER_SRC_CHAIN_PROBLEM_KINDS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "src/chain/chain.h"
#include "src/chain/choices.h"
#include "src/chain/composites.h"

namespace sinter {

enum class FieldType {
  kRows,    // the symbol M: "M", or the value to run it with
  kExtent,  // integer in [1, kMaxExtent]
  kCount,   // integer in [0, kMaxExtent]
  kNumber,  // finite floating-point number
  kFlag,    // 0 or 1
  kName,    // one of `choices`
  // Lists, items separated by ',': 1 to kMaxListItems of them. Flags and names that are all equal
  // are written once.
  kExtents,
  kFlags,
  kNames,
  kPair,  // "height,width", or one number for both; each in [1, kMaxConvStep]
  kPads,  // "same", "top,bottom,left,right", or one number for all; each in [0, kMaxConvPad]
};

constexpr size_t kMaxListItems = 64;

struct FieldSpec {
  const char* key;
  FieldType type;
  const char* fallback;      // nullptr: the key is required
  const char* about;         // for people, a few words
  const char* choices = "";  // kName, kNames: separated by one space
  const char* way_out = "";  // kName: the remedy for another word
};

// Values that passed their FieldSpec.
class FieldValues {
 public:
  void Set(absl::string_view key, std::string value) { values_[std::string(key)] = value; }
  const std::string& Name(const char* key) const { return values_.at(key); }
  int64_t Extent(const char* key) const;
  double Number(const char* key) const;
  bool Flag(const char* key) const { return values_.at(key) == "1"; }
  std::vector<std::string> List(const char* key) const;

 private:
  std::map<std::string, std::string> values_;
};

struct KindSpec {
  const char* name;
  std::vector<FieldSpec> fields;
  absl::StatusOr<Chain> (*make)(const FieldValues& values);
  // For people: what it computes, and its inputs in order; '*' marks constant ones.
  const char* about;
  const char* inputs;
};

// All, sorted by name.
std::vector<KindSpec> KindSpecs();

// Keys of mixtures of experts.
inline constexpr FieldSpec kWeight{"weight", FieldType::kName, "output", "what weights multiply",
                                   "output input"};
inline constexpr FieldSpec kAlpha{"alpha", FieldType::kNumber, "1",
                                  "of act=silu: gate * sigmoid(alpha gate)"};
inline constexpr FieldSpec kBeta{"beta", FieldType::kNumber, "0", "added to up"};
inline constexpr FieldSpec kLimit{"limit", FieldType::kNumber, "0",
                                  "largest gate, and largest and least up; 0: none"};
class WholeChain;
// A gated FFN of experts whose matrices weights(name, columns, k) adds, [experts, columns, k] or by
// `layout`: inputs are added in the documented order.
absl::StatusOr<Chain> FinishGroupedFfn(
    WholeChain& c, const FieldValues& v, Layout layout,
    absl::FunctionRef<ValueId(const char* name, int64_t columns, int64_t k)> weights);

inline constexpr FieldSpec kM{"m", FieldType::kRows, nullptr, "rows of a"};
inline constexpr FieldSpec kRows{"rows", FieldType::kRows, nullptr, "rows of x"};
inline constexpr FieldSpec kCols{"cols", FieldType::kExtent, nullptr, "columns"};
inline constexpr FieldSpec kN{"n", FieldType::kExtent, nullptr, "columns of the first product"};
inline constexpr FieldSpec kK{"k", FieldType::kExtent, nullptr, "columns of a"};
inline constexpr FieldSpec kTaken{"k", FieldType::kExtent, nullptr,
                                  "elements of a row, at most 64"};
inline constexpr FieldSpec kL{"l", FieldType::kExtent, nullptr, "columns of the second product"};
inline constexpr FieldSpec kAct{"act", FieldType::kName, nullptr, "activation", kActivationWords};
inline constexpr FieldSpec kOptionalAct{"act", FieldType::kName, kDefaultActivation.text,
                                        "activation", kActivationWords};
inline constexpr FieldSpec kRmsEps{"eps", FieldType::kNumber, kDefaultRmsNormEps.text,
                                   "added to the mean square"};
inline constexpr FieldSpec kBias1{"bias1", FieldType::kFlag, "0",
                                  "whether the first product has one"};
inline constexpr FieldSpec kBias2{"bias2", FieldType::kFlag, "0",
                                  "whether the second product has one"};

inline constexpr FieldSpec kDType{"dtype", FieldType::kName, "bf16", "of every input and output",
                                  kDTypeWords};
inline constexpr FieldSpec kExperts{"experts", FieldType::kExtent, nullptr,
                                    "matrices, at most 1024"};
inline constexpr FieldSpec kTop{"top", FieldType::kExtent, nullptr, "experts of a row, at most 32"};
inline constexpr FieldSpec kOrder{"order", FieldType::kName, "gate_up",
                                  "of w1's columns: halves, or gate and up in turns",
                                  kGateOrderWords};

// Choices were checked: the fallbacks of these and of others of their kind are never used.
inline DType DTypeOf(const FieldValues& v, const char* key = "dtype") {
  return ParseDType(v.Name(key)).value_or(DType::kBF16);
}
inline Activation ActOf(const FieldValues& v) {
  return ParseActivation(v.Name("act")).value_or(Activation::kIdentity);
}

std::vector<KindSpec> ConvKinds();
std::vector<KindSpec> FourBitKinds();
std::vector<KindSpec> GroupedKinds();
std::vector<KindSpec> NextTokenKinds();
std::vector<KindSpec> RanksKinds();
std::vector<KindSpec> ScaledKinds();

}  // namespace sinter

#endif  // SINTER_SRC_CHAIN_PROBLEM_KINDS_H_
