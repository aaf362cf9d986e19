// Users: which ops read each value of a chain.
#ifndef SINTER_SRC_CHAIN_USERS_H_
#define SINTER_SRC_CHAIN_USERS_H_

#include <algorithm>
#include <cstddef>
#include <set>
#include <vector>

#include "src/chain/chain.h"

namespace sinter {

class Users {
 public:
  Users() = default;  // of no value
  explicit Users(const Chain& chain) : users_(chain.ops().size()), is_output_(users_.size()) {
    for (ValueId user = 0; user < static_cast<ValueId>(users_.size()); ++user) {
      for (const ValueId operand : chain.op(user).operands) {
        std::vector<ValueId>& of = users_[static_cast<size_t>(operand)];
        if (of.empty() || of.back() != user) of.push_back(user);
      }
    }
    for (const ChainOutput& out : chain.outputs())
      is_output_[static_cast<size_t>(out.value)] = true;
  }

  // Distinct, ascending.
  const std::vector<ValueId>& Of(ValueId value) const { return users_[static_cast<size_t>(value)]; }
  bool IsOutput(ValueId value) const { return is_output_[static_cast<size_t>(value)]; }

  // The one op that reads a value; -1 where there are others or none, or the value is an output.
  ValueId Only(ValueId value) const {
    return Of(value).size() == 1 && !IsOutput(value) ? Of(value)[0] : -1;
  }

  // Whether only `ops` read a value, which is no output.
  bool AreAmong(const std::set<ValueId>& ops, ValueId value) const {
    return !IsOutput(value) && std::all_of(Of(value).begin(), Of(value).end(),
                                           [&](ValueId user) { return ops.count(user) > 0; });
  }

 private:
  std::vector<std::vector<ValueId>> users_;
  std::vector<bool> is_output_;
};

}  // namespace sinter

#endif  // SINTER_SRC_CHAIN_USERS_H_
