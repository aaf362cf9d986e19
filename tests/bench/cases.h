// Cases: which problems a run measures, from problem lists.
#pragma once

#include "src/chain/problem.h"
#include "src/plan/plan.h"
#include "src/product/matcher.h"
#include "tests/support/common.h"

namespace sinter::bench {

struct Case {
  std::string id, line;  // of the problem list, with the layout of the case
  Chain chain;
  MatchedSequence matched;  // of one or two products, for the bucket of m; for a part only its
                            // sequence, and nothing for a chain that PartsOf has to cut
  int64_t m = 0;
  std::shared_ptr<const Plan> plan;  // of a part: the chain's, of which it is one kernel
  int kernel = -1;                   // its number in the plan

  // Whether the products are of 8-bit codes, which not every mode takes.
  bool IsOfCodes() const;
  // Bytes of weights and biases.
  int64_t ConstantBytes() const;
  double Flop() const;
  // Microseconds by figures of the device: bytes at the rate of its memory or FLOP at that of its
  // tensor cores, whichever takes longer, and the launch, first and last bytes of one kernel.
  // Bytes: constants but scales, the input and the output, once each.
  double LimitUs(const DeviceModel& model) const;
  // Computations in a graph that times this case: 64, and 20 where each takes so long that what a
  // graph's ends cost is nothing.
  int Calls(const DeviceModel& model) const { return LimitUs(model) < 200 ? 64 : 20; }
};

// `files`: problem lists; `ids`: only these, all when empty; `layout`: "oi", "io", "both", or
// "file" for what each line says; convolutions say nothing and are taken once. INVALID_ARGUMENT or
// NOT_FOUND naming the file, line or id. `codes`: also products of 8-bit codes, and chains of
// several sequences of them, with a quantiser between, as cases without a sequence.
absl::StatusOr<std::vector<Case>> LoadCases(const std::vector<std::string>& files,
                                            const std::vector<std::string>& ids,
                                            const std::string& layout, bool codes = false);

}  // namespace sinter::bench
