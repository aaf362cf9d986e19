// Algorithm 2 of FlashFuser: enumerate, prune by the five rules, analyse each survivor, cost it by
// its slowest level, keep the best K. The paper then compiles and times those K; here tuning does.
#ifndef SINTER_SRC_PRODUCT_PAPER_PAPER_SEARCH_H_
#define SINTER_SRC_PRODUCT_PAPER_PAPER_SEARCH_H_

#include <vector>

#include "src/product/paper/dataflow_analyzer.h"

namespace sinter {

struct PaperCandidate {
  PaperPoint point;
  double cost_us = 0;
};

struct PaperSearchResult {
  std::vector<PaperCandidate>
      best;                 // at most K, cheapest first; of equal costs the one enumerated first
  uint64_t survivors = 0;   // after the five rules
  uint64_t realisable = 0;  // survivors that the primitives can carry out
};

PaperSearchResult PaperSearch(const PaperProblem& problem, const DeviceModel& model, size_t top_k);

}  // namespace sinter

#endif  // SINTER_SRC_PRODUCT_PAPER_PAPER_SEARCH_H_
