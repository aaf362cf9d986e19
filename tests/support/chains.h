// What tests that make chains include: the builder, composites, lines of problems, short
// dimensions.
#pragma once

#include "src/chain/builder.h"
#include "src/chain/chain.h"
#include "src/chain/composites.h"
#include "src/chain/problem.h"
#include "tests/support/common.h"
#include "tests/support/constant_dim.h"

namespace sinter {

// The builder's chain with these outputs as its last ones. An error ends the test.
inline Chain Finished(ChainBuilder& b, const std::vector<ValueId>& outputs) {
  for (const ValueId output : outputs) {
    const absl::Status status = b.Output(output);
    if (!status.ok()) throw std::runtime_error(status.ToString());
  }
  absl::StatusOr<Chain> chain = b.Finish();
  if (!chain.ok()) throw std::runtime_error(chain.status().ToString());
  return *std::move(chain);
}

}  // namespace sinter
