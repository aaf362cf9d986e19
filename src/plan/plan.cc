#include "src/plan/plan.h"

#include <algorithm>
#include <atomic>
#include <map>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "src/base/codec.h"
#include "src/base/format.h"
#include "src/base/numbers.h"
#include "src/base/status.h"
#include "src/plan/family.h"
#include "src/plan/kernel_code.h"
#include "src/product/dataflow/dataflow.h"

namespace sinter {
namespace {

constexpr size_t kShownSchedules = 4;  // of a candidate

std::atomic<int64_t> computed_digests{0};

// The executed part of a kernel: its code and the places of its operands.
void WriteSpec(const KernelSpec& spec, ByteWriter& w) {
  w.U8(spec.family->number());
  w.U8(spec.batch_invariant);
  w.Bytes(ScheduleBytes(spec));
  w.U64(spec.workspace_flags_offset);
  spec.family->WriteExecuted(spec, w);
}

// "0 1024 2048": the first element of each range of K.
std::string RangesText(int64_t k, int block_k, int ranges) {
  const int64_t blocks = CeilDiv(k, block_k);
  std::string text;
  for (int i = 0; i < ranges; ++i) {
    absl::StrAppend(&text, i > 0 ? " " : "", blocks * i / ranges * block_k);
  }
  return text;
}

// A product's line, as if it had a kernel to itself.
std::string ProductLine(const ProductSequence& product, const Schedule& s,
                        const std::string& ranges) {
  if (product.front().k_is_m) {  // as many steps as a launch has, whatever the bucket
    ProductSequence any = product;
    any[0].k = 1;
    const std::string blocks = s.first.split_k > 1 ? absl::StrCat(" of ", s.block_k) : "";
    return absl::StrCat("product ", absl::BytesToHexString(any.Canonical()), " steps of M by ",
                        s.first.split_k, blocks, s.swapped ? " swapped" : "", "\n");
  }
  return absl::StrCat("product ", absl::BytesToHexString(product.Canonical()), " steps ",
                      RoundUp(product.front().StagedK(), s.block_k) / 16, " ranges ", ranges,
                      s.swapped ? " swapped" : "", "\n");
}

// Ranges of the first product's K. Ranks with gate and up apart add each other's parts.
std::string FirstRanges(const ProductSequence& p, const Schedule& s) {
  return absl::StrCat(RangesText(p.front().StagedK(), s.block_k, s.first.split_k),
                      GateRanks(s) > 1 ? " apart" : "");
}

// Ranges of the second product: of K for its ranks, or of N for the clusters.
std::string SecondRanges(const ProductSequence& p, const Schedule& s) {
  if (RowOf(s).medium == Medium::kRegister) return absl::StrCat("registers ", s.cluster);
  if (RangesOf(s) == 1) return RangesText(p.back().k, s.block_k, s.second.split_k);
  std::string text = "clusters";
  for (int i = 0; i < RangesOf(s); ++i) {
    absl::StrAppend(&text, " ", int64_t{s.cluster} * s.first.block_n * i);
  }
  return text;
}

constexpr uint32_t kCodeVersion = 2;
constexpr uint32_t kBatchInvariantCode = 256;  // a flag in addition to the family's word

// Null when there is none.
const KernelFamily* FamilyOfCode(uint32_t word) {
  if (word == kTwoProductsWord || word == kOneProductWord) return &ProductFamily();
  if (word == kStitchWord) return &StitchFamily();
  return word < kOneProductWord ? nullptr : FamilyOfNumber(word - kStitchWord);
}

}  // namespace

bool KernelSpec::operator==(const KernelSpec& o) const {
  if (family != o.family || (body == nullptr) != (o.body == nullptr)) return false;
  ByteWriter bytes, others;
  WriteSpec(*this, bytes);
  WriteSpec(o, others);
  return bytes.str() == others.str();
}

const ProductBody& ProductOf(const KernelSpec& spec) {
  static const ProductBody* const none = new ProductBody();
  const ProductBody* const body = BodyAs<ProductBody>(spec.body);
  return body == nullptr ? *none : *body;
}

std::string ProblemText(const KernelSpec& spec) { return spec.family->TextsOf(spec).problem; }

std::string ScheduleText(const KernelSpec& spec) { return spec.family->TextsOf(spec).schedule; }

std::string ScheduleBytes(const KernelSpec& spec) { return spec.family->ScheduleBytes(spec); }

std::string BodyText(const Chain& body) {
  return absl::StrCat(Counted(body.ops().size() - static_cast<size_t>(body.num_inputs()), "op"),
                      ", ", Counted(static_cast<uint64_t>(body.num_inputs()), "input"), ", ",
                      Counted(static_cast<uint64_t>(body.num_outputs()), "output"));
}

double Plan::PredictedUs() const { return PredictedUsOf(kernels); }

bool Plan::UsesM() const {
  return std::any_of(kernels.begin(), kernels.end(), [](const PlannedKernel& kernel) {
    return kernel.spec.family->TraitsOf(kernel.spec).uses_m;
  });
}

bool Plan::IsStandIn() const {
  return !kernels.empty() && kernels.front().spec.family->traits().is_stand_in;
}

bool Plan::IsBatchInvariant() const {
  return !kernels.empty() && std::all_of(kernels.begin(), kernels.end(), [](const auto& kernel) {
    return kernel.spec.batch_invariant;
  });
}

int64_t ComputedPlanDigests() { return computed_digests.load(std::memory_order_relaxed); }

Digest Plan::PlanDigest() const {
  computed_digests.fetch_add(1, std::memory_order_relaxed);
  ByteWriter w;
  w.Raw(IsStandIn() ? "sinter stand-in 2" : "sinter plan 3");
  w.I64(bucket);
  w.U64(workspace_bytes);
  w.U64(kernels.size());
  for (const PlannedKernel& kernel : kernels) WriteSpec(kernel.spec, w);
  return Sha256(w.str());
}

std::string NameInList(const Plan& plan) {
  std::vector<std::pair<std::string, int>> schedules;  // in the order of their first kernel
  std::map<std::string, size_t> known;
  for (const PlannedKernel& kernel : plan.kernels) {
    const std::string text = ScheduleText(kernel.spec);
    const auto [at, fresh] = known.try_emplace(text, schedules.size());
    if (fresh) schedules.emplace_back(text, 0);
    ++schedules[at->second].second;
  }
  std::string name = absl::StrCat(plan.IsStandIn() ? "stand-ins, " : "",
                                  Counted(plan.kernels.size(), "kernel"), ":");
  for (size_t i = 0; i < std::min(schedules.size(), kShownSchedules); i++) {
    const auto& [text, count] = schedules[i];
    absl::StrAppend(&name, count > 1 ? absl::StrCat(" ", count, " x") : "", " [", text, "]");
  }
  if (schedules.size() > kShownSchedules) {
    absl::StrAppend(&name, " and ", Counted(schedules.size() - kShownSchedules, "other schedule"));
  }
  return name;
}

int CountComputed(const Chain& body) {
  const auto computes = [](const Op& op) {
    return op.kind != OpKind::kInput && op.kind != OpKind::kScalar && op.kind != OpKind::kCast &&
           !IsView(op);
  };
  return static_cast<int>(std::count_if(body.ops().begin(), body.ops().end(), computes));
}

absl::string_view Plan::Fusion() const {
  if (IsStandIn()) return "stand-in";
  if (kernels.size() == 1) return "fused";
  const bool any = std::any_of(kernels.begin(), kernels.end(), [](const PlannedKernel& kernel) {
    return kernel.spec.family->TraitsOf(kernel.spec).takes_several_ops;
  });
  return any ? "partly fused" : "unfused";
}

std::string Plan::ToText() const {
  std::string out = FormatText("%s, %d kernels, %.2f us, digest %s%s\n", std::string(Fusion()),
                               static_cast<int>(kernels.size()), PredictedUs(), PlanDigest().Hex(),
                               IsBatchInvariant() ? "  batch-invariant" : "");
  for (const PlannedKernel& kernel : kernels) {
    absl::StrAppend(&out, "  ", ProblemText(kernel.spec), " [", ScheduleText(kernel.spec), "] ",
                    FormatText("%.2f us\n", kernel.prediction.total_us));
  }
  return absl::StrCat(out, note.empty() ? "" : "  ", note, note.empty() ? "" : "\n");
}

std::string RowOrderOfProducts(const ProductSequence& p, const Schedule& s) {
  if (p.size() == 1) return ProductLine(p, s, FirstRanges(p, s));
  return ProductLine(p.Part(0, 1), s, FirstRanges(p, s)) +
         ProductLine(p.Part(1, 1), s, SecondRanges(p, s));
}

std::string RowOrder(const KernelSpec& spec) { return spec.family->RowOrder(spec); }

std::string RowOrder(const Plan& plan) {
  std::string text;
  for (const PlannedKernel& kernel : plan.kernels) text += RowOrder(kernel.spec);
  return text;
}

absl::Status LostCode(absl::string_view what) { return DataLoss("kernel code: ", what); }

absl::StatusOr<KernelCode> CodeOf(const KernelSpec& spec) { return spec.family->Code(spec); }

KernelCode::Written KernelCode::Write() const {
  CodeBytes bytes = family->BytesOfCode(*this);
  ByteWriter w;
  w.U32(kCodeVersion);
  w.U32(bytes.word | (batch_invariant ? kBatchInvariantCode : 0));
  w.Raw(bytes.problem);
  return {w.Take(), std::move(bytes.schedule)};
}

std::string KernelCode::ProblemText() const { return family->TextsOfCode(*this).problem; }

std::string KernelCode::ScheduleText() const { return family->TextsOfCode(*this).schedule; }

std::vector<std::string> CompileOptionsOf(const KernelSpec& spec) {
  std::vector<std::string> options;
  // Otherwise the rest of a kernel decides which sums become fused multiply-adds (RowOrder).
  if (spec.batch_invariant) options.push_back("--fmad=false");
  return options;
}

absl::StatusOr<KernelCode> ReadCode(absl::string_view bytes, absl::string_view schedule) {
  ByteReader r(bytes);
  const uint32_t version = r.U32(), word = r.U32();
  if (version != kCodeVersion) return LostCode(absl::StrCat("version ", version));
  KernelCode code;
  code.batch_invariant = (word & kBatchInvariantCode) != 0;
  code.family = FamilyOfCode(word & ~kBatchInvariantCode);
  if (code.family == nullptr) return LostCode(absl::StrCat("family ", word));
  SINTER_RETURN_IF_ERROR(code.family->ReadCode(r, schedule, &code));
  SINTER_RETURN_IF_ERROR(r.Finish("kernel code"));
  const KernelCode::Written written = code.Write();
  if (written.code != bytes || written.schedule != schedule) {
    return LostCode("a field is written otherwise");
  }
  return code;
}

}  // namespace sinter
