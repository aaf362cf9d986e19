#include "src/stitch/program.h"

#include <algorithm>
#include <atomic>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/base/once_list.h"
#include "src/base/status.h"
#include "src/stitch/phases.h"
#include "src/stitch/shared_reads.h"

namespace sinter {
namespace {

// Why no stitched kernel computes the op; "": it may.
absl::string_view RefusalOf(const Op& op) {
  if (op.kind == OpKind::kScaledMatmul) return "scaled products are not stitched ops";
  if (op.kind == OpKind::kGroupedMatmul) return "grouped products have kernels of their own";
  if (IsCollective(op)) return "what all ranks have is taken by kernels of its own";
  return op.kind == OpKind::kConv2d ? "convolutions have kernels of their own" : "";
}

bool DependOnM(const std::vector<Stride>& strides) {
  return std::any_of(strides.begin(), strides.end(),
                     [](const Stride& stride) { return stride.m_power != 0; });
}

// M may only be a value's first dim, and no op may take a window of rows.
absl::Status CheckOps(const Chain& body) {
  for (ValueId id = 0; id < static_cast<ValueId>(body.ops().size()); ++id) {
    const Op& op = body.op(id);
    if (!RefusalOf(op).empty()) return RefuseOp(id, op, RefusalOf(op));
    for (size_t i = 1; i < op.type.dims.size(); ++i) {
      if (!op.type.dims[i].symbolic) continue;
      return RefuseOp(
          id, op,
          absl::StrCat("axis ", i, " is M, only axis 0 may be: M must be the first dimension"));
    }
    if (DependOnM(op.strides)) return RefuseOp(id, op, "a stride depends on M");
  }
  for (const ChainOutput& output : body.outputs()) {
    if (!DependOnM(output.strides)) continue;
    return RefuseOp(output.value, body.op(output.value), "its output's stride depends on M");
  }
  return absl::OkStatus();
}

// Elements of a row of which a step is computed. The largest of a row take more shared memory than
// its sums.
constexpr int64_t kMostOfSums = 1 << 14, kMostOfLargest = 1 << 13;

// The most ops that compute a scatter's ids: each row computes them again for all rows after it.
constexpr int kMostOpsOfIds = 8;

absl::Status CheckIds(const Chain& body, ValueId scatter) {
  std::set<ValueId> seen;
  std::vector<ValueId> open = {body.op(scatter).operands[1]};
  int ops = 0;
  while (!open.empty()) {
    const ValueId id = open.back();
    open.pop_back();
    if (!seen.insert(id).second) continue;
    const Op& op = body.op(id);
    if (op.kind == OpKind::kReduce || op.kind == OpKind::kMatmul || TakesRow(op)) {
      return RefuseOp(scatter, body.op(scatter),
                      "its ids are reduced in the kernel that writes it");
    }
    const bool free = IsView(op) || op.operands.empty() || op.kind == OpKind::kCast;
    if (!free && ++ops > kMostOpsOfIds) {
      return RefuseOp(scatter, body.op(scatter),
                      absl::StrCat("its ids take more than ", kMostOpsOfIds,
                                   " ops, which each row would compute for others"));
    }
    open.insert(open.end(), op.operands.begin(), op.operands.end());
  }
  return absl::OkStatus();
}

// The rows of its steps are the units of a kernel.
absl::Status CheckSteps(const Chain& body, const StitchProgram& program) {
  for (ValueId id = 0; id < static_cast<ValueId>(body.ops().size()); ++id) {
    const Op& op = body.op(id);
    if (!TakesRow(op)) continue;
    const std::vector<Dim>& row = body.op(op.operands[0]).type.dims;
    const int64_t most = op.kind == OpKind::kTopK ? kMostOfLargest : kMostOfSums;
    if (row.back().value > most) {
      return RefuseOp(id, op,
                      absl::StrCat("a row has ", row.back().value, " elements, at most ", most,
                                   " are taken in one kernel: take parts of the row, then of "
                                   "those"));
    }
    const bool units = program.owner >= 0 && program.tile.axis < 0 && !program.whole &&
                       CutUnits(program, row).ok() &&
                       ElementsInUnit(program, row) == row.back().value;
    if (!units) return RefuseOp(id, op, "its rows are not the kernel's units");
  }
  return absl::OkStatus();
}

// A scatter is stored where its ids say, so its readers need it in memory.
absl::Status CheckScatters(const Chain& body) {
  std::set<ValueId> stored;
  for (const ChainOutput& output : body.outputs()) stored.insert(output.value);
  for (ValueId id = 0; id < static_cast<ValueId>(body.ops().size()); ++id) {
    const Op& op = body.op(id);
    for (const ValueId operand : op.operands) {
      if (body.op(operand).kind != OpKind::kScatter) continue;
      return RefuseOp(operand, body.op(operand), "is read in the kernel that writes it");
    }
    if (op.kind != OpKind::kScatter) continue;
    if (stored.count(id) == 0) {
      return RefuseOp(id, op, "is not an output of the kernel that writes it");
    }
    SINTER_RETURN_IF_ERROR(CheckIds(body, id));
  }
  return absl::OkStatus();
}

absl::Status SetHanded(const Chain& body, const std::vector<ValueId>& handed,
                       StitchProgram& program) {
  for (const ValueId id : handed) {
    if (id < 0 || static_cast<size_t>(id) >= body.ops().size()) {
      return Invalid("value ", id, " is handed over and not there");
    }
    if (!MayBeHanded(body, program, id)) {
      return RefuseOp(id, body.op(id), "is not a value that the threads of a unit hand over");
    }
  }
  program.handed = handed;
  for (ValueId id = 0; id < static_cast<ValueId>(body.ops().size()); ++id) {
    if (TakesRow(body.op(id))) program.handed.push_back(id);
  }
  std::sort(program.handed.begin(), program.handed.end());
  program.handed.erase(std::unique(program.handed.begin(), program.handed.end()),
                       program.handed.end());
  return absl::OkStatus();
}

}  // namespace

ValueId WalkedValue(const Chain& body, const StitchRoot& root) {
  const Op& op = body.op(root.value);
  if (root.kind == StitchRoot::kScatter) return op.operands[2];
  const bool step = root.kind == StitchRoot::kHand && TakesRow(op);
  const bool itself = !step && (root.kind == StitchRoot::kStore || root.kind == StitchRoot::kHand);
  return itself && op.kind != OpKind::kScatter ? root.value : op.operands[0];
}

const std::vector<Dim>& DimsOfRoot(const Chain& body, const StitchRoot& root) {
  return body.op(WalkedValue(body, root)).type.dims;
}

absl::StatusOr<Position> PositionOfRoot(const Chain& body, const StitchProgram& program,
                                        const StitchRoot& root, IndexVar unit, IndexVar element,
                                        IndexSpace& space) {
  const std::vector<Dim>& dims = DimsOfRoot(body, root);
  if (unit < 0) return PositionIn(dims, element, space);
  SINTER_ASSIGN_OR_RETURN(const UnitCut cut, CutUnits(program, dims));
  return PositionIn(cut, unit, space.SegmentOf(element, root.spread), space);
}

namespace {

std::atomic<int64_t> made_programs{0};

// The programs of a body, by owner and values handed over. Few bodies have more.
struct KeptPrograms {
  static constexpr int kMost = 16;
  explicit KeptPrograms(const Chain&) {}
  OnceList<std::pair<ValueId, std::vector<ValueId>>, StitchProgram> list;
};

absl::StatusOr<StitchProgram> WalkBody(const Chain& body, ValueId owner,
                                       const std::vector<ValueId>& handed, StitchBudget* budget) {
  made_programs.fetch_add(1, std::memory_order_relaxed);
  Step(PaceOf(budget), static_cast<int64_t>(body.ops().size()));
  SINTER_RETURN_IF_ERROR(CheckBodyOps(body));
  SINTER_RETURN_IF_ERROR(CheckOps(body));
  SINTER_RETURN_IF_ERROR(CheckScatters(body));
  StitchProgram program;
  SINTER_RETURN_IF_ERROR(SetOwner(body, owner, program));
  for (const Op& op : body.ops()) program.uses.push_back(UseOf(body, op, program));
  SINTER_RETURN_IF_ERROR(CheckSteps(body, program));
  SINTER_RETURN_IF_ERROR(SetHanded(body, handed, program));
  SINTER_RETURN_IF_ERROR(MakePhases(body, program, budget));
  MarkSerial(body, program);
  ReadBack(body, program);
  for (StitchPhase& phase : program.phases) AssignSlots(body, program, phase, PaceOf(budget));
  program.staged = StagedInputsOf(body, program, PaceOf(budget));
  program.windows = WindowRowOf(body, program);
  return program;
}

}  // namespace

absl::StatusOr<StitchProgram> MakeStitchProgram(const Chain& body, ValueId owner,
                                                const std::vector<ValueId>& handed,
                                                StitchBudget* budget) {
  if (body.ops().empty()) return WalkBody(body, owner, handed, budget);
  const KeptPrograms& kept = body.Once<KeptPrograms>();
  if (const StitchProgram* known = kept.list.Find({owner, handed})) {
    if (budget != nullptr) SINTER_RETURN_IF_ERROR(budget->Take(known->visits));
    return *known;
  }
  SINTER_ASSIGN_OR_RETURN(StitchProgram program, WalkBody(body, owner, handed, budget));
  if (kept.list.size() < KeptPrograms::kMost) kept.list.Keep({owner, handed}, program);
  return program;
}

int64_t MadeStitchPrograms() { return made_programs.load(std::memory_order_relaxed); }

}  // namespace sinter
