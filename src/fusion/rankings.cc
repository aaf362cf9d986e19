#include "src/fusion/rankings.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/status.h"
#include "src/fusion/product_plans.h"

namespace sinter {
namespace {

// A cooperative launch waits for all that went before it.
bool HasProgrammaticEdge(const Schedule& schedule) { return !IsCooperative(schedule); }

std::vector<RankedSchedule> BehindAnother(std::vector<RankedSchedule> ranked,
                                          const DeviceModel& model) {
  for (RankedSchedule& r : ranked) {
    if (HasProgrammaticEdge(r.schedule)) {
      r.prediction = BehindProgrammaticEdge(r.prediction, model);
    }
  }
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const RankedSchedule& a, const RankedSchedule& b) {
                     return a.prediction.total_us < b.prediction.total_us;
                   });
  return ranked;
}

}  // namespace

class Rankings::Maker {
 public:
  Maker(const ProductsView& view, int64_t bucket, const DeviceModel& model,
        const SearchOptions& options, Rankings* out)
      : view_(view), bucket_(bucket), model_(model), options_(options), out_(*out) {}

  absl::Status Run() {
    for (int i = 0; i < view_.size(); ++i) {
      auto alone = Rank({i, 1});
      if (!alone.ok()) return Annotate(alone.status(), absl::StrCat("product ", i + 1));
      out_.alone_.push_back(*std::move(alone));
    }
    bool any = false;
    for (int i = 0; i + 1 < view_.size(); ++i) {
      out_.pairs_.push_back(CanPair(view_, i) ? RankPair(i) : std::vector<RankedSchedule>());
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
    const FfnProblem problem = ProblemOf(view_, segment, bucket_);
    const std::string key = problem.Canonical();
    auto known = searched_.find(key);
    if (known == searched_.end()) {
      SINTER_ASSIGN_OR_RETURN(SearchResult found, SearchSchedules(problem, model_, options_));
      out_.considered_ += found.considered;
      out_.legal_ += found.legal;
      known = searched_.emplace(key, std::move(found.ranked)).first;
    }
    return segment.begin > 0 ? BehindAnother(known->second, model_) : known->second;
  }

  std::string WhyNoneCanPair() const {
    if (view_.size() == 1) return "one product: there is nothing to fuse";
    const bool residual = std::any_of(view_.steps.begin(), view_.steps.end() - 1,
                                      [](const ProductStep& s) { return s.has_residual(); });
    return absl::StrCat("not fused: each product behind the first is gated or activated",
                        residual ? ", or behind a residual" : "");
  }

  std::vector<RankedSchedule> RankPair(int first) {
    auto ranked = Rank({first, 2});
    if (ranked.ok()) return *std::move(ranked);
    if (out_.why_no_pair_.empty()) {
      out_.why_no_pair_ = absl::StrCat("not fused: ", ranked.status().message());
    }
    return {};
  }

  const ProductsView& view_;
  const int64_t bucket_;
  const DeviceModel& model_;
  const SearchOptions& options_;
  Rankings& out_;
  std::map<std::string, std::vector<RankedSchedule>> searched_;  // by canonical problem
};

absl::StatusOr<Rankings> Rankings::Make(const ProductsView& view, int64_t bucket,
                                        const DeviceModel& model, const SearchOptions& options) {
  Rankings rankings;
  SINTER_RETURN_IF_ERROR(Maker(view, bucket, model, options, &rankings).Run());
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

}  // namespace sinter
