// Keys that several kinds of chains share.
#ifndef SINTER_SRC_CHAIN_PROBLEM_FIELDS_H_
#define SINTER_SRC_CHAIN_PROBLEM_FIELDS_H_

#include "src/chain/defaults.h"
#include "src/chain/problem_kinds.h"
#include "src/chain/problem_words.h"

namespace sinter {

inline constexpr FieldSpec kM{"m", FieldType::kRows, nullptr, "rows of a"};
inline constexpr FieldSpec kRows{"rows", FieldType::kRows, nullptr, "rows of x"};
inline constexpr FieldSpec kCols{"cols", FieldType::kExtent, nullptr, "columns"};
inline constexpr FieldSpec kN{"n", FieldType::kExtent, nullptr, "columns of the first product"};
inline constexpr FieldSpec kK{"k", FieldType::kExtent, nullptr, "columns of a"};
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

}  // namespace sinter

#endif  // SINTER_SRC_CHAIN_PROBLEM_FIELDS_H_
