#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/substitute.h"
#include "src/stitch/code/op_text.h"
#include "src/stitch/code/stitch_source.h"
#include "src/stitch/sizes.h"

namespace sinter {

std::string FrameNames::Count(int64_t count, bool times_m) const {
  std::string text = absl::StrCat(count, "ll");
  if (sizes != nullptr) {
    text = absl::StrCat("size", sizes->size());
    sizes->push_back(count);
  }
  return times_m ? text + " * m" : text;
}

bool UnitsAreInts(const StitchProgram& program) {
  constexpr int64_t kMost = int64_t{1} << 30;
  return !program.units_symbolic && program.units <= kMost;
}

std::vector<std::string> PointerTypes(const Chain& body) {
  std::vector<bool> aliased(static_cast<size_t>(body.num_inputs()));
  for (const ChainOutput& output : body.outputs()) {
    if (output.alias_input >= 0) aliased[static_cast<size_t>(output.alias_input)] = true;
  }
  std::vector<std::string> types;
  for (int i = 0; i < body.num_inputs(); ++i) {
    types.push_back(absl::StrCat("const ", StoredName(body.input_op(i).type.dtype), "* ",
                                 aliased[static_cast<size_t>(i)] ? "" : "__restrict__ "));
  }
  for (int i = 0; i < body.num_outputs(); ++i) {
    const bool alias = body.outputs()[static_cast<size_t>(i)].alias_input >= 0;
    types.push_back(
        absl::StrCat(StoredName(body.output_type(i).dtype), "* ", alias ? "" : "__restrict__ "));
  }
  return types;
}

std::string StitchParameters(const StitchCode& code, bool phases) {
  std::vector<std::string> list = PointerTypes(*code.body);
  const int inputs = code.body->num_inputs();
  for (size_t i = 0; i < list.size(); ++i) {
    const int n = static_cast<int>(i);
    absl::StrAppend(&list[i], n < inputs ? "in" : "out", n < inputs ? n : n - inputs);
  }
  if (phases) {
    list.push_back("unsigned char* scratch");
    list.push_back("u32* barrier");
  }
  list.push_back("int m");
  return absl::StrJoin(list, ",\n    ");
}

std::string StitchPrologue(const StitchCode& code, const StitchProgram& program) {
  const StitchSchedule& s = code.schedule;
  std::string text;
  if (s.cluster > 1) {
    absl::StrAppend(&text, "  const int rank = static_cast<int>(cluster_rank());\n",
                    "  cluster_arrive_relaxed();\n");
  }
  absl::StrAppend(&text, "  wait_for_predecessors();\n  launch_dependents();\n");
  return text + UnitsText(code, program, {});
}

std::string UnitsText(const StitchCode& code, const StitchProgram& program,
                      const FrameNames& names) {
  if (program.owner < 0) return "";
  const StitchSchedule& s = code.schedule;
  return absl::Substitute(
      "  using Group = UnitGroup<$0, $1, $2, $3>;\n"
      "  Group group(reinterpret_cast<u32*>($5));\n"
      "  unsigned char* const shared_columns = $5 + Group::kScratchBytes;\n"
      "  const int t = static_cast<int>(threadIdx.x) % $1;\n  const long long units = $4;\n",
      s.block_threads, s.unit_threads, s.cluster, std::max(1, RowSlots(program)),
      names.Count(program.units, program.units_symbolic),
      s.hold_bytes > 0 ? absl::StrCat("dynamic_shared + ", s.hold_bytes) : "dynamic_shared");
}

namespace {

std::string UnitText(const StitchProgram& program, const std::string& number) {
  if (!UnitsAreInts(program)) return absl::StrCat("    const long long u = ", number, ";\n");
  return absl::StrCat("    const int u = static_cast<int>(", number,
                      ");\n    __builtin_assume(u >= 0);\n");
}

// A unit beyond the last repeats the last one and is not live.
std::string LiveUnit(const StitchProgram& program) {
  return "    const bool live = mine < units;\n" + UnitText(program, "live ? mine : units - 1");
}

// The number of the thread's group in its block, added to the block's first unit.
std::string OwnGroup(const StitchSchedule& s) {
  if (s.UnitsPerBlock() == 1) return "";
  return absl::StrCat(" + static_cast<int>(threadIdx.x) / ", s.unit_threads);
}

// Whether each group of a block has a unit in every round, for any number of rows.
bool GroupsAreFull(const StitchProgram& program, const StitchSchedule& s, const FrameNames& names) {
  const int units = s.UnitsPerBlock();
  return units == 1 || (names.KnowCounts() && program.units % units == 0);
}

// Where a block's units begin, what lies between those of one round and of the next, and how many
// rounds there are.
std::string CountRounds(const std::string& first, const std::string& span) {
  return absl::Substitute(
      "  const long long first = $0, span = $1;\n"
      "  const int rounds = static_cast<int>(first < units ? (units - 1 - first) / span + 1 : "
      "0);\n",
      first, span);
}

// A loop over units, one at a time; `full`: GroupsAreFull. Groups of whole warps meet nobody else
// there, unless the block stages inputs: those without a unit leave. Lanes of a warp stay together;
// and where values are kept, reads that the compiler moves ahead take the registers.
std::string AroundEach(const StitchProgram& program, const StitchSchedule& s,
                       const std::string& first, const std::string& step, const Rounds& rounds,
                       bool full, const std::string& inside) {
  constexpr int kLanes = 32;  // of a warp
  const bool apart =
      !full && s.unit_threads % kLanes == 0 && !s.keep_values && !rounds.block_stages;
  const char* const unit = apart ? "own" : "base";
  const std::string loop =
      rounds.backward
          ? absl::Substitute(
                "$0  for (int round = rounds - 1; round >= 0; --round) {\n"
                "    const long long $1 = first + round * span;\n",
                CountRounds(absl::StrCat(first, apart ? OwnGroup(s) : ""), step), unit)
          : absl::Substitute("$2  for (long long $4 = $0$5; $4 < units; $4 += $1$3) {\n", first,
                             step, rounds.counted ? "  int round = 0;\n" : "",
                             rounds.counted ? ", ++round" : "", unit, apart ? OwnGroup(s) : "");
  const std::string mine = absl::StrCat("base", OwnGroup(s));
  std::string live =
      absl::StrCat("    constexpr bool live = true;\n", UnitText(program, apart ? "own" : mine));
  if (!apart && !full) {
    live = absl::StrCat("    const long long mine = ", mine, ";\n", LiveUnit(program));
  }
  return absl::StrCat(loop, live, inside, "  }\n");
}

// A loop over whole batches; units that are not live fill the reads of the last one. A loop that
// ended inside a batch would issue the rest of its reads one after another. Nothing is computed
// where no unit of the block is live.
std::string AroundBatches(const StitchProgram& program, const StitchSchedule& s, int at_once,
                          const std::string& first, const std::string& step, const Rounds& rounds,
                          const BatchReads& batch, const std::string& inside) {
  std::string round;
  if (rounds.counted && rounds.most == 0) round = "    const int round = turn + q;\n";
  if (rounds.counted && rounds.most > 0) {
    round = absl::Substitute("    const int round = turn + q < $0 ? turn + q : $1;\n", rounds.most,
                             rounds.most - 1);
  }
  const auto around = [&](const std::string& units) {
    if (rounds.backward) {
      return absl::Substitute(
          "$0  for (int turn = (rounds - 1) * $1; turn >= 0; turn -= $1) {\n"
          "    const long long base = first + turn * ($2);\n$3$4  }\n",
          CountRounds(first, absl::StrCat("(", step, ") * ", at_once)), at_once, step, batch.packs,
          units);
    }
    return absl::Substitute(
        "$0  for (long long base = $1; base < units; base += ($2) * $3$4) {\n$5$6  }\n",
        rounds.counted ? "  int turn = 0;\n" : "", first, step, at_once,
        rounds.counted ? absl::StrCat(", turn += ", at_once) : "", batch.packs, units);
  };
  const auto each = [&](const std::string& text) {
    return absl::Substitute(
        "  #pragma unroll\n  for (int q = 0; q < $0; ++q) {\n"
        "    const long long mine = base + q * ($1)$2;\n$3$4$5$6  }\n",
        at_once, step, OwnGroup(s), LiveUnit(program), round, batch.names, text);
  };
  if (batch.reads.empty()) return around(each(inside));
  const std::string where_live =
      absl::Substitute("    if (base + q * ($0) < units) {\n$1    }\n", step, inside);
  std::string reads = each(batch.reads);
  if (batch.held_rounds > 0) {
    reads = absl::Substitute("  if (turn < $0) {\n$1  } else {\n$2  }\n", batch.held_rounds,
                             each(batch.takes), reads);
  }
  return around(absl::StrCat(reads, each(where_live)));
}

}  // namespace

std::string AroundUnits(const StitchCode& code, const StitchProgram& program,
                        const StitchPhase& phase, const Rounds& rounds, const BatchReads& batch,
                        const FrameNames& names, const std::string& inside) {
  const StitchSchedule& s = code.schedule;
  const int at_once = UnitsAtOnce(*code.body, s, phase);
  const std::string first = s.cluster > 1
                                ? absl::StrCat(names.block, " / ", s.cluster)
                                : absl::StrCat(names.block, " * ", s.UnitsPerBlock(), "ll");
  const std::string step = s.cluster > 1
                               ? absl::StrCat(names.blocks, " / ", s.cluster)
                               : absl::StrCat(names.blocks, " * ", s.UnitsPerBlock(), "ll");
  if (at_once == 1) {
    return AroundEach(program, s, first, step, rounds, GroupsAreFull(program, s, names), inside);
  }
  return AroundBatches(program, s, at_once, first, step, rounds, batch, inside);
}

}  // namespace sinter
