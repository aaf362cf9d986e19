#include "src/stitch/code/stitch_source.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/substitute.h"
#include "src/base/status.h"
#include "src/stitch/code/op_text.h"
#include "src/stitch/code/phase_writer.h"
#include "src/stitch/sizes.h"

namespace sinter {
namespace {

// The pointers and sizes of one part in the text that it shares.
struct Member {
  std::vector<int> operands;   // of the whole body: its inputs, then its outputs
  std::vector<int64_t> sizes;  // numbers of its units and elements
  int blocks = 0;
};

// Parts with one text.
struct Shared {
  std::vector<std::string> pointers;  // "const float* __restrict__ in0"
  std::string text;
  std::vector<Member> members;
};

std::string OperandName(int index) { return absl::StrCat("operand", index); }

std::string PointerName(const Chain& body, size_t index) {
  const int n = static_cast<int>(index), inputs = body.num_inputs();
  return n < inputs ? absl::StrCat("in", n) : absl::StrCat("out", n - inputs);
}

class Packer {
 public:
  explicit Packer(const StitchCode& code) : code_(code) {}

  absl::Status Add(const StitchPart& part) {
    SINTER_ASSIGN_OR_RETURN(PartBody own, ExtractPart(*code_.body, part.outputs));
    StitchCode alone;
    alone.body = std::make_shared<const Chain>(std::move(own.body));
    alone.schedule = part.schedule;
    SINTER_ASSIGN_OR_RETURN(const StitchProgram program,
                            MakeStitchProgram(*alone.body, part.schedule.owner));
    Member member;
    const FrameNames names{"block", "blocks", &member.sizes};
    SINTER_ASSIGN_OR_RETURN(const std::string phases, PhaseWriter(alone, program, names).Write());
    const std::string text = UnitsText(alone, program, names) + phases;
    member.operands = own.inputs;
    for (int output : part.outputs) {
      member.operands.push_back(code_.body->num_inputs() + output);
    }
    member.blocks = part.schedule.grid;
    std::vector<std::string> pointers = PointerTypes(*alone.body);
    for (size_t i = 0; i < pointers.size(); ++i) pointers[i] += PointerName(*alone.body, i);
    Place(std::move(pointers), text, std::move(member));
    return absl::OkStatus();
  }

  // One range of blocks after another; parts of one text are neighbours.
  std::string Ranges() {
    std::string text;
    for (size_t i = 0; i < shared_.size(); ++i) {
      const int first = end_;
      const std::string inside = RangesOf(shared_[i]);
      const bool last = i + 1 == shared_.size();
      absl::StrAppend(&text, i == 0 ? "  " : " else ",
                      last ? "" : absl::StrCat("if (blockIdx.x < ", end_, "u) "), "{  // ",
                      shared_[i].members.size(), " parts from block ", first, "\n", inside, "  }");
    }
    return text + "\n";
  }

 private:
  void Place(std::vector<std::string> pointers, const std::string& text, Member member) {
    const std::string key = absl::StrCat(absl::StrJoin(pointers, ";"), "\n", text);
    const auto [at, fresh] = known_.try_emplace(key, shared_.size());
    if (fresh) shared_.push_back({std::move(pointers), text, {}});
    shared_[at->second].members.push_back(std::move(member));
  }

  std::string RangesOf(const Shared& shared) {
    std::string text;
    for (const std::string& pointer : shared.pointers) absl::StrAppend(&text, "  ", pointer, ";\n");
    for (size_t i = 0; i < shared.members.front().sizes.size(); ++i) {
      absl::StrAppend(&text, "  long long size", i, ";\n");
    }
    absl::StrAppend(&text, "  unsigned first, blocks;\n");
    std::vector<int> ends;
    for (const Member& member : shared.members) ends.push_back(end_ += member.blocks);
    absl::StrAppend(&text, Choose(shared, ends, 0, ends.size()),
                    "  const unsigned block = blockIdx.x - first;\n", shared.text);
    return text;
  }

  // Finds the member of [begin, end) that a block works for, by bisection.
  std::string Choose(const Shared& shared, const std::vector<int>& ends, size_t begin, size_t end) {
    if (end - begin == 1) return Take(shared, shared.members[begin], ends[begin]);
    const size_t middle = begin + (end - begin) / 2;
    return absl::StrCat("  if (blockIdx.x < ", ends[middle - 1], "u) {\n",
                        Choose(shared, ends, begin, middle), "  } else {\n",
                        Choose(shared, ends, middle, end), "  }\n");
  }

  static std::string Take(const Shared& shared, const Member& member, int end) {
    std::string text = "   ";
    for (size_t i = 0; i < member.operands.size(); ++i) {
      const std::string& pointer = shared.pointers[i];
      absl::StrAppend(&text, " ", pointer.substr(pointer.rfind(' ') + 1), " = ",
                      OperandName(member.operands[i]), ";");
    }
    for (size_t i = 0; i < member.sizes.size(); ++i) {
      absl::StrAppend(&text, " size", i, " = ", member.sizes[i], "ll;");
    }
    return absl::StrCat(text, " first = ", end - member.blocks, "u; blocks = ", member.blocks,
                        "u;\n");
  }

  const StitchCode& code_;
  std::vector<Shared> shared_;
  std::map<std::string, size_t> known_;  // index in shared_, by text
  int end_ = 0;                          // end of the blocks so far
};

}  // namespace

std::vector<std::string> StitchHeaders(const Chain& body) {
  const bool places =
      body.Has(OpKind::kScatter) || body.Has(OpKind::kGather) || body.Has(OpKind::kWindow);
  std::vector<std::string> headers = {places             ? "stitch/places.cuh"
                                      : NeedsCodes(body) ? "stitch/codes.cuh"
                                                         : "stitch/stitch.cuh"};
  if (HasSteps(body)) headers.push_back("stitch/row_steps.cuh");
  if (body.Has(OpKind::kRandom)) headers.push_back("stitch/random.cuh");
  return headers;
}

absl::StatusOr<std::string> StitchSource(const StitchCode& code) {
  const StitchProgram& program = *code.program;
  if (program.whole && code.schedule.cluster > 1) {
    return absl::FailedPreconditionError(
        "stitch: a cluster shares units that are parts of a reduction over everything");
  }
  SINTER_ASSIGN_OR_RETURN(const std::string phases, PhaseWriter(code, program).Write());
  const StitchSchedule& s = code.schedule;
  return absl::StrCat(
      "// ", code.Text(), "\n", IncludesText(StitchHeaders(*code.body)), "\nnamespace sinter {\n\n",
      "extern __shared__ __align__(16) unsigned char dynamic_shared[];\n\n",
      "extern \"C\" __global__ void __launch_bounds__(", s.block_threads, ", ", s.blocks_per_sm,
      ")\n", kStitchEntry, "(", StitchParameters(code, program.phases.size() > 1), ") {\n",
      StitchPrologue(code, program), phases, "}\n\n}  // namespace sinter\n");
}

absl::StatusOr<std::string> PackedSource(const StitchCode& code) {
  Packer packer(code);
  for (const StitchPart& part : code.parts) SINTER_RETURN_IF_ERROR(packer.Add(part));
  std::vector<std::string> parameters = PointerTypes(*code.body);
  for (size_t i = 0; i < parameters.size(); ++i) parameters[i] += OperandName(static_cast<int>(i));
  parameters.push_back("int m");
  return absl::Substitute(
      "// $0\n$6\nnamespace sinter {\n\n"
      "extern __shared__ __align__(16) unsigned char dynamic_shared[];\n\n"
      "extern \"C\" __global__ void __launch_bounds__($1, $2)\n$3($4) {\n"
      "  wait_for_predecessors();\n  launch_dependents();\n$5}\n\n}  // namespace sinter\n",
      code.Text(), code.schedule.block_threads, code.schedule.blocks_per_sm, kStitchEntry,
      absl::StrJoin(parameters, ",\n    "), packer.Ranges(),
      IncludesText(StitchHeaders(*code.body)));
}

namespace {

constexpr uint64_t kOperandAlignment = 16;  // bytes of the widest access

absl::Status CheckOperands(const Chain& body, const std::vector<BufferPlace>& operands) {
  const size_t want = static_cast<size_t>(body.num_inputs() + body.num_outputs());
  if (operands.size() != want) {
    return Invalid("stitch: ", operands.size(), " operands, the body has ", want);
  }
  for (const BufferPlace& operand : operands) {
    if (operand.offset_bytes % kOperandAlignment == 0) continue;
    return Invalid("stitch: offset ", operand.offset_bytes, " is not a multiple of ",
                   kOperandAlignment);
  }
  return absl::OkStatus();
}

std::vector<ArgSlot> PointersOf(const Chain& body, const std::vector<BufferPlace>& operands) {
  std::vector<ArgSlot> slots;
  for (int i = 0; i < body.num_inputs(); ++i) {
    slots.push_back(PointerSlot(operands[static_cast<size_t>(i)],
                                RowBytesOf(body.input_op(i).type, body.input_op(i).strides)));
  }
  for (int i = 0; i < body.num_outputs(); ++i) {
    slots.push_back(PointerSlot(
        operands[static_cast<size_t>(body.num_inputs() + i)],
        RowBytesOf(body.output_type(i), body.outputs()[static_cast<size_t>(i)].strides)));
  }
  return slots;
}

// The most shared memory of any part.
absl::StatusOr<int64_t> PackedSharedBytes(const StitchCode& code) {
  SINTER_RETURN_IF_ERROR(CheckParts(*code.body, code.schedule, code.parts));
  int64_t most = 0;
  for (const StitchPart& part : code.parts) {
    SINTER_ASSIGN_OR_RETURN(const PartBody own, ExtractPart(*code.body, part.outputs));
    SINTER_ASSIGN_OR_RETURN(const StitchProgram program,
                            MakeStitchProgram(own.body, part.schedule.owner));
    most = std::max(most, StitchSharedBytes(own.body, program, part.schedule));
  }
  return most;
}

absl::StatusOr<int64_t> SharedBytesOf(const StitchCode& code) {
  if (!code.parts.empty()) return PackedSharedBytes(code);
  return StitchSharedBytes(*code.body, *code.program, code.schedule);
}

// LaunchRecipe::grid_rows: the rows that the grid takes in one turn, where it takes those of the
// largest bucket; smaller ones are never launched with more rows than they have. 0 where the grid
// takes fewer, since persistent blocks were chosen; where blocks wait for one another, since no
// more would be resident; and for packed kernels, whose parts have blocks of their own.
int64_t GridRows(const StitchCode& code, int64_t grid) {
  if (code.program == nullptr || code.program->phases.size() > 1) return 0;
  const StitchProgram& program = *code.program;
  const StitchSchedule& s = code.schedule;
  int64_t of_row = 0;  // units, or elements
  if (program.owner >= 0) {
    of_row = program.units_symbolic ? program.units : 0;
  } else {
    for (const StitchLoop& loop : program.phases.front().flat) {
      if (loop.symbolic && loop.apart < 0) of_row = std::max(of_row, loop.elements);
    }
  }
  if (of_row == 0) return 0;
  const int64_t of_block = program.owner >= 0 ? s.UnitsPerBlock() : s.TurnElements();
  const int64_t rows = std::min(grid / s.cluster * of_block / of_row, kMaxExtent);
  return rows >= kLargestBucket ? rows : 0;
}

}  // namespace

int64_t RowBytesOf(const TensorType& type, const std::vector<Stride>& strides) {
  return SymbolicAxis(type.dims) == 0 ? strides[0].value * SizeOf(type.dtype) : 0;
}

absl::StatusOr<LaunchRecipe> StitchRecipe(const StitchCode& code, const StitchBinding& binding) {
  const StitchSchedule& s = code.schedule;
  SINTER_RETURN_IF_ERROR(CheckStitchFields(s));
  SINTER_RETURN_IF_ERROR(CheckOperands(*code.body, binding.operands));
  LaunchRecipe recipe;
  recipe.entry = kStitchEntry;
  recipe.grid = {static_cast<uint32_t>(binding.grid), 1, 1};
  recipe.block = {static_cast<uint32_t>(s.block_threads), 1, 1};
  recipe.cluster = {static_cast<uint32_t>(s.cluster), 1, 1};
  recipe.pdl = true;
  recipe.grid_rows = GridRows(code, binding.grid);
  SINTER_ASSIGN_OR_RETURN(const int64_t shared, SharedBytesOf(code));
  recipe.shared_bytes = static_cast<uint32_t>(shared);
  recipe.cooperative = code.program != nullptr && code.program->phases.size() > 1;
  recipe.args = PointersOf(*code.body, binding.operands);
  if (recipe.cooperative) {
    recipe.args.push_back(PointerSlot({kWorkspaceBuffer, binding.scratch_offset}, 0));
    recipe.args.push_back(PointerSlot({kWorkspaceBuffer, binding.flags_offset}, 0));
  }
  ArgSlot rows;
  rows.kind = ArgKind::kSymbolM;
  recipe.args.push_back(rows);
  return recipe;
}

}  // namespace sinter
