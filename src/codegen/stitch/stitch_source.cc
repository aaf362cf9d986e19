#include "src/codegen/stitch/stitch_source.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "src/base/status.h"
#include "src/codegen/stitch/column_text.h"
#include "src/codegen/stitch/emitter.h"
#include "src/codegen/stitch/index_text.h"
#include "src/codegen/stitch/keeping.h"
#include "src/codegen/stitch/kernel_frame.h"
#include "src/codegen/stitch/op_text.h"
#include "src/codegen/stitch/pass_writer.h"

namespace sinter {
namespace {

// Elements of one kind of pass in a phase, and their loop variable.
struct ElementLoop {
  PassShape shape;
  IndexVar var;
};

// Writes the phases. Runs twice: what passes share is known after the first time.
class KernelWriter {
 public:
  KernelWriter(const StitchSpec& spec, const StitchProgram& program)
      : spec_(spec), program_(program), emitter_(spec.body, program), columns_(spec, program) {}

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
    const std::string text = emitter_.CloseScope();
    SINTER_RETURN_IF_ERROR(status);
    uses_.push_back(emitter_.used());
    return absl::StrCat(columns_.Declarations(phase), text, columns_.Join(phase, emitter_));
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
    emitter_.Append(absl::StrCat(UnitLoopText(spec_, phase), inside, "  }\n"));
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

  const StitchSpec& spec_;
  const StitchProgram& program_;
  StitchEmitter emitter_;
  const ColumnText columns_;
  std::vector<ElementLoop> element_loops_;
  std::vector<Used> uses_;
  int passes_ = 0;
};

}  // namespace

absl::StatusOr<std::string> StitchSource(const StitchSpec& spec, const StitchProgram& program) {
  SINTER_ASSIGN_OR_RETURN(const std::string phases, KernelWriter(spec, program).Write());
  const StitchSchedule& s = spec.schedule;
  return absl::StrCat(
      "// ", s.ToString(), "\n#include \"stitch/stitch.cuh\"\n\nnamespace sinter {\n\n",
      "extern __shared__ __align__(16) unsigned char dynamic_shared[];\n\n",
      "extern \"C\" __global__ void __launch_bounds__(", s.block_threads, ", ", s.blocks_per_sm,
      ")\n", kStitchEntry, "(", StitchParameters(spec, program.phases.size() > 1), ") {\n",
      StitchPrologue(spec, program), phases, "}\n\n}  // namespace sinter\n");
}

}  // namespace sinter
