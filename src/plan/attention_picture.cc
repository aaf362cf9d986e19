// What a kernel of attention is drawn from.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "src/base/numbers.h"
#include "src/plan/attention_family.h"

namespace sinter {
namespace {

std::string FormulaOf(const AttentionProblem& p) {
  std::string scores = "q k^T";
  bool sum = false;  // whether a factor before it needs brackets
  for (const ScoreStep& step : p.steps) {
    if (step.kind == ScoreStep::kScale) {
      scores = absl::StrCat(step.number, sum ? absl::StrCat(" (", scores, ")") : " " + scores);
    }
    if (step.kind == ScoreStep::kRound) scores = absl::StrCat(NameOf(step.dtype), "(", scores, ")");
    if (step.kind == ScoreStep::kAdd) absl::StrAppend(&scores, " + term");
    if (step.kind == ScoreStep::kSelect) {
      scores = absl::StrCat("where(term, ", scores, ", ", step.number, ")");
    }
    if (step.kind == ScoreStep::kHide) {
      scores = absl::StrCat("where(term, ", step.number, ", ", scores, ")");
    }
    sum = step.kind == ScoreStep::kAdd;
  }
  if (p.causal) scores = absl::StrCat("causal(", scores, ")");
  return absl::StrCat("out = softmax(", scores, ") v");
}

}  // namespace

int64_t AttentionPicture::Items() const { return CeilDiv(rows, item_rows); }

int64_t AttentionPicture::Tiles() const { return CeilDiv(keys, tile_keys); }

bool AttentionPicture::IsSkipped(int64_t item, int64_t tile) const {
  return causal && tile > 0 && tile * tile_keys >= (item + 1) * item_rows + diagonal;
}

AttentionPicture PictureOf(const AttentionProblem& p, const AttentionSchedule& s, int64_t bucket) {
  AttentionPicture picture;
  picture.formula = FormulaOf(p);
  picture.batches = absl::StrCat(p.of_m ? "M x " : "", p.batches);
  picture.rows = p.rows, picture.keys = p.keys;
  picture.head = p.head, picture.value_head = p.value_head;
  picture.causal = p.causal, picture.diagonal = p.diagonal;
  picture.item_rows = s.BlockRows(), picture.tile_keys = s.block_keys;
  picture.warpgroups = s.warpgroups, picture.resident = s.resident;
  picture.items = AttentionItems(p, s, bucket), picture.blocks = s.grid;
  picture.stages = s.stages;
  picture.shared_bytes = AttentionSharedBytes(p, s);
  const int64_t queries = AttentionQueryBytes(p, s), stage = AttentionStageBytes(p, s);
  const int64_t other = picture.shared_bytes - queries * s.query_stages - stage * s.stages;
  picture.shared = {
      {"rows of q", queries, s.query_stages}, {"ring", stage, s.stages}, {"other", other, 1}};
  return picture;
}

}  // namespace sinter
