#include "src/codegen/stitch/stitch_source.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/substitute.h"
#include "src/base/status.h"
#include "src/codegen/stitch/emitter.h"
#include "src/codegen/stitch/index_text.h"
#include "src/codegen/stitch/keeping.h"
#include "src/codegen/stitch/op_text.h"
#include "src/codegen/stitch/pass_writer.h"
#include "src/plan/stitch/sizes.h"

namespace sinter {
namespace {

const char* StoredName(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "float";
    case DType::kS32:
      return "int";
    case DType::kPred:
    case DType::kE4M3:
      return "unsigned char";
    default:
      return "u16";
  }
}

// Elements of one kind of pass in a phase, and their loop variable.
struct ElementLoop {
  PassShape shape;
  IndexVar var;
};

// Writes the phases. Runs twice: what passes share is known after the first time.
class KernelWriter {
 public:
  KernelWriter(const StitchSpec& spec, const StitchProgram& program)
      : spec_(spec), program_(program), emitter_(spec.body, program) {
    uint64_t scratch_bytes = 0;
    columns_ = ColumnPlaces(spec.body, program, spec.schedule, &scratch_bytes);
  }

  absl::StatusOr<std::string> Write() {
    SINTER_RETURN_IF_ERROR(Run(nullptr).status());
    const std::vector<Used> uses = std::move(uses_);
    return Run(&uses);
  }

 private:
  // `uses`: of the first run, by phase.
  absl::StatusOr<std::string> Run(const std::vector<Used>* uses) {
    std::string text;
    uses_.clear();
    passes_ = 0;
    for (size_t i = 0; i < program_.phases.size(); ++i) {
      const Used* used = uses == nullptr ? nullptr : &(*uses)[i];
      SINTER_ASSIGN_OR_RETURN(const std::string phase, Phase(program_.phases[i], used));
      absl::StrAppend(&text, "  {\n", phase, "  }\n");
    }
    return text;
  }

  absl::StatusOr<std::string> Phase(const StitchPhase& phase, const Used* used) {
    emitter_.StartUses();
    emitter_.OpenScope();
    absl::Status status;
    if (!phase.loops.empty()) status.Update(Units(phase, used));
    for (const StitchLoop& loop : phase.flat) {
      if (status.ok()) status.Update(Flat(loop, used));
    }
    std::string text = emitter_.CloseScope();
    SINTER_RETURN_IF_ERROR(status);
    uses_.push_back(emitter_.used());
    std::string columns;
    for (const ColumnPlace& place : columns_) {
      if (IsIn(phase, place.value)) absl::StrAppend(&columns, ColumnDeclaration(place));
    }
    absl::StrAppend(&text, JoinColumns(phase));
    return absl::StrCat(columns, text);
  }

  static bool IsIn(const StitchPhase& phase, ValueId column) {
    for (const StitchLoop& loop : phase.loops) {
      for (const StitchRoot& root : loop.roots) {
        if (root.kind == StitchRoot::kColumn && root.value == column) return true;
      }
    }
    return false;
  }

  ElementLoop& LoopFor(const PassShape& shape) {
    for (ElementLoop& known : element_loops_) {
      if (known.shape.flat == shape.flat && known.shape.elements == shape.elements &&
          known.shape.width == shape.width && known.shape.symbolic == shape.symbolic) {
        return known;
      }
    }
    const IndexVar var = emitter_.space().AddLoop(
        shape.flat ? "n" : "i", shape.symbolic ? 0 : shape.elements, kElementDepth);
    element_loops_.push_back({shape, var});
    return element_loops_.back();
  }

  absl::Status Units(const StitchPhase& phase, const Used* used) {
    const StitchSchedule& s = spec_.schedule;
    emitter_.ForgetRows();
    Kept kept;
    if (used != nullptr) {
      kept = Choose(*used, s.keep_inputs, s.keep_values);
      SINTER_RETURN_IF_ERROR(ComputeAlike(*used, kept));
    }
    emitter_.SetKept(kept);
    emitter_.OpenScope();
    Preload(kept, false);
    absl::Status status;
    for (const StitchLoop& loop : phase.loops) {
      if (!status.ok()) break;
      const PassShape shape = ShapeOf(spec_.body, s, loop, false);
      PassWriter writer(spec_, program_, emitter_);
      status.Update(writer.Write(loop, shape, LoopFor(shape).var, passes_++));
    }
    const std::string inside = emitter_.CloseScope();
    SINTER_RETURN_IF_ERROR(status);
    emitter_.Append(absl::StrCat(UnitLoopText(phase), inside, "  }\n"));
    return absl::OkStatus();
  }

  // What every unit reads alike, computed once for all of a thread's elements; then it is kept.
  absl::Status ComputeAlike(const Used& used, Kept& kept) {
    if (!spec_.schedule.keep_alike) return absl::OkStatus();
    std::map<ElementKey, std::string> names;
    for (const ElementLoop& loop : element_loops_) {
      if (loop.shape.flat) continue;
      emitter_.SetKept(Kept());
      emitter_.BeginPass(loop.var, loop.shape.width, -1);
      emitter_.OpenScope();
      emitter_.OpenScope();
      std::string declared;
      absl::Status status;
      for (const auto& [key, passes] : used.alike) {
        if (!Walks(key, loop.var)) continue;
        const std::string name = emitter_.NewName("alike");
        const Op& op = spec_.body.op(key.first);
        names[key] = name;
        if (op.kind == OpKind::kInput) {
          // Only read: what waits for the read comes later.
          absl::StrAppend(&declared, "  ", PackDeclaration(op, name, loop.shape));
          emitter_.Add(PackRead(key, op, name, loop));
          continue;
        }
        const absl::StatusOr<Emitted> value = emitter_.Pull(key.first, key.second);
        status.Update(value.status());
        if (!status.ok()) break;
        emitter_.Add(absl::StrCat(emitter_.EachText(), name, "[j][e] = ", value->Each(), ";"));
        absl::StrAppend(&declared, "  ", WordName(op.type.dtype), " ", name, "[", loop.shape.turns,
                        "][", loop.shape.width, "];\n");
      }
      const std::string inside = emitter_.CloseScope(), around = emitter_.CloseScope();
      SINTER_RETURN_IF_ERROR(status);
      if (declared.empty()) continue;
      emitter_.Append(
          absl::StrCat(declared, around, AroundElements(loop.shape, spec_.schedule, inside)));
    }
    kept.alike = std::move(names);
    for (const auto& [key, name] : kept.alike) kept.inputs.erase(key);
    return absl::OkStatus();
  }

  absl::Status Flat(const StitchLoop& loop, const Used* used) {
    const StitchSchedule& s = spec_.schedule;
    const PassShape shape = ShapeOf(spec_.body, s, loop, true);
    const IndexVar element = LoopFor(shape).var;
    Kept kept;
    if (used != nullptr) kept = Choose(ReadBy(*used, passes_), true, false);
    emitter_.SetKept(kept);
    emitter_.OpenScope();
    Preload(kept, true);
    PassWriter writer(spec_, program_, emitter_);
    const absl::Status status = writer.Write(loop, shape, element, passes_++);
    const std::string inside = emitter_.CloseScope();
    SINTER_RETURN_IF_ERROR(status);
    const int64_t tile = int64_t{s.block_threads} * shape.width * shape.turns;
    emitter_.Append(absl::Substitute(
        "  for (long long base = blockIdx.x * $0ll, count = $1; base < count;\n"
        "       base += gridDim.x * $0ll) {\n    constexpr bool live = true;\n$2  }\n",
        tile,
        shape.symbolic ? absl::StrCat(shape.elements, "ll * m")
                       : absl::StrCat(shape.elements, "ll"),
        inside));
    return absl::OkStatus();
  }

  static Used ReadBy(const Used& used, int pass) {
    Used some;
    for (const auto& [key, passes] : used.inputs) {
      if (passes.count(pass) > 0) some.inputs[key] = {pass};
    }
    return some;
  }

  // Of inputs, those that a unit reads for itself.
  Kept Choose(const Used& used, bool inputs, bool values) {
    Kept kept;
    for (const auto& [key, passes] : used.inputs) {
      if (inputs && (program_.owner < 0 || OfUnit(key))) {
        kept.inputs[key] = emitter_.NewName("kept");
      }
    }
    if (!values) return kept;
    for (const ElementKey& key : ValuesWorthKeeping(spec_.body, used)) {
      kept.values[key] = emitter_.NewName("kept");
    }
    return kept;
  }

  static std::string PackDeclaration(const Op& input, const std::string& name,
                                     const PassShape& shape) {
    return absl::Substitute("Pack<$0, $1> $2[$3];\n", ElementTypeName(input.type.dtype),
                            shape.width, name, shape.turns);
  }

  std::string PackRead(const ElementKey& key, const Op& input, const std::string& name,
                       const ElementLoop& loop) {
    const Index address = emitter_.Address(key.second, input.strides);
    return absl::Substitute("$0[j] = load_pack<$1, $2>(in$3 + $4);", name,
                            ElementTypeName(input.type.dtype), loop.shape.width, input.input,
                            IndexText(emitter_.space(), address, loop.var, false));
  }

  // Declares what is kept and reads inputs, all of a thread's reads at once.
  void Preload(const Kept& kept, bool flat) {
    for (const ElementLoop& loop : element_loops_) {
      if (loop.shape.flat != flat) continue;
      std::string reads;
      for (const auto& [key, name] : kept.inputs) {
        if (!Walks(key, loop.var)) continue;
        const Op& op = spec_.body.op(key.first);
        emitter_.Append(absl::StrCat("    ", PackDeclaration(op, name, loop.shape)));
        absl::StrAppend(&reads, "        ", PackRead(key, op, name, loop), "\n");
      }
      if (!reads.empty()) emitter_.Append(AroundElements(loop.shape, spec_.schedule, reads));
      for (const auto& [key, name] : kept.values) {
        if (!Walks(key, loop.var)) continue;
        emitter_.Add(absl::StrCat(WordName(spec_.body.op(key.first).type.dtype), " ", name, "[",
                                  loop.shape.turns, "][", loop.shape.width, "];"));
      }
    }
  }

  bool OfUnit(const ElementKey& key) {
    return emitter_.space().MovesWith(
        emitter_.Address(key.second, spec_.body.op(key.first).strides), emitter_.unit());
  }

  // Whether an element's position moves with a loop variable.
  bool Walks(const ElementKey& key, IndexVar var) {
    return std::any_of(key.second.begin(), key.second.end(),
                       [&](const Index& index) { return emitter_.space().MovesWith(index, var); });
  }

  // Without row reductions nothing waits inside a unit, so the reads of several may be under way.
  std::string UnitLoopText(const StitchPhase& phase) const {
    const StitchSchedule& s = spec_.schedule;
    const int at_once = UnitsAtOnce(spec_.body, s, phase);
    const int units = s.UnitsPerBlock();
    const std::string first = s.cluster > 1 ? absl::StrCat("blockIdx.x / ", s.cluster)
                                            : absl::StrCat("blockIdx.x * ", units, "ll");
    const std::string step = s.cluster > 1 ? absl::StrCat("gridDim.x / ", s.cluster)
                                           : absl::StrCat("gridDim.x * ", units, "ll");
    const std::string loop =
        absl::Substitute("$2  for (long long base = $0; base < units; base += $1) {\n", first, step,
                         at_once == 1 ? "" : absl::StrCat("  #pragma unroll ", at_once, "\n"));
    if (units == 1) {
      return absl::StrCat(loop, "    constexpr bool live = true;\n    const long long u = base;\n");
    }
    return absl::Substitute(
        "$0    const long long mine = base + static_cast<int>(threadIdx.x) / $1;\n"
        "    const bool live = mine < units;\n    const long long u = live ? mine : units - 1;\n",
        loop, s.unit_threads);
  }

  const StitchLoop* LoopOfColumn(ValueId column) const {
    for (const StitchPhase& phase : program_.phases) {
      for (const StitchLoop& loop : phase.loops) {
        for (const StitchRoot& root : loop.roots) {
          if (root.kind == StitchRoot::kColumn && root.value == column) return &loop;
        }
      }
    }
    return nullptr;
  }

  std::string ColumnDeclaration(const ColumnPlace& place) {
    const Op& op = spec_.body.op(place.value);
    const PassShape shape = ShapeOf(spec_.body, spec_.schedule, *LoopOfColumn(place.value), false);
    const char* word = WordName(op.type.dtype);
    return absl::Substitute(
        "  $0 $1[$2][$3];\n  #pragma unroll\n  for (int j = 0; j < $2; ++j)\n"
        "    SINTER_EACH($3) $1[j][e] = $4::empty($0{});\n",
        word, ColumnName(place.value), shape.turns, shape.width, JoinName(op.reduce));
  }

  std::string JoinColumns(const StitchPhase& phase) {
    const StitchSchedule& s = spec_.schedule;
    std::string leave, join;
    for (const ColumnPlace& place : columns_) {
      if (!IsIn(phase, place.value)) continue;
      const Op& op = spec_.body.op(place.value);
      const PassShape shape =
          ShapeOf(spec_.body, spec_.schedule, *LoopOfColumn(place.value), false);
      const char* word = WordName(op.type.dtype);
      const std::string name = ColumnName(place.value), joiner = JoinName(op.reduce);
      absl::StrAppend(&leave,
                      absl::Substitute("  leave_columns<$0, $1, $2, $3, $9, $4, $5, $6>($7, "
                                       "reinterpret_cast<$1*>(shared_columns),\n"
                                       "      reinterpret_cast<$1*>(scratch + $8));\n",
                                       joiner, word, s.block_threads, s.unit_threads, shape.turns,
                                       shape.width, place.columns, name, place.parts, s.cluster));
      absl::StrAppend(
          &join,
          absl::Substitute(
              "  join_columns<$0, $1, $2, $7, $3>(reinterpret_cast<const $1*>(scratch + $4),\n"
              "      reinterpret_cast<$1*>(shared_columns), reinterpret_cast<$1*>(scratch + "
              "$5), $6);\n",
              joiner, word, s.block_threads, place.columns, place.parts, place.results,
              op.reduce == ReduceKind::kMean ? "1.0f / static_cast<float>(units)" : "1",
              s.cluster));
      emitter_.SetColumn(place.value, absl::Substitute("reinterpret_cast<const $0*>(scratch + $1)",
                                                       word, place.results));
    }
    if (leave.empty()) return "";
    return absl::StrCat(leave, "  grid_barrier(barrier);\n", join, "  grid_barrier(barrier);\n");
  }

  const StitchSpec& spec_;
  const StitchProgram& program_;
  StitchEmitter emitter_;
  std::vector<ColumnPlace> columns_;
  std::vector<ElementLoop> element_loops_;
  std::vector<Used> uses_;
  int passes_ = 0;
};

std::string Parameters(const StitchSpec& spec, bool phases) {
  std::vector<std::string> list;
  std::vector<bool> aliased(static_cast<size_t>(spec.body.num_inputs()));
  for (const ChainOutput& output : spec.body.outputs()) {
    if (output.alias_input >= 0) aliased[static_cast<size_t>(output.alias_input)] = true;
  }
  for (int i = 0; i < spec.body.num_inputs(); ++i) {
    list.push_back(absl::StrCat("const ", StoredName(spec.body.input_op(i).type.dtype), "* ",
                                aliased[static_cast<size_t>(i)] ? "" : "__restrict__ ", "in", i));
  }
  for (int i = 0; i < spec.body.num_outputs(); ++i) {
    const bool alias = spec.body.outputs()[static_cast<size_t>(i)].alias_input >= 0;
    list.push_back(absl::StrCat(StoredName(spec.body.output_type(i).dtype), "* ",
                                alias ? "" : "__restrict__ ", "out", i));
  }
  if (phases) {
    list.push_back("unsigned char* scratch");
    list.push_back("u32* barrier");
  }
  list.push_back("int m");
  return absl::StrJoin(list, ",\n    ");
}

std::string Prologue(const StitchSpec& spec, const StitchProgram& program) {
  const StitchSchedule& s = spec.schedule;
  std::string text;
  if (s.cluster > 1) {
    absl::StrAppend(&text, "  const int rank = static_cast<int>(cluster_rank());\n",
                    "  cluster_arrive_relaxed();\n  cluster_wait();\n");
  }
  absl::StrAppend(&text, "  launch_dependents();\n  wait_for_predecessors();\n");
  if (program.owner < 0) return text;
  absl::StrAppend(
      &text,
      absl::Substitute(
          "  using Group = UnitGroup<$0, $1, $2, $3>;\n"
          "  Group group(reinterpret_cast<u32*>(dynamic_shared));\n"
          "  unsigned char* const shared_columns = dynamic_shared + Group::kScratchBytes;\n"
          "  const int t = static_cast<int>(threadIdx.x) % $1;\n  const long long units = $4;\n",
          s.block_threads, s.unit_threads, s.cluster, std::max(1, RowSlots(program)),
          program.units_symbolic ? absl::StrCat(program.units, "ll * m")
                                 : absl::StrCat(program.units, "ll")));
  return text;
}

}  // namespace

absl::StatusOr<std::string> StitchSource(const StitchSpec& spec, const StitchProgram& program) {
  SINTER_ASSIGN_OR_RETURN(const std::string phases, KernelWriter(spec, program).Write());
  const StitchSchedule& s = spec.schedule;
  return absl::StrCat(
      "// ", s.ToString(), "\n#include \"stitch/stitch.cuh\"\n\nnamespace sinter {\n\n",
      "extern __shared__ __align__(16) unsigned char dynamic_shared[];\n\n",
      "extern \"C\" __global__ void __launch_bounds__(", s.block_threads, ", ", s.blocks_per_sm,
      ")\n", kStitchEntry, "(", Parameters(spec, program.phases.size() > 1), ") {\n",
      Prologue(spec, program), phases, "}\n\n}  // namespace sinter\n");
}

}  // namespace sinter
