// The ops of a chain's text: what a call's name and its arguments add to a chain. `read_chain.h`
// lists the calls.
#pragma once

#include "tests/support/chains.h"

namespace sinter::chain_text {

// What an expression is before an op takes it: a number becomes a scalar where a value is needed.
struct Term {
  ValueId id = kNoValue;
  std::optional<double> number;
  bool transposed = false;
  std::optional<std::vector<Dim>> dims;
  std::string word;
};

// The arguments of a call: in their order, and by key.
struct Arguments : std::vector<Term> {
  std::map<std::string, Term> keys;
  const Term* Find(const std::string& key) const {
    const auto found = keys.find(key);
    return found == keys.end() ? nullptr : &found->second;
  }
  std::string Word(const std::string& key, const std::string& other) const {
    const Term* term = Find(key);
    return term == nullptr ? other : term->word;
  }
  double Number(const std::string& key, double other) const {
    const Term* term = Find(key);
    return term == nullptr ? other : term->number.value();
  }
  // Numbers of a list.
  template <size_t kCount>
  std::array<int64_t, kCount> List(const std::string& key, std::array<int64_t, kCount> list) const {
    const Term* term = Find(key);
    for (size_t i = 0; term != nullptr && i < kCount; ++i) list[i] = term->dims->at(i).value;
    return list;
  }
};

// Ends the reading of a text that is not a chain.
[[noreturn]] void Fail(const std::string& why);
// The value; throws the builder's refusal.
ValueId Must(absl::StatusOr<ValueId> id);
DType TypeNamed(const std::string& word);
// The term as an operand: adds a number as a scalar, and a transpose.
ValueId ValueOf(ChainBuilder& builder, const Term& term);

// Adds the op or composite that `name` calls. `second` becomes the second result of one that has
// two.
absl::StatusOr<ValueId> AddCall(ChainBuilder& builder, const std::string& name,
                                const Arguments& arguments, ValueId* second);

}  // namespace sinter::chain_text
