// Describes a kernel of attention: its formula, the scores of each warpgroup, and a block.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "src/base/format.h"
#include "src/base/numbers.h"
#include "src/plan/attention_family.h"

namespace sinter {
namespace {

std::string FormulaOf(const AttentionProblem& p) {
  std::string scores = p.Scale() == 1 ? "q k^T" : absl::StrCat(p.Scale(), " q k^T");
  std::string of;
  if (!p.IsPlain()) {
    of = absl::StrCat(" with y = ", scores);
    scores = ToString(p.program);
  }
  if (p.causal) scores = absl::StrCat("causal(", scores, ")");
  return absl::StrCat("out = softmax(", scores, ") v", of);
}

std::string BlockText(const AttentionProblem& p, const AttentionSchedule& s) {
  const int64_t queries = AttentionQueryBytes(p, s), stage = AttentionStageBytes(p, s);
  const int64_t other = AttentionSharedBytes(p, s) - queries * s.query_stages - stage * s.stages;
  return absl::StrCat(
      Counted(static_cast<uint64_t>(s.warpgroups), "warpgroup"), " of 64 rows, ",
      Counted(static_cast<uint64_t>(s.resident), "block"), " on an SM; shared memory: ",
      ToString(
          {{"rows of q", queries, s.query_stages}, {"ring", stage, s.stages}, {"other", other}}));
}

}  // namespace

std::vector<std::pair<std::string, std::string>> AttentionLines(const AttentionProblem& p,
                                                                const AttentionSchedule& s,
                                                                int64_t bucket) {
  const int64_t items = AttentionItems(p, s, bucket);
  const int64_t takers = std::max<int64_t>(s.grid / s.splits, 1);
  const bool shared = s.splits > 1;
  return {
      {"computes",
       absl::StrCat(FormulaOf(p), ", for each of ", p.of_m ? "M x " : "", p.batches, " batches")},
      {"items",
       absl::StrCat("the scores of a batch, ", p.rows, " x ", p.keys, ", are ",
                    CeilDiv(p.rows, s.BlockRows()), " x ", s.BlockRows(), " rows and ",
                    CeilDiv(p.keys, s.block_keys), " tiles of ", s.block_keys, " keys",
                    p.causal && !shared ? "; tiles that no row of an item sees are skipped" : "")},
      {"launch", absl::StrCat(Counted(static_cast<uint64_t>(s.grid), "block"),
                              shared ? absl::StrCat(" in clusters of ", s.splits) : "",
                              ", each takes up to ", CeilDiv(items, takers), " of ", items,
                              " items, ", takers, " apart, and starts with the last tile of ",
                              shared ? "its range of each" : "each")},
      {"block", BlockText(p, s)}};
}

}  // namespace sinter
