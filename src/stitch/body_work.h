// BodyWork: bounds the work to plan a body and the length of its source. A few ops may be reached
// at very many places: values recomputed where they are read double with every pair of reads at
// different places.
#ifndef SINTER_SRC_STITCH_BODY_WORK_H_
#define SINTER_SRC_STITCH_BODY_WORK_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/base/keep_going.h"
#include "src/chain/chain.h"
#include "src/stitch/index.h"
#include "src/stitch/precision.h"

namespace sinter {

constexpr int kMostBodyOps = 4400;
// Walks follow a value to its operands by recursion; the deepest takes less than 1 MB of stack.
constexpr int kMostBodyDepth = 512;
constexpr int64_t kMostPlaces = 1 << 14;  // different values and places in generated source
// Branches in generated source, counted again for each root: a compiler takes some 3 s for so many,
// and four times that for twice as many. A side of a concatenation is one; what ops weigh was
// measured (body_work.cc).
constexpr int64_t kMostBranches = 400;
// Branches that one op adds where it is written once; a concatenation has one for each side.
int64_t BranchesOf(const Op& op);
constexpr int64_t kMostVisits = 1 << 16;   // of values, counted again for each root
constexpr int64_t kMostPlaceTerms = 2500;  // terms in an element's place
constexpr double kMostSteps = 1e12;        // steps of nested reductions, for one element
constexpr int64_t kTermsAVisit = 16;       // terms that cost as much as a visit
constexpr int64_t kMostPlannedVisits = 1 << 20;

// What planning one plan's programs may still take: visits, and time as `pace` allows. Not
// thread-safe.
struct StitchBudget {
  int64_t visits = kMostPlannedVisits;
  Pace* pace = nullptr;  // one step a visit; null: no time limit

  // RESOURCE_EXHAUSTED when fewer than `count` are left. Throws WorkStopped.
  absl::Status Take(int64_t count);
};

inline Pace* PaceOf(const StitchBudget* budget) {
  return budget == nullptr ? nullptr : budget->pace;
}

// FAILED_PRECONDITION naming the number of ops, or the op at too great a depth.
absl::Status CheckBodyOps(const Chain& body);

// Counts the walk of one program's roots in the way that code generation follows them: a value
// computed in one side of a concatenation, or in the loop of a thread's own reduction, is computed
// again outside. Remembers what a root has visited.
class BodyWork {
 public:
  // `budget` may be null. `body` outlives it.
  BodyWork(const Chain& body, StitchBudget* budget) : body_(body), budget_(budget) {}

  void BeginRoot() { ++root_; }

  // While it lives, all visited values are direct or indirect operands of the entered one.
  class Entered {
   public:
    Entered(BodyWork* work, bool fresh, bool again) : work_(work), fresh_(fresh), again_(again) {
      if (again_) ++work_->again_;
    }
    Entered(Entered&& o) noexcept : work_(o.work_), fresh_(o.fresh_), again_(o.again_) {
      o.again_ = false;
    }
    Entered(const Entered&) = delete;
    Entered& operator=(const Entered&) = delete;
    ~Entered() {
      if (again_) --work_->again_;
    }
    bool fresh() const { return fresh_; }  // false: this root has visited it before

   private:
    BodyWork* work_;
    bool fresh_, again_;
  };

  // Enters element `at` of `id`. FAILED_PRECONDITION naming the op at which a bound of one kernel
  // is exceeded; or the errors of StitchBudget::Take.
  absl::StatusOr<Entered> Enter(ValueId id, const Position& at, const IndexSpace& space);

  int64_t visits() const { return visits_; }

  // Values entered while it lives are forgotten when it ends. `turns`: iterations of the loop that
  // it stands for.
  class Scope {
   public:
    explicit Scope(BodyWork* work, int64_t turns = 1)
        : work_(work), known_(work->inside_.size()), steps_(work->steps_) {
      work_->steps_ *= static_cast<double>(turns);
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    ~Scope() {
      work_->Forget(known_);
      work_->steps_ = steps_;
    }

   private:
    BodyWork* work_;
    const size_t known_;
    const double steps_;
  };

 private:
  using Known = std::map<std::pair<ValueId, Position>, int>;  // the last root that visited it

  void Forget(size_t known);
  absl::Status Branch(ValueId id, int64_t count);
  absl::Status Count(ValueId id, const Position& at, const IndexSpace& space);

  const Chain& body_;
  StitchBudget* const budget_;
  Known known_;
  std::vector<Known::iterator> inside_;  // in the order of entry
  int root_ = 0;
  int again_ = 0;  // entered values that an earlier root has computed
  int64_t places_ = 0, visits_ = 0, branches_ = 0;
  double steps_ = 1;  // product of the open loops' iterations
};

// The cost of one op for one element of a thread: issue slots and special function instructions.

struct OpCost {
  double issue = 0;
  double special = 0;
};

// Shape ops cost nothing, nor does what is computed as a part of a Compound; reads and writes are
// not counted. `precisions` are PrecisionsOf(body).
OpCost CostOfOp(const Chain& body, const std::vector<Precision>& precisions, ValueId id);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_BODY_WORK_H_
