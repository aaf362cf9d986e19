// KernelCode: what is compiled. KernelBinding: what a kernel of a plan makes of it: buffers,
// offsets, rows and grid. A KernelSpec is the two: kernels of equal code are compiled, stored and
// loaded once, however many positions of plans they have.
#ifndef SINTER_SRC_PLAN_KERNEL_CODE_H_
#define SINTER_SRC_PLAN_KERNEL_CODE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "src/plan/plan.h"
#include "src/plan/stitch/code.h"

namespace sinter {

// What source holds as literals of a matrix that a kernel reaches through a pointer, and not
// through a tensor map.
struct RowLayout {
  int64_t stride = 0;    // elements between rows; 0 without such a matrix
  bool aligned = false;  // 16-byte groups of columns lie on 16 bytes, from a buffer that does
  bool operator==(const RowLayout& o) const { return stride == o.stride && aligned == o.aligned; }
};

// Generated source is a function of this alone. Immutable once made; any thread may read it.
struct KernelCode {
  KernelFamily family = KernelFamily::kGemm;
  bool batch_invariant = false;  // KernelSpec::batch_invariant: a compiler option, not the source
  // Of families kChain and kGemm.
  ProductSequence sequence;  // M is symbolic: its m is 0
  Schedule schedule;         // its grid is 0
  bool constant_weights = true;
  RowLayout out, residual;
  std::shared_ptr<const StitchCode> stitch;  // of family kStitch, which uses nothing else

  // Versioned bytes without the schedule: equal bytes beside equal ScheduleBytes, equal source.
  std::string Bytes() const;
  std::string ScheduleBytes() const;
  // One line each: "gated_ffn n=3072 k=1024 l=1024 act=silu layout=oi dtype=bf16", and the schedule
  // without its grid.
  std::string ProblemText() const;
  std::string ScheduleText() const;
};

// What the launch of a kernel needs beside its code.
struct KernelBinding {
  std::vector<OperandBinding> operands;        // of families kChain and kGemm
  std::vector<StitchOperand> stitch_operands;  // of family kStitch: StitchSpec::operands
  int64_t rows = 0;                            // most rows of a launch; 0 of family kStitch
  bool constant_rows = false;                  // a launch has that many, whatever its m is
  int grid = 1;                                // blocks
  uint64_t flags_offset = 0;                   // KernelSpec::workspace_flags_offset
  uint64_t scratch_offset = 0;                 // StitchSpec::scratch_offset
};

// INVALID_ARGUMENT or FAILED_PRECONDITION for a stitched kernel without a body, or whose body its
// schedule cannot compute. Copies no body.
absl::StatusOr<KernelCode> CodeOf(const KernelSpec& spec);
KernelBinding BindingOf(const KernelSpec& spec);

// What Bytes and ScheduleBytes wrote; for people to read, not to generate from. DATA_LOSS on
// damage. Trusts nothing.
absl::StatusOr<KernelCode> ReadCode(absl::string_view bytes, absl::string_view schedule);

// The operand of a role; null when there is none.
const OperandBinding* FindOperand(const std::vector<OperandBinding>& operands, Role role);

}  // namespace sinter

#endif  // SINTER_SRC_PLAN_KERNEL_CODE_H_
