#include "src/stitch/index.h"

#include <algorithm>
#include <cmath>

namespace sinter {
namespace {

constexpr int64_t kMostTerms = int64_t{1} << 40;  // counts stop here: each level may double them

}  // namespace

Index Index::Of(IndexVar var) {
  Index index;
  index.terms_.push_back({var, 1});
  return index;
}

int64_t Index::FactorOf(IndexVar var) const {
  for (const auto& [v, factor] : terms_) {
    if (v == var) return factor;
  }
  return 0;
}

Index Index::Plus(const Index& other) const {
  if (other.terms_.empty()) {
    Index sum = *this;
    sum.offset_ += other.offset_;
    return sum;
  }
  Index sum(offset_ + other.offset_);
  auto mine = terms_.begin(), theirs = other.terms_.begin();
  while (mine != terms_.end() || theirs != other.terms_.end()) {
    if (theirs == other.terms_.end() || (mine != terms_.end() && mine->first < theirs->first)) {
      sum.terms_.push_back(*mine++);
    } else if (mine == terms_.end() || theirs->first < mine->first) {
      sum.terms_.push_back(*theirs++);
    } else {
      const int64_t total = mine->second + theirs++->second;
      if (total != 0) sum.terms_.push_back({mine->first, total});
      ++mine;
    }
  }
  return sum;
}

Index Index::Times(int64_t factor) const {
  Index product;
  if (factor == 0) return product;
  product = *this;
  product.offset_ *= factor;
  for (auto& term : product.terms_) term.second *= factor;
  return product;
}

IndexVar IndexSpace::AddLoop(const std::string& name, int64_t extent, int depth, bool is_int) {
  Var var;
  var.name = name;
  var.is_int = is_int;
  var.extent = extent;
  var.depth = depth;
  vars_.push_back(std::move(var));
  return static_cast<IndexVar>(vars_.size()) - 1;
}

IndexVar IndexSpace::SegmentOf(IndexVar loop, int64_t elements) {
  return elements == 1 ? loop : Intern(Var::kQuotient, Index::Of(loop), elements);
}

std::vector<Index> IndexSpace::Box(IndexVar loop, const std::vector<int64_t>& dims) {
  const auto [known, fresh] = box_of_.try_emplace({loop, dims}, boxes_.size());
  if (!fresh) {
    std::vector<Index> position;
    for (IndexVar var : boxes_[known->second].vars) {
      position.push_back(var < 0 ? Index() : Index::Of(var));
    }
    return position;
  }
  BoxDims box{loop, dims, {}};
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 1) {
      box.vars.push_back(-1);
      continue;
    }
    Var var;
    var.kind = Var::kDim;
    var.extent = dims[i];
    var.depth = vars_[loop].depth;
    var.box = static_cast<int>(boxes_.size());
    var.dim = static_cast<int>(i);
    vars_.push_back(std::move(var));
    box.vars.push_back(static_cast<IndexVar>(vars_.size()) - 1);
  }
  boxes_.push_back(std::move(box));
  return Box(loop, dims);
}

IndexVar IndexSpace::Intern(Var::Kind kind, const Index& of, int64_t divisor) {
  const auto key = std::make_tuple(static_cast<int>(kind), of, divisor);
  const auto found = interned_.find(key);
  if (found != interned_.end()) return found->second;
  Var var;
  var.kind = kind;
  var.of = of;
  var.divisor = divisor;
  const int64_t largest = Largest(of);
  const bool below = kind == Var::kRemainder || kind == Var::kNearest;
  var.extent = below ? divisor : largest < 0 ? 0 : largest / divisor + 1;
  var.depth = Depth(of);
  var.terms = std::min(kMostTerms, 1 + TermsOf(of));
  var.is_int = !LeavesInt(of) && std::all_of(of.terms().begin(), of.terms().end(),
                                             [&](auto& term) { return vars_[term.first].is_int; });
  vars_.push_back(std::move(var));
  return interned_[key] = static_cast<IndexVar>(vars_.size()) - 1;
}

Index IndexSpace::Nearest(const Index& index, int64_t extent) {
  const int64_t largest = Largest(index);
  if (largest >= 0 && largest < extent) return index;
  return Index::Of(Intern(Var::kNearest, Canonical(index), extent));
}

IndexVar IndexSpace::Read(int ids, const std::vector<Index>& at, int64_t extent) {
  Var var;
  var.kind = Var::kRead;
  var.ids = ids;
  var.extent = extent;
  for (const Index& index : at) {
    var.at.push_back(Canonical(index));
    var.depth = std::max(var.depth, Depth(var.at.back()));
    var.terms = std::min(kMostTerms, var.terms + TermsOf(var.at.back()));
  }
  const auto [known, fresh] =
      reads_.try_emplace({ids, var.at, extent}, static_cast<IndexVar>(vars_.size()));
  if (fresh) vars_.push_back(std::move(var));
  return known->second;
}

void IndexSpace::NameRead(IndexVar read, const std::string& name, int depth) {
  vars_[read].name = name;
  if (vars_[read].depth == depth) return;
  vars_[read].depth = depth;
  for (size_t v = static_cast<size_t>(read) + 1; v < vars_.size(); ++v) {
    const Var::Kind kind = vars_[v].kind;
    const bool derived = kind == Var::kQuotient || kind == Var::kRemainder || kind == Var::kNearest;
    if (derived) vars_[v].depth = Depth(vars_[v].of);
  }
}

std::vector<IndexVar> IndexSpace::ReadsIn(const std::vector<Index>& at) const {
  std::vector<IndexVar> reads;
  for (const Index& index : at) AddReads(index, &reads);
  return reads;
}

void IndexSpace::AddReads(const Index& index, std::vector<IndexVar>* reads) const {
  for (const auto& [v, factor] : index.terms()) {
    if (vars_[v].kind == Var::kRead) reads->push_back(v);
    AddReads(vars_[v].of, reads);
  }
}

int64_t IndexSpace::Largest(const Index& index) const {
  int64_t largest = index.offset();
  if (largest < 0) return -1;
  for (const auto& [var, factor] : index.terms()) {
    if (factor < 0 || vars_[var].extent == 0) return -1;
    largest += factor * (vars_[var].extent - 1);
  }
  return largest;
}

int64_t IndexSpace::TermsOf(const Index& index) const {
  int64_t terms = 0;
  for (const auto& [var, factor] : index.terms()) terms += vars_[var].terms;
  return terms;
}

int IndexSpace::Depth(const Index& index) const {
  int depth = 0;
  for (const auto& [var, factor] : index.terms()) depth = std::max(depth, vars_[var].depth);
  return depth;
}

bool IndexSpace::LeavesInt(const Index& index) const {
  constexpr int64_t kFirst = int64_t{1} << 31;  // that no int holds
  const auto behind_ints = static_cast<double>(kFirst);
  double most = static_cast<double>(std::max<int64_t>(index.offset(), 0));
  bool ints = false;
  for (const auto& [v, factor] : index.terms()) {
    if (!vars_[v].is_int) continue;
    ints = true;
    const int64_t extent = vars_[v].extent;
    const double largest = extent == 0 ? behind_ints : static_cast<double>(extent - 1);
    most += std::abs(static_cast<double>(factor)) * largest;
  }
  return ints && most >= behind_ints;
}

bool IndexSpace::MovesWith(const Index& index, IndexVar loop) const {
  std::set<IndexVar> seen;
  return Reaches(index, loop, &seen);
}

bool IndexSpace::MovesWith(const std::vector<Index>& at, IndexVar loop) const {
  return std::any_of(at.begin(), at.end(),
                     [&](const Index& index) { return MovesWith(index, loop); });
}

// Each variable once: many may be made of the same one.
bool IndexSpace::Reaches(const Index& index, IndexVar loop, std::set<IndexVar>* seen) const {
  for (const auto& [var, factor] : index.terms()) {
    if (var == loop) return true;
    if (!seen->insert(var).second) continue;
    const Var& v = vars_[var];
    const Index of = v.kind == Var::kDim ? Index::Of(boxes_[v.box].loop) : v.of;
    if (Reaches(of, loop, seen)) return true;
    for (const Index& at : v.at) {
      if (Reaches(at, loop, seen)) return true;
    }
  }
  return false;
}

// Ids are any numbers: different ones at different places.
int64_t IndexSpace::GuessOf(const Var& read, IndexVar loop, int64_t at) const {
  constexpr int64_t kPrime = 48271, kMost = (int64_t{1} << 31) - 1;
  int64_t guess = 0;
  for (const Index& index : read.at) {
    guess = (guess * kPrime + ValueAt(index, loop, at)) % kMost;
  }
  guess = guess * kPrime % kMost;
  return read.extent > 0 ? guess % read.extent : guess;
}

int64_t IndexSpace::ValueAt(const Index& index, IndexVar loop, int64_t at) const {
  int64_t value = index.offset();
  for (const auto& [v, factor] : index.terms()) {
    const Var& var = vars_[v];
    if (var.kind == Var::kLoop) {
      value += v == loop ? factor * at : 0;
      continue;
    }
    if (var.kind == Var::kRead) {
      value += factor * GuessOf(var, loop, at);
      continue;
    }
    const int64_t of = ValueAt(var.of, loop, at);
    if (var.kind == Var::kNearest) {
      value += factor * of;
      continue;
    }
    value += factor * (var.kind == Var::kQuotient ? of / var.divisor : of % var.divisor);
  }
  return value;
}

Index IndexSpace::WithLoop(const Index& index, IndexVar loop, IndexVar with) {
  Index moved(index.offset());
  for (const auto& [v, factor] : index.terms()) {
    const Var var = vars_[v];  // a copy: making others moves it
    Index one = Index::Of(v == loop ? with : v);
    if (var.kind == Var::kQuotient) one = Quotient(WithLoop(var.of, loop, with), var.divisor);
    if (var.kind == Var::kRead) {
      std::vector<Index> at;
      for (const Index& i : var.at) at.push_back(WithLoop(i, loop, with));
      one = Index::Of(Read(var.ids, at, var.extent));
    }
    if (var.kind == Var::kRemainder) one = Remainder(WithLoop(var.of, loop, with), var.divisor);
    if (var.kind == Var::kNearest) one = Nearest(WithLoop(var.of, loop, with), var.divisor);
    moved = moved.Plus(one.Times(factor));
  }
  return moved;
}

// Splits off the terms that the divisor divides, and as much of the offset as leaves the rest
// non-negative. The division is exact when the rest is below the divisor. Precondition: `index` is
// not negative.
IndexSpace::Split IndexSpace::SplitBy(const Index& index, int64_t divisor) {
  Split split;
  const int64_t low = ((index.offset() % divisor) + divisor) % divisor;
  Index rest(low);
  split.quotient = Index((index.offset() - low) / divisor);
  for (const auto& [var, factor] : index.terms()) {
    const bool divides = factor % divisor == 0;
    Index& side = divides ? split.quotient : rest;
    side = side.Plus(Index::Of(var).Times(divides ? factor / divisor : factor));
  }
  const int64_t largest = Largest(rest);
  if (largest >= 0 && largest < divisor) {
    split.remainder = rest;
    return split;
  }
  const Index whole = Canonical(rest);
  split.quotient = split.quotient.Plus(Index::Of(Intern(Var::kQuotient, whole, divisor)));
  split.remainder = Index::Of(Intern(Var::kRemainder, whole, divisor));
  return split;
}

Index IndexSpace::Quotient(const Index& index, int64_t divisor) {
  return divisor == 1 ? index : SplitBy(index, divisor).quotient;
}

Index IndexSpace::Remainder(const Index& index, int64_t divisor) {
  return divisor == 1 ? Index() : SplitBy(index, divisor).remainder;
}

// Dims first..last of a box as one number, computed from the loop variable.
Index IndexSpace::Run(const BoxDims& box, size_t first, size_t last) {
  int64_t behind = 1, span = 1;
  for (size_t i = last + 1; i < box.dims.size(); ++i) behind *= box.dims[i];
  for (size_t i = first; i <= last; ++i) span *= box.dims[i];
  bool leading = true;  // all dims before the run have extent 1
  for (size_t i = 0; i < first; ++i) leading &= box.dims[i] == 1;
  Index run = Index::Of(box.loop);
  if (behind > 1) run = Index::Of(Intern(Var::kQuotient, run, behind));
  return leading ? run : Index::Of(Intern(Var::kRemainder, run, span));
}

Index IndexSpace::FoldBox(const BoxDims& box, const Index& index) {
  Index folded = index;
  const auto factor_of = [&](size_t i) { return index.FactorOf(box.vars[i]); };
  std::vector<size_t> live;  // dims of extents above 1, outermost first
  for (size_t i = 0; i < box.vars.size(); ++i) {
    if (box.vars[i] >= 0) live.push_back(i);
  }
  for (size_t end = live.size(); end > 0;) {
    size_t begin = end - 1;
    const int64_t factor = factor_of(live[begin]);
    if (factor != 0) {
      while (begin > 0 &&
             factor_of(live[begin - 1]) == factor_of(live[begin]) * box.dims[live[begin]]) {
        --begin;
      }
      for (size_t i = begin; i < end; ++i) {
        folded = folded.Plus(Index::Of(box.vars[live[i]]).Times(-factor_of(live[i])));
      }
      folded = folded.Plus(Run(box, live[begin], live[end - 1]).Times(factor));
    }
    end = begin;
  }
  return folded;
}

// The term of `index` that is the quotient of `of` by `divisor`, -1 if there is none. The quotient
// of a quotient is also looked up as a quotient of the inner dividend.
IndexVar IndexSpace::QuotientIn(const Index& index, const Index& of, int64_t divisor) const {
  const auto found = interned_.find(std::make_tuple(static_cast<int>(Var::kQuotient), of, divisor));
  if (found != interned_.end() && index.FactorOf(found->second) != 0) return found->second;
  if (of.terms().size() != 1 || of.offset() != 0 || of.terms()[0].second != 1) return -1;
  const Var& inner = vars_[of.terms()[0].first];
  if (inner.kind != Var::kQuotient) return -1;
  return QuotientIn(index, inner.of, inner.divisor * divisor);
}

// Replaces one quotient, and the remainder of the same division below it, by what was divided.
bool IndexSpace::JoinDivision(Index* index) const {
  for (const auto& [v, factor] : index->terms()) {
    const Var& remainder = vars_[v];
    if (remainder.kind != Var::kRemainder) continue;
    const IndexVar quotient = QuotientIn(*index, remainder.of, remainder.divisor);
    const int64_t above = factor * remainder.divisor;
    if (quotient < 0 || index->FactorOf(quotient) != above) continue;
    const Index divided = Index::Of(quotient).Times(above).Plus(Index::Of(v).Times(factor));
    *index = index->Plus(divided.Times(-1)).Plus(remainder.of.Times(factor));
    return true;
  }
  return false;
}

Index IndexSpace::Canonical(const Index& index) {
  std::vector<int> boxes;  // boxes whose dims it contains
  for (const auto& [v, factor] : index.terms()) {
    if (vars_[v].kind == Var::kDim) boxes.push_back(vars_[v].box);
  }
  std::sort(boxes.begin(), boxes.end());
  boxes.erase(std::unique(boxes.begin(), boxes.end()), boxes.end());
  Index folded = index;
  for (const int box : boxes) folded = FoldBox(boxes_[box], folded);
  while (JoinDivision(&folded)) continue;
  return folded;
}

std::vector<Index> IndexSpace::Canonical(const std::vector<Index>& at) {
  std::vector<Index> canonical;
  canonical.reserve(at.size());
  for (const Index& index : at) canonical.push_back(Canonical(index));
  return canonical;
}

}  // namespace sinter
