#include "src/fusion/rankings.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/status.h"

namespace sinter {
namespace {

struct Prefix {
  double us = 0;
  int pairs = 0;
  Segmentation segments;
};

bool PairsLater(const Segmentation& a, const Segmentation& b) {
  return std::lexicographical_compare(
      a.begin(), a.end(), b.begin(), b.end(),
      [](const Segment& x, const Segment& y) { return x.count < y.count; });
}

bool Better(const Prefix& a, const Prefix& b) {
  if (a.us != b.us) return a.us < b.us;
  return a.pairs != b.pairs ? a.pairs < b.pairs : PairsLater(a.segments, b.segments);
}

void Extend(const std::vector<Prefix>& shorter, const Segment& segment, double us,
            std::vector<Prefix>* out) {
  if (!std::isfinite(us)) return;
  for (Prefix prefix : shorter) {
    prefix.us += us;
    prefix.pairs += segment.count - 1;
    prefix.segments.push_back(segment);
    out->push_back(std::move(prefix));
  }
}

Segmentation AllApart(int products) {
  Segmentation segments;
  for (int i = 0; i < products; ++i) segments.push_back({i, 1});
  return segments;
}

}  // namespace

int PairsOf(const Segmentation& segments) {
  int pairs = 0;
  for (const Segment& segment : segments) pairs += segment.count - 1;
  return pairs;
}

std::vector<Segmentation> BestSegmentations(int products, const SegmentCost& cost, size_t limit) {
  std::vector<std::vector<Prefix>> best(static_cast<size_t>(products) + 1);  // by length
  best[0].push_back({});
  for (int end = 1; end <= products; ++end) {
    std::vector<Prefix>& here = best[static_cast<size_t>(end)];
    for (int count = 1; count <= std::min(2, end); ++count) {
      const Segment last{end - count, count};
      Extend(best[static_cast<size_t>(last.begin)], last, cost(last), &here);
    }
    std::sort(here.begin(), here.end(), Better);
    if (here.size() > limit) here.resize(limit);
  }
  std::vector<Segmentation> result;
  for (Prefix& prefix : best.back()) result.push_back(std::move(prefix.segments));
  return result;
}

class Rankings::Maker {
 public:
  Maker(const ProductSequence& sequence, const DeviceModel& model, const SearchOptions& options,
        Rankings* out)
      : sequence_(sequence), model_(model), options_(options), out_(*out) {}

  absl::Status Run() {
    for (int i = 0; i < sequence_.size(); ++i) {
      auto alone = Rank({i, 1});
      if (!alone.ok()) return Annotate(alone.status(), absl::StrCat("product ", i + 1));
      out_.alone_.push_back(*std::move(alone));
    }
    bool any = false;
    for (int i = 0; i + 1 < sequence_.size(); ++i) {
      out_.pairs_.push_back(options_.only == nullptr && CanPair(sequence_, i)
                                ? RankPair(i)
                                : std::vector<RankedSchedule>());
      any |= !out_.pairs_.back().empty();
    }
    if (any) {
      out_.why_no_pair_.clear();
    } else if (out_.why_no_pair_.empty()) {
      out_.why_no_pair_ = WhyNoneCanPair();
    }
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<std::vector<RankedSchedule>> Rank(const Segment& segment) {
    const ProductSequence part = sequence_.Part(segment.begin, segment.count);
    SearchOptions options = options_;
    options.behind |= segment.begin > 0;
    const auto key = std::make_pair(part.Canonical(), options.behind);
    auto known = searched_.find(key);
    if (known == searched_.end()) {
      SINTER_ASSIGN_OR_RETURN(SearchResult found, SearchSchedules(part, model_, options));
      out_.considered_ += found.considered;
      out_.legal_ += found.legal;
      known = searched_.emplace(key, std::move(found.ranked)).first;
    }
    return known->second;
  }

  std::string WhyNoneCanPair() const {
    if (sequence_.size() == 1) return "one product: there is no other to share its kernel with";
    const auto& products = sequence_.products;
    const bool residual =
        std::any_of(products.begin(), products.end() - 1,
                    [](const MatrixProduct& p) { return p.epilogue.has_residual(); });
    return absl::StrCat("products apart: each product after the first is gated",
                        residual ? ", or follows a residual" : "");
  }

  std::vector<RankedSchedule> RankPair(int first) {
    auto ranked = Rank({first, 2});
    if (ranked.ok()) return *std::move(ranked);
    if (out_.why_no_pair_.empty()) {
      out_.why_no_pair_ = absl::StrCat("products apart: ", ranked.status().message());
    }
    return {};
  }

  const ProductSequence& sequence_;
  const DeviceModel& model_;
  const SearchOptions& options_;
  Rankings& out_;
  // By canonical part, and whether it follows another kernel.
  std::map<std::pair<std::string, bool>, std::vector<RankedSchedule>> searched_;
};

absl::StatusOr<Rankings> Rankings::Make(const ProductSequence& sequence, const DeviceModel& model,
                                        const SearchOptions& options) {
  Rankings rankings;
  SINTER_RETURN_IF_ERROR(Maker(sequence, model, options, &rankings).Run());
  return rankings;
}

const std::vector<RankedSchedule>& Rankings::Of(const Segment& segment) const {
  const auto first = static_cast<size_t>(segment.begin);
  return segment.count == 2 ? pairs_[first] : alone_[first];
}

double Rankings::CostOf(const Segment& segment) const {
  const std::vector<RankedSchedule>& ranked = Of(segment);
  return ranked.empty() ? std::numeric_limits<double>::infinity()
                        : ranked.front().prediction.total_us;
}

const Segmentation& RankedRun::CutAt(bool fused, size_t i) const {
  return fused ? cuts[std::min(cuts.size() - 1, i)] : apart;
}

size_t RankedRun::Depth(const Segmentation& cut) const {
  size_t depth = 0;
  for (const Segment& segment : cut) depth = std::max(depth, rankings.Of(segment).size());
  return depth;
}

std::vector<RankedSchedule> RankedRun::SchedulesAt(const Segmentation& cut, size_t i) const {
  std::vector<RankedSchedule> schedules;
  for (const Segment& segment : cut) {
    const std::vector<RankedSchedule>& ranked = rankings.Of(segment);
    schedules.push_back(ranked[std::min(ranked.size() - 1, i)]);
  }
  return schedules;
}

absl::StatusOr<const RankedRun*> RunRankings::Of(const GraphRun& run, bool behind) {
  const ProductSequence& sequence = run.matched.sequence;
  const auto key = std::make_tuple(sequence.Canonical(), sequence.m, behind);
  auto known = known_.find(key);
  if (known == known_.end()) {
    SearchOptions options = options_;
    options.behind = behind;
    SINTER_ASSIGN_OR_RETURN(Rankings made, Rankings::Make(sequence, model_, options));
    RankedRun ranked{std::move(made), {}, AllApart(sequence.size())};
    ranked.cuts = BestSegmentations(
        sequence.size(), [&](const Segment& s) { return ranked.rankings.CostOf(s); },
        static_cast<size_t>(options_.top_k));
    known = known_.emplace(key, std::move(ranked)).first;
  }
  return &known->second;
}

uint64_t RunRankings::considered() const {
  uint64_t sum = 0;
  for (const auto& [key, run] : known_) sum += run.rankings.considered();
  return sum;
}

uint64_t RunRankings::legal() const {
  uint64_t sum = 0;
  for (const auto& [key, run] : known_) sum += run.rankings.legal();
  return sum;
}

}  // namespace sinter
