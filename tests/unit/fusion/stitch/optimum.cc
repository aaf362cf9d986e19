#include "tests/unit/fusion/stitch/optimum.h"

#include <glpk.h>

namespace sinter::testing {
namespace {

constexpr double kNone = -std::numeric_limits<double>::infinity();
constexpr int kSolverMilliseconds = 4000;
constexpr int kMostRounds = 60;

using Mask = uint32_t;

std::vector<Mask> ClosedSets(const StitchGraph& graph, size_t limit) {
  std::vector<Mask> needs;
  for (int v = 0; v < graph.size(); ++v) {
    Mask mask = 0;
    for (int p : graph.vertex(v).producers) mask |= Mask{1} << p;
    needs.push_back(mask);
  }
  std::vector<Mask> sets = {0};
  std::unordered_set<Mask> known = {0};
  for (size_t i = 0; i < sets.size() && sets.size() <= limit; ++i) {
    for (int v = 0; v < graph.size(); ++v) {
      const Mask bit = Mask{1} << v;
      if ((sets[i] & bit) != 0 || (needs[static_cast<size_t>(v)] & ~sets[i]) != 0) continue;
      if (known.insert(sets[i] | bit).second) sets.push_back(sets[i] | bit);
    }
  }
  return sets;  // by size
}

class Scores {
 public:
  explicit Scores(DeltaEvaluator* evaluator) : evaluator_(evaluator) {}
  double Of(Mask mask) {
    const auto known = scores_.find(mask);
    if (known != scores_.end()) return known->second;
    std::vector<int> list;
    for (Mask rest = mask; rest != 0; rest &= rest - 1) list.push_back(__builtin_ctz(rest));
    double score = evaluator_->Score(StitchPattern::Of(evaluator_->graph(), list));
    if (score <= DeltaEvaluator::kIllegal) score = kNone;
    return scores_[mask] = score;
  }

 private:
  DeltaEvaluator* evaluator_;
  std::unordered_map<Mask, double> scores_;
};

}  // namespace

std::optional<double> ExhaustiveOptimum(DeltaEvaluator* evaluator, size_t limit) {
  const StitchGraph& graph = evaluator->graph();
  if (graph.size() > 31) return std::nullopt;
  const std::vector<Mask> sets = ClosedSets(graph, limit);
  if (sets.size() > limit) return std::nullopt;
  Scores scores(evaluator);
  std::vector<double> best(sets.size(), kNone);
  best[0] = 0;
  for (size_t i = 1; i < sets.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if ((sets[j] & ~sets[i]) != 0 || sets[j] == sets[i]) continue;
      best[i] = std::max(best[i], best[j] + scores.Of(sets[i] & ~sets[j]));
    }
  }
  return best.back();
}

namespace {

class IntegerProgram {
 public:
  IntegerProgram(DeltaEvaluator* evaluator, size_t limit)
      : evaluator_(evaluator), graph_(evaluator->graph()), limit_(limit) {}

  std::optional<double> Solve() {
    if (!FindPatterns()) return std::nullopt;
    if (columns_.empty()) return 0;
    MakeProblem();
    std::optional<double> optimum;
    for (int round = 0; round < kMostRounds; ++round) {
      if (!SolveOnce()) break;
      const std::vector<size_t> cycle = FindCycle();
      if (cycle.empty()) {
        optimum = glp_mip_obj_val(problem_);
        break;
      }
      Forbid(cycle);
    }
    glp_delete_prob(problem_);
    glp_free_env();
    return optimum;
  }

 private:
  std::vector<std::set<int>> Neighbours() const {
    std::vector<std::set<int>> sets(static_cast<size_t>(graph_.size()));
    const auto link = [&](int a, int b) {
      if (graph_.vertex(a).opaque || graph_.vertex(b).opaque) return;
      sets[static_cast<size_t>(a)].insert(b);
      sets[static_cast<size_t>(b)].insert(a);
    };
    for (int v = 0; v < graph_.size(); ++v) {
      for (int c : graph_.vertex(v).consumers) link(v, c);
    }
    for (int t = 0; t < graph_.num_tensors(); ++t) {
      for (int a : graph_.tensor(t).consumers) {
        for (int b : graph_.tensor(t).consumers) {
          if (a < b) link(a, b);
        }
      }
    }
    return sets;
  }

  // False when there are more than the limit.
  bool FindPatterns() {
    const std::vector<std::set<int>> neighbours = Neighbours();
    std::vector<StitchPattern> all;
    std::set<std::vector<int>> known;
    for (int v = 0; v < graph_.size(); ++v) {
      if (graph_.vertex(v).opaque) continue;
      all.push_back(StitchPattern::Of(graph_, v));
      known.insert({v});
    }
    for (size_t i = 0; i < all.size(); ++i) {
      if (all.size() > limit_) return false;
      std::set<int> around;
      const NodeSet members = all[i].vertices();
      members.ForEach([&](int v) {
        for (int n : neighbours[static_cast<size_t>(v)]) {
          if (!members.Contains(n)) around.insert(n);
        }
      });
      for (int n : around) {
        StitchPattern grown = all[i];
        grown.Unite(StitchPattern::Of(graph_, n));
        if (grown.IsConvex() && known.insert(grown.vertices().ToVector()).second) {
          all.push_back(grown);
        }
      }
    }
    for (StitchPattern& pattern : all) {
      const double score = evaluator_->Score(pattern);
      if (score > 0) columns_.push_back({std::move(pattern), score});
    }
    return true;
  }

  void MakeProblem() {
    glp_term_out(GLP_OFF);
    problem_ = glp_create_prob();
    glp_set_obj_dir(problem_, GLP_MAX);
    glp_add_rows(problem_, graph_.size());
    for (int v = 0; v < graph_.size(); ++v) glp_set_row_bnds(problem_, v + 1, GLP_UP, 0, 1);
    glp_add_cols(problem_, static_cast<int>(columns_.size()));
    for (size_t c = 0; c < columns_.size(); ++c) {
      const int column = static_cast<int>(c) + 1;
      glp_set_col_kind(problem_, column, GLP_BV);
      glp_set_obj_coef(problem_, column, columns_[c].score);
      std::vector<int> rows = {0};
      std::vector<double> ones = {0};
      columns_[c].pattern.vertices().ForEach([&](int v) {
        rows.push_back(v + 1);
        ones.push_back(1);
      });
      glp_set_mat_col(problem_, column, static_cast<int>(rows.size()) - 1, rows.data(),
                      ones.data());
    }
  }

  bool SolveOnce() {
    glp_iocp options;
    glp_init_iocp(&options);
    options.presolve = GLP_ON;
    options.tm_lim = kSolverMilliseconds;
    options.msg_lev = GLP_MSG_OFF;
    return glp_intopt(problem_, &options) == 0 && glp_mip_status(problem_) == GLP_OPT;
  }

  // Columns of the solution whose kernels wait for one another; empty when there are none.
  std::vector<size_t> FindCycle() const {
    std::vector<size_t> chosen;
    for (size_t c = 0; c < columns_.size(); ++c) {
      if (glp_mip_col_val(problem_, static_cast<int>(c) + 1) > 0.5) chosen.push_back(c);
    }
    // Kernels: the chosen patterns, then the vertices in none.
    std::vector<int> kernel_of(static_cast<size_t>(graph_.size()), -1);
    int kernels = 0;
    for (size_t c : chosen) {
      columns_[c].pattern.vertices().ForEach(
          [&](int v) { kernel_of[static_cast<size_t>(v)] = kernels; });
      ++kernels;
    }
    for (int& kernel : kernel_of) kernel = kernel < 0 ? kernels++ : kernel;
    std::vector<std::set<int>> next(static_cast<size_t>(kernels));
    for (int v = 0; v < graph_.size(); ++v) {
      for (int c : graph_.vertex(v).consumers) {
        const int from = kernel_of[static_cast<size_t>(v)], to = kernel_of[static_cast<size_t>(c)];
        if (from != to) next[static_cast<size_t>(from)].insert(to);
      }
    }
    std::vector<size_t> cycle;
    for (int k : CycleIn(next)) {
      if (static_cast<size_t>(k) < chosen.size()) cycle.push_back(chosen[static_cast<size_t>(k)]);
    }
    return cycle;
  }

  static std::vector<int> CycleIn(const std::vector<std::set<int>>& next) {
    std::vector<int> state(next.size(), 0), path;
    std::vector<int> cycle;
    for (size_t k = 0; k < next.size() && cycle.empty(); ++k) {
      Visit(static_cast<int>(k), next, &state, &path, &cycle);
    }
    return cycle;
  }

  static void Visit(int k, const std::vector<std::set<int>>& next, std::vector<int>* state,
                    std::vector<int>* path, std::vector<int>* cycle) {
    if ((*state)[static_cast<size_t>(k)] == 2 || !cycle->empty()) return;
    if ((*state)[static_cast<size_t>(k)] == 1) {
      cycle->assign(std::find(path->begin(), path->end(), k), path->end());
      return;
    }
    (*state)[static_cast<size_t>(k)] = 1;
    path->push_back(k);
    for (int to : next[static_cast<size_t>(k)]) Visit(to, next, state, path, cycle);
    path->pop_back();
    (*state)[static_cast<size_t>(k)] = 2;
  }

  void Forbid(const std::vector<size_t>& cycle) {
    const int row = glp_add_rows(problem_, 1);
    glp_set_row_bnds(problem_, row, GLP_UP, 0, static_cast<double>(cycle.size()) - 1);
    std::vector<int> columns = {0};
    std::vector<double> ones = {0};
    for (size_t c : cycle) {
      columns.push_back(static_cast<int>(c) + 1);
      ones.push_back(1);
    }
    glp_set_mat_row(problem_, row, static_cast<int>(cycle.size()), columns.data(), ones.data());
  }

  DeltaEvaluator* evaluator_;
  const StitchGraph& graph_;
  const size_t limit_;
  std::vector<ScoredPattern> columns_;
  glp_prob* problem_ = nullptr;
};

}  // namespace

std::optional<double> IntegerProgramOptimum(DeltaEvaluator* evaluator, size_t limit) {
  return IntegerProgram(evaluator, limit).Solve();
}

}  // namespace sinter::testing
