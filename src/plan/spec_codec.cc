#include "src/plan/spec_codec.h"

#include "absl/strings/str_cat.h"
#include "src/base/launch_recipe.h"
#include "src/base/status.h"

namespace sinter {
namespace {

absl::Status Lost(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("kernel spec: ", what));
}

void WriteProblem(const FfnProblem& p, ByteWriter& w) {
  for (int v : {p.products, int{p.gated}, static_cast<int>(p.activation), int{p.bias1},
                int{p.bias2}, static_cast<int>(p.layout), static_cast<int>(p.dtype)}) {
    w.U32(static_cast<uint32_t>(v));
  }
  for (int64_t v : {p.n, p.k, p.l, p.bucket}) w.I64(v);
}

absl::StatusOr<bool> ReadFlag(ByteReader& r) {
  const uint32_t v = r.U32();
  if (v > 1) return Lost(absl::StrCat("flag ", v, " is not 0 or 1"));
  return v == 1;
}

absl::StatusOr<FfnProblem> ReadProblem(ByteReader& r) {
  FfnProblem p;
  p.products = static_cast<int>(r.U32());
  SINTER_ASSIGN_OR_RETURN(p.gated, ReadFlag(r));
  p.activation = static_cast<Activation>(r.U32());
  SINTER_ASSIGN_OR_RETURN(p.bias1, ReadFlag(r));
  SINTER_ASSIGN_OR_RETURN(p.bias2, ReadFlag(r));
  p.layout = static_cast<Layout>(r.U32());
  p.dtype = static_cast<DType>(r.U32());
  for (int64_t* v : {&p.n, &p.k, &p.l, &p.bucket}) *v = r.I64();
  return p;
}

absl::StatusOr<OperandBinding> ReadBinding(ByteReader& r) {
  const uint32_t role = r.U32();
  OperandBinding b;
  const int64_t buffer = r.I64();
  b.offset_bytes = r.U64();
  b.row_stride = r.I64();
  if (!r.ok()) return Lost("truncated binding");
  if (role >= static_cast<uint32_t>(Role::kCount)) return Lost(absl::StrCat("role ", role));
  if (buffer < kWorkspaceBuffer || buffer >= kMaxPlanBuffers) {
    return Lost(absl::StrCat("buffer ", buffer, " is not in -1..", kMaxPlanBuffers - 1));
  }
  if (b.offset_bytes > kMaxOffset) return Lost(absl::StrCat("offset ", b.offset_bytes));
  if (b.row_stride < 0 || b.row_stride > int64_t{1} << 40) {
    return Lost(absl::StrCat("row stride ", b.row_stride));
  }
  b.role = static_cast<Role>(role);
  b.buffer = static_cast<int>(buffer);
  return b;
}

absl::Status ReadBindings(ByteReader& r, KernelSpec& spec) {
  const uint32_t count = r.U32();
  if (count > static_cast<uint32_t>(Role::kCount)) return Lost(absl::StrCat(count, " operands"));
  uint32_t seen = 0;
  for (uint32_t i = 0; i < count; i++) {
    SINTER_ASSIGN_OR_RETURN(OperandBinding b, ReadBinding(r));
    const uint32_t bit = 1u << static_cast<uint32_t>(b.role);
    if (seen & bit) return Lost(absl::StrCat("role ", NameOf(b.role), " is bound twice"));
    seen |= bit;
    spec.operands.push_back(b);
  }
  return absl::OkStatus();
}

absl::StatusOr<KernelSpec> ReadStitchSpec(ByteReader& r, StitchBudget* budget) {
  KernelSpec spec;
  spec.family = KernelFamily::kStitch;
  SINTER_ASSIGN_OR_RETURN(StitchSpec stitch, ReadStitch(r, budget));
  spec.stitch = std::make_shared<const StitchSpec>(std::move(stitch));
  spec.workspace_flags_offset = r.U64();
  if (!r.ok()) return Lost("truncated");
  if (spec.workspace_flags_offset > kMaxOffset) return Lost("barrier offset");
  return spec;
}

constexpr uint32_t kScalesFollow = 256;

bool HasConstants(const FfnProblem& p) {
  return p.scaling1.constant != 1 || p.scaling2.constant != 1;
}

// Behind a product's operands, a word: bit 0 constant weights, bit 1 constant rows, bits 2 and 3
// the residual, 4 and 5 the first product's row factor, 6 and 7 the second's; bit 8 says that both
// products' constants follow.
void WriteFlags(const KernelSpec& spec, ByteWriter& w) {
  const FfnProblem& p = spec.problem;
  w.U32(static_cast<uint32_t>(
      spec.constant_weights | spec.constant_rows << 1 | static_cast<int>(p.residual) << 2 |
      static_cast<int>(p.scaling1.rows) << 4 | static_cast<int>(p.scaling2.rows) << 6 |
      (HasConstants(p) ? kScalesFollow : 0)));
  if (!HasConstants(p)) return;
  w.F64(p.scaling1.constant);
  w.F64(p.scaling2.constant);
}

absl::Status ReadFlags(ByteReader& r, KernelSpec& spec) {
  const uint32_t flags = r.U32();
  if (flags >= 2 * kScalesFollow) {
    return Lost(absl::StrCat("flags ", flags, " are not below ", 2 * kScalesFollow));
  }
  FfnProblem& p = spec.problem;
  spec.constant_weights = (flags & 1) != 0;
  spec.constant_rows = (flags & 2) != 0;
  p.residual = static_cast<Residual>(flags >> 2 & 3);
  p.scaling1.rows = static_cast<RowFactor>(flags >> 4 & 3);
  p.scaling2.rows = static_cast<RowFactor>(flags >> 6 & 3);
  if ((flags & kScalesFollow) == 0) return absl::OkStatus();
  p.scaling1.constant = static_cast<float>(r.F64());
  p.scaling2.constant = static_cast<float>(r.F64());
  return absl::OkStatus();
}

constexpr uint32_t kBatchInvariant = 256;

}  // namespace

uint32_t FamilyWord(KernelFamily family, bool batch_invariant) {
  return static_cast<uint32_t>(family) | (batch_invariant ? kBatchInvariant : 0);
}

absl::Status ReadFamilyWord(uint32_t word, KernelFamily* family, bool* batch_invariant) {
  const uint32_t number = word & ~kBatchInvariant;
  if (number < 1 || number > 3) {
    return Lost(absl::StrCat("family ", number, " is not 1 to 3"));
  }
  *family = static_cast<KernelFamily>(number);
  *batch_invariant = number != word;
  return absl::OkStatus();
}

void WriteSpec(const KernelSpec& spec, ByteWriter& w) {
  w.U32(FamilyWord(spec.family, spec.batch_invariant));
  if (spec.family == KernelFamily::kStitch) {
    WriteStitch(*spec.stitch, w);
    w.U64(spec.workspace_flags_offset);
    return;
  }
  WriteProblem(spec.problem, w);
  w.Bytes(spec.schedule.Canonical());
  w.U32(static_cast<uint32_t>(spec.operands.size()));
  for (const OperandBinding& b : spec.operands) {
    w.U32(static_cast<uint32_t>(b.role));
    w.I64(b.buffer);
    w.U64(b.offset_bytes);
    w.I64(b.row_stride);
  }
  w.U64(spec.workspace_flags_offset);
  WriteFlags(spec, w);
}

absl::StatusOr<KernelSpec> ReadSpec(ByteReader& r, StitchBudget* budget) {
  KernelSpec spec;
  bool batch_invariant = false;
  SINTER_RETURN_IF_ERROR(ReadFamilyWord(r.U32(), &spec.family, &batch_invariant));
  if (spec.family == KernelFamily::kStitch) {
    SINTER_ASSIGN_OR_RETURN(spec, ReadStitchSpec(r, budget));
    spec.batch_invariant = batch_invariant;
    return spec;
  }
  spec.batch_invariant = batch_invariant;
  SINTER_ASSIGN_OR_RETURN(spec.problem, ReadProblem(r));
  SINTER_ASSIGN_OR_RETURN(spec.schedule, Schedule::FromCanonical(r.Bytes()));
  SINTER_RETURN_IF_ERROR(ReadBindings(r, spec));
  spec.workspace_flags_offset = r.U64();
  SINTER_RETURN_IF_ERROR(ReadFlags(r, spec));
  if (!r.ok()) return Lost("truncated");
  if (spec.workspace_flags_offset > kMaxOffset) return Lost("flags offset");
  const absl::Status fits = CheckScheduleFields(spec.problem, spec.schedule);
  if (!fits.ok()) return Lost(fits.message());
  if ((spec.family == KernelFamily::kGemm) != (spec.problem.products == 1)) {
    return Lost(
        absl::StrCat("family ", NameOf(spec.family), " with ", spec.problem.products, " products"));
  }
  return spec;
}

}  // namespace sinter
