#include "src/plan/description.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "src/base/format.h"
#include "src/base/launch_recipe.h"
#include "src/base/numbers.h"
#include "src/plan/family.h"
#include "src/product/search/product_load.h"

namespace sinter {
namespace {

void AddLoad(const ProductLoad& load, KernelFacts* f) {
  f->block_bytes += load.block_bytes;
  f->intake_bytes += load.intake_bytes;
  f->shared_bytes += load.shared_bytes;
  f->flop += load.flop;
  f->steps += load.steps;
  f->turns = std::max(f->turns, load.turns);
  f->busy_blocks =
      f->busy_blocks == 0 ? load.busy_blocks : std::min(f->busy_blocks, load.busy_blocks);
}

void AddLoads(const ProductSequence& p, const Schedule& s, const DataflowRow& row,
              const DeviceModel& model, KernelFacts* f) {
  const int64_t concurrent =
      row.cluster_owns_rows && !row.cooperative ? model.ResidentBlocks(s.cluster) : s.grid;
  AddLoad(LoadOf(FirstDims(p, s), p, s, s.first, concurrent, model), f);
  if (p.size() < 2) return;
  const ProductDims second = SecondDims(p, s);
  AddLoad(LoadOf(second, p, s, s.second, concurrent, model), f);
  if (row.cluster_owns_rows && row.writes_c) {
    AddLoad(LoadOf(RestDims(p, s), p, s, s.second, concurrent, model), f);
  }
  if (row.writes_c) f->c_reads = CeilDiv(p[1].n, s.second.block_n);
}

KernelFacts::Intake IntakeOf(const KernelFacts& f, double intake_us, const DeviceModel& model) {
  constexpr double kRounding = 1.001;
  if (intake_us <= kRounding * f.intake_bytes / model.sm_intake_bytes_per_us) {
    return KernelFacts::Intake::kBandwidth;
  }
  const double stages = static_cast<double>(f.steps) * model.stage_us;
  return intake_us <= kRounding * stages ? KernelFacts::Intake::kStages
                                         : KernelFacts::Intake::kRing;
}

LevelCost IntakeCost(const Prediction& p, const KernelFacts& f, const DeviceModel& model) {
  LevelCost cost{"intake", p.intake_us, AmountText(f.block_bytes, "B") + " a block",
                 RateText(model.sm_intake_bytes_per_us, "B") + " an SM", "sm_intake_bytes_per_us"};
  if (f.intake == KernelFacts::Intake::kStages) {
    cost.amount = absl::StrCat(Counted(static_cast<uint64_t>(f.steps), "stage"), " a block");
    cost.rate = absl::StrCat(model.stage_us, " us a stage");
    cost.constants = "stage_us";
  } else if (f.intake == KernelFacts::Intake::kRing) {
    absl::StrAppend(&cost.amount, ", ", SizeText(f.bytes_in_flight), " in flight");
    cost.rate = absl::StrCat(model.fill_us, " us a turn of the ring");
    cost.constants = "fill_us";
  }
  return cost;
}

LevelCost SharedCost(const Prediction& p, const KernelFacts& f, const DeviceModel& model) {
  return {"shared", p.shared_us, AmountText(f.shared_bytes, "B") + " a block",
          RateText(model.shared_bytes_per_us, "B") + " an SM", "shared_bytes_per_us"};
}

LevelCost TensorCost(const Prediction& p, const KernelFacts& f, const DeviceModel& model) {
  const double rate = model.tensor_flop_per_us / std::max(1, model.sm_count);
  LevelCost cost{"tensor", p.tensor_us, AmountText(f.flop, "FLOP") + " a block",
                 RateText(rate, "FLOP") + " an SM", "tensor_flop_per_us"};
  if (f.warpgroups == 1) absl::StrAppend(&cost.rate, ", lone warpgroup");
  return cost;
}

LevelCost FixedCost(const Prediction& p, const Schedule& s) {
  const char* waits = RangesOf(s) > 1 ? "partial sums of out, " : WritesC(s) ? "hand-over, " : "";
  return {"fixed", p.fixed_us, absl::StrCat("launch, fill, ", waits, "stores, drain"), "",
          IsCooperative(s) ? "launch_us fill_us grid_barrier_us drain_us"
                           : "launch_us fill_us drain_us"};
}

}  // namespace

const std::string& BufferNames::Of(int buffer) const {
  static const std::string none;
  const auto i = static_cast<size_t>(buffer);
  return buffer >= 0 && i < names.size() ? names[i] : none;
}

std::string BufferNames::Given(const std::vector<OperandBinding>& operands, Role role) const {
  for (const OperandBinding& b : operands) {
    const auto i = static_cast<size_t>(b.buffer);
    if (b.role == role && b.buffer >= 0 && i < given.size() && given[i]) return names[i];
  }
  return "";
}

std::string WithName(const std::string& place, const std::string& name) {
  return name.empty() ? place : absl::StrCat(name, " (", place, ")");
}

std::string KernelBuffer::Place() const {
  return buffer == kWorkspaceBuffer ? absl::StrCat("ws+", offset_bytes) : absl::StrCat("#", buffer);
}

std::string MatrixPicture::Label() const {
  const std::string argument = Argument();
  return name.empty() || name == argument ? argument : absl::StrCat(argument, " = ", name);
}

std::string ToString(const std::vector<SharedPart>& parts) {
  return absl::StrJoin(parts, " + ", [](std::string* out, const SharedPart& part) {
    absl::StrAppend(out, part.name, " ", part.count > 1 ? absl::StrCat(part.count, " x ") : "",
                    SizeText(static_cast<double>(part.bytes)));
  });
}

int KernelDescription::PartCount() const {
  size_t count = 0;
  for (const auto& alike : parts) count += alike.size();
  return static_cast<int>(count);
}

std::string LabelOf(const Op& op) {
  switch (op.kind) {
    case OpKind::kScan:
      return absl::StrCat("running ", NameOf(op.reduce));
    case OpKind::kReduce:
      return absl::StrCat("reduce ", NameOf(op.reduce));
    case OpKind::kCast:
      return absl::StrCat("cast ", NameOf(op.type.dtype));
    default:
      return std::string(NameOf(op));
  }
}

std::vector<std::string> WordsOf(const Chain& body, const std::vector<bool>& without) {
  std::vector<std::string> words, views;
  for (size_t id = 0; id < body.ops().size(); ++id) {
    const Op& op = body.ops()[id];
    if (op.kind == OpKind::kInput || op.kind == OpKind::kScalar) continue;
    if (!without.empty() && without[id]) continue;
    std::vector<std::string>& list = IsView(op) || op.kind == OpKind::kCast ? views : words;
    std::string label = LabelOf(op);
    if (std::find(list.begin(), list.end(), label) == list.end()) list.push_back(std::move(label));
  }
  return words.empty() ? views : words;
}

LevelCost DsmCost(const Prediction& p, int cluster, const DeviceModel& model) {
  const int index = std::max(0, ClusterIndex(cluster));
  LevelCost cost{"dsm", p.dsm_us, "", "", "dsm_bytes_per_us"};
  if (p.dsm_bytes <= 0) return cost;
  cost.amount = AmountText(p.dsm_bytes, "B");
  cost.rate = absl::StrCat(RateText(model.dsm_bytes_per_us[static_cast<size_t>(index)], "B"),
                           " in clusters of ", cluster);
  return cost;
}

LevelCost HbmCost(const Prediction& p, const DeviceModel& model) {
  return {"hbm", p.hbm_us, AmountText(p.hbm_bytes, "B"), RateText(model.hbm_bytes_per_us, "B"),
          "hbm_bytes_per_us"};
}

LevelCost L2Cost(const Prediction& p, const DeviceModel& model) {
  return {"l2", p.l2_us, AmountText(p.l2_bytes, "B"), RateText(model.l2_bytes_per_us, "B"),
          "l2_bytes_per_us"};
}

KernelDescription KernelFamily::Describe(const PlannedKernel& kernel, int64_t bucket,
                                         const DeviceModel&, const BufferNames& names) const {
  const KernelSpec& spec = kernel.spec;
  KernelDescription out;
  out.words = {std::string(name())};
  out.kind = std::string(name());
  out.problem = out.alike = ProblemText(spec);
  out.schedule = ScheduleText(spec);
  std::vector<std::string> reads, writes;
  for (const KernelBuffer& at : Buffers(spec, bucket)) {
    (at.write ? writes : reads)
        .push_back(absl::StrCat(WithName(at.Place(), names.Of(at.buffer)), " ", at.type));
  }
  out.lines = {{"reads", absl::StrJoin(reads, ", ")}, {"writes", absl::StrJoin(writes, ", ")}};
  const Prediction& p = kernel.prediction;
  out.sum = "together + fixed";
  out.levels = {{"together", p.total_us - p.fixed_us, "bytes, instructions and waits", "", ""},
                {"fixed", p.fixed_us, "launch", "", "launch_us"}};
  return out;
}

const std::array<LevelTerm, 7>& LevelTerms() {
  static constexpr std::array<LevelTerm, 7> kTerms = {{{"hbm", &Prediction::hbm_us},
                                                       {"l2", &Prediction::l2_us},
                                                       {"intake", &Prediction::intake_us},
                                                       {"shared", &Prediction::shared_us},
                                                       {"tensor", &Prediction::tensor_us},
                                                       {"dsm", &Prediction::dsm_us},
                                                       {"fixed", &Prediction::fixed_us}}};
  return kTerms;
}

KernelFacts FactsOf(const PlannedKernel& kernel, const DeviceModel& model) {
  const ProductBody& body = ProductOf(kernel.spec);
  const ProductSequence& p = body.sequence;
  const Schedule& s = body.schedule;
  KernelFacts f;
  if (!CheckScheduleFields(p, s).ok()) return f;
  const DataflowRow& row = RowOf(s);
  AddLoads(p, s, row, model, &f);
  f.bytes_in_flight = static_cast<double>(std::max(1, s.stages - 1) * SizesOf(p, s).stage_bytes);
  f.row_reads = row.cluster_owns_rows ? s.cluster * RangesOf(s)
                                      : CeilDiv(CeilDiv(p[0].n, s.first.block_n), TilesN(s.share));
  f.weight_reads = CeilDiv(CeilDiv(p.rows(), s.block_m), TilesM(s.share));
  f.warpgroups = s.warpgroups_m * s.warpgroups_n;
  f.intake = IntakeOf(f, kernel.prediction.intake_us, model);
  return f;
}

std::vector<LevelCost> ProductLevels(const PlannedKernel& kernel, const DeviceModel& model) {
  const Prediction& p = kernel.prediction;
  const KernelFacts f = FactsOf(kernel, model);
  const Schedule& s = ProductOf(kernel.spec).schedule;
  std::vector<LevelCost> levels = {HbmCost(p, model),       L2Cost(p, model),
                                   IntakeCost(p, f, model), SharedCost(p, f, model),
                                   TensorCost(p, f, model), DsmCost(p, s.cluster, model),
                                   FixedCost(p, s)};
  for (LevelCost& level : levels) {
    level.bound = level.level == p.bound;
  }
  return levels;
}

}  // namespace sinter
