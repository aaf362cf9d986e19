#include "tests/unit/stitch_kernels/kernel_cases.h"

#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "src/stitch/search/stitch_search.h"
#include "tests/support/forced_hands.h"
#include "tests/support/named_graphs.h"
#include "tests/support/random_graph.h"
#include "tests/support/random_stitch_graph.h"

namespace sinter::stitch_host {
namespace {

constexpr int kThreads = 256, kBlocks = 4, kTurns = 3;  // most of a block, a cluster, a launch
constexpr int64_t kElements = 1 << 11;
const char* const kKinds[] = {"segments", "hold",  "phases", "split",    "cluster",
                              "values",   "warps", "alike",  "join all", "lanes",
                              "block",    "flat",  "warp",   "thread"};

StitchSpec SpecOf(const Chain& body, StitchSchedule schedule) {
  StitchSpec spec{.body = body};
  schedule.grid = std::min(schedule.grid / schedule.cluster, kTurns) * schedule.cluster;
  spec.schedule = schedule;
  for (int i = 0; i < body.num_inputs() + body.num_outputs(); ++i) spec.operands.push_back({i, 0});
  return spec;
}

// Left out: each takes 5 to 10 s on the host, where most take a tenth of a second.
bool IsLong(const std::string& name) {
  return name == "random4 flat" || name == "random13 flat" || name == "random46 flat";
}

class Cases {
 public:
  // The best schedules of `count` kinds, those that come next in turn among what the body has.
  // `shorter`: the same of shorter rows, or null, for kinds that reduce a row once an element.
  void Add(const std::string& name, const Chain& long_body, int64_t m, int count,
           const Chain* shorter = nullptr) {
    const auto long_ranked = RankedOf(long_body, m);
    const auto short_ranked = shorter == nullptr ? long_ranked : RankedOf(*shorter, m);
    if (!long_ranked.ok() || !short_ranked.ok()) return;
    for (size_t tried = 0; tried < std::size(kKinds) && count > 0; ++tried) {
      const std::string kind = kKinds[next_++ % std::size(kKinds)];
      const bool serial = shorter != nullptr && (kind == "flat" || kind == "split");
      const Chain& body = serial ? *shorter : long_body;
      for (const RankedStitch& one : serial ? *short_ranked : *long_ranked) {
        const StitchSchedule& s = one.schedule;
        if (s.block_threads > kThreads || s.cluster > kBlocks) continue;
        if (KindsOf(body, s).count(kind) == 0) continue;
        const std::string full = absl::StrCat(name, " ", kind);
        if (!IsLong(full)) cases_.push_back({full, SpecOf(body, s), m});
        --count;
        break;
      }
    }
  }

  // The best schedule of vectors of `width`.
  void AddWide(const std::string& name, const Chain& body, int width) {
    const auto ranked =
        SearchStitch(body, 1, *BuiltinModel("h200"), {.top_k = std::numeric_limits<int>::max()});
    for (size_t i = 0; ranked.ok() && i < ranked->size(); ++i) {
      const StitchSchedule& s = (*ranked)[i].schedule;
      if (s.vector != width || s.block_threads > kThreads || s.cluster > kBlocks) continue;
      cases_.push_back({absl::StrCat(name, " vec ", width), SpecOf(body, s), 0});
      return;
    }
  }

  // The best schedules of `count` kinds with values handed over that nobody would hand over.
  void AddForced(const std::string& name, const Chain& body, int64_t m, int count) {
    constexpr size_t kMostHanded = 4;
    constexpr int64_t kSharedBytes = 48 << 10;
    const size_t before = cases_.size();
    Add(name, body, m, count);
    std::vector<KernelCase> forced;
    for (size_t i = before; i < cases_.size(); ++i) {
      KernelCase one = cases_[i];
      for (size_t most = 1; most <= kMostHanded; most *= 2) {
        one.spec.schedule = testing::WithForcedHands(body, cases_[i].spec.schedule, next_ + most,
                                                     most, kSharedBytes);
        if (one.spec.schedule.handed.size() != most) break;
        one.name = absl::StrCat(cases_[i].name, " hand ", most);
        forced.push_back(one);
      }
    }
    cases_.resize(before);
    for (KernelCase& one : forced) cases_.push_back(std::move(one));
  }

  // The best schedules that stage inputs, of each vector and of each number of units in a block.
  void AddStaged(const std::string& name, const Chain& body, int64_t m) {
    const auto ranked = RankedOf(body, m);
    std::set<std::pair<int, int>> seen;
    for (size_t i = 0; ranked.ok() && i < ranked->size(); ++i) {
      const StitchSchedule& s = (*ranked)[i].schedule;
      if (!s.staged || s.block_threads > kThreads) continue;
      if (!seen.insert({s.vector, s.UnitsPerBlock()}).second) continue;
      const std::string units = absl::StrCat(" ", s.UnitsPerBlock(), " units vec ", s.vector);
      cases_.push_back({name + units, SpecOf(body, s), m});
      if (seen.size() == 5) return;
    }
  }

  // The best schedules that make several results of windows at once, of each number of them.
  void AddPixels(const std::string& name, const Chain& body, int64_t m) {
    const auto ranked = RankedOf(body, m);
    std::set<int> seen;
    for (size_t i = 0; ranked.ok() && i < ranked->size(); ++i) {
      const StitchSchedule& s = (*ranked)[i].schedule;
      if (s.pixels == 1 || s.block_threads > kThreads || !seen.insert(s.pixels).second) continue;
      const std::string what = absl::StrCat(" pixels ", s.pixels, " vec ", s.vector);
      cases_.push_back({name + what, SpecOf(body, s), m});
      if (seen.size() == 2) return;
    }
  }

  // The first two packings with small blocks.
  void AddPacked(const std::string& name, const Chain& body, int64_t m) {
    PackedSearch search(std::max<int64_t>(m, 1), *BuiltinModel("h200"));
    int count = 0;
    for (RankedStitch& one : search.Of(body)) {
      if (one.schedule.block_threads > kThreads || ++count > 2) continue;
      for (StitchPart& part : one.parts) part.schedule.grid = std::min(part.schedule.grid, kTurns);
      StitchSpec spec = SpecOf(body, PackedSchedule(one.parts));
      spec.schedule = PackedSchedule(one.parts);
      spec.parts = std::move(one.parts);
      cases_.push_back({absl::StrCat(name, " packed"), std::move(spec), m});
    }
  }

  std::vector<KernelCase> Take() { return std::move(cases_); }

 private:
  static absl::StatusOr<std::vector<RankedStitch>> RankedOf(const Chain& body, int64_t m) {
    return SearchStitch(body, std::max<int64_t>(m, 1), *BuiltinModel("h200"),
                        {.top_k = std::numeric_limits<int>::max()});
  }

  std::vector<KernelCase> cases_;
  size_t next_ = 0;
};

// Compositions beyond those that need only rows: weighted sums over a middle axis, fine-grained
// products, statistics down columns that the columns' elements wait for.
void AddComposed(Cases* cases) {
  constexpr int kAll = static_cast<int>(std::size(kKinds));
  cases->Add("attention", testing::GraphOf("pooled_attention(5, 21, 12)"), 0, kAll);
  cases->Add("product", testing::GraphOf("pooled_product(5, 21, 12)"), 0, kAll);
  cases->Add("products", testing::GraphOf("transposed_products(3, 7, 18, 10)"), 0, kAll);
  cases->Add("rope", testing::GraphOf("norm_rope(3, 4, 2, 16)"), 0, kAll);
  cases->Add("rope of M rows", testing::GraphOf("norm_rope(M, 6, 1, 32)"), 5, kAll);
  cases->Add("batchnorm", testing::GraphOf("batch_norm(37, 24, x)"), 0, kAll);
  cases->Add("batchnorm far from zero",
             testing::GraphOf("batch_norm(61, 24, x + spread(64:f32, x))"), 0, 3);
  cases->Add("whole norm", testing::GraphOf("whole_norm(200, 256)"), 0,
             3);  // too many for a single unit
  cases->Add("whole norm of rows", testing::GraphOf("whole_norm(M, 24)"), 29, kAll);
  cases->Add("whole norm of odd rows", testing::GraphOf("whole_norm(M, 7)"), 61, 4);
  cases->Add("columns beside a whole mean", testing::GraphOf("whole_beside_columns(M, 256)"), 29,
             kAll);
  cases->Add("batchnorm rows", testing::GraphOf("batch_norm(M, 40, x)"), 29, kAll);
  cases->Add("batchnorm gradient", testing::GraphOf("batch_norm_gradient(3, 4, 5, 24)"), 0, kAll);
}

// The chain of a line of a problem list, by three kinds of schedules.
void AddLine(const char* line, const char* suffix, Cases* cases) {
  constexpr int64_t kSerialColumns = 128;  // a thousand take seconds where an element sums its row
  const absl::StatusOr<Problem> problem = ParseProblem(line);
  if (!problem.ok()) return;
  std::vector<std::string> words;
  for (absl::string_view word : absl::StrSplit(line, ' ')) {
    int64_t columns = 0;
    const bool long_rows = absl::ConsumePrefix(&word, "cols=") &&
                           absl::SimpleAtoi(word, &columns) && columns > kSerialColumns;
    words.push_back(columns == 0 ? std::string(word)
                                 : absl::StrCat("cols=", long_rows ? kSerialColumns : columns));
  }
  const absl::StatusOr<Problem> shorter = ParseProblem(absl::StrJoin(words, " "));
  cases->Add(absl::StrCat(problem->kind, suffix), problem->chain, 13, 3,
             shorter.ok() ? &shorter->chain : nullptr);
}

// Every rule of a scale, with codes of both types; some column counts are not a multiple of a
// vector.
void AddQuantizers(Cases* cases) {
  int number = 0;
  for (const char* line :
       {"quantize rows=M cols=384 granularity=row", "quantize rows=M cols=384 granularity=group",
        "quantize rows=M cols=256 granularity=group ue8m0=1 upper_bound=1.5",
        "quantize rows=M cols=130 granularity=row ue8m0=1 dtype=f32",
        "quantize rows=M cols=256 granularity=row codes=s8 dtype=f16",
        "quantize rows=M cols=77 granularity=static",
        "quantize rows=M cols=64 granularity=static codes=s8",
        "rmsnorm_quantize rows=M cols=256 granularity=row",
        "rmsnorm_quantize rows=M cols=256 granularity=group",
        "rmsnorm_quantize rows=M cols=264 granularity=static"}) {
    AddLine(line, absl::StrCat(" ", ++number).c_str(), cases);
  }
}

// Parts of other units and lengths, of one text, in place.
void AddPacked(Cases* cases) {
  cases->AddPacked("rows", testing::IndependentRows({{5, 40}, {3, 150}}, 0), 0);
  cases->AddPacked("rows and elements", testing::IndependentRows({{5, 74}, {3, 74}, {0, 33}}, 301),
                   4);
  cases->AddPacked("updates", testing::IndependentUpdates({256, 64, 1000, 37, 513}), 0);
}

// Sums over the middle axis, which the fusion explorer turns into sums over rows.
Chain TurnedSums() { return ReadChain("x: f32[M,300,7]; out sum(transpose(x, 0, 2, 1), 2)"); }

// Hand-overs: what turns, shifts and joins values, and random graphs.
void AddForcedHands(const CaseOptions& options, Cases* cases) {
  cases->AddForced("attention", testing::GraphOf("pooled_attention(5, 21, 12)"), 0, 6);
  cases->AddForced("product", testing::GraphOf("pooled_product(5, 21, 12)"), 0, 6);
  cases->AddForced("rope", testing::GraphOf("norm_rope(3, 4, 2, 16)"), 0, 6);
  cases->AddForced("rope of M rows", testing::GraphOf("norm_rope(M, 6, 1, 32)"), 5, 6);
  cases->AddForced("batchnorm", testing::GraphOf("batch_norm(37, 24, x)"), 0, 2);
  for (uint64_t seed = options.first_seed; seed <= options.last_seed; ++seed) {
    cases->AddForced(absl::StrCat("random", seed),
                     testing::MakeRandomStitchGraph(seed, {kElements}), 0, options.kinds);
  }
}

// Largest values of columns of 16 bits; tensors side by side of which every second element, other
// columns or rows first are read.
void AddNarrowColumnsAndShuffles(Cases* cases) {
  constexpr int kAll = static_cast<int>(std::size(kKinds));
  for (const char* dtype : {"bf16", "f16"}) {
    const Chain body =
        ReadChain("x: $0[M,24]; out reduce_max(x, 0), reduce_min(x, 0, keep)", dtype);
    cases->Add(absl::StrCat("columns of ", dtype), body, 29, kAll);
  }
  const std::pair<const char*, const char*> shuffles[] = {
      {"both[:, 1:64:2]", "16,32"},
      {"both[:, 3:64]", "16,61"},
      {"transpose(both, 1, 0)", "64,16"},
      {"reshape(transpose(reshape(both, [16,2,32]), 0, 2, 1), [16,64])", "16,64"}};
  int form = 0;
  for (const auto& [shuffled, dims] : shuffles) {
    const Chain body =
        ReadChain("x: bf16[16,24]; y: bf16[16,40]; both = concat(x, y, 1); z: bf16[$1]; out $0 + z",
                  shuffled, dims);
    for (const int width : {1, 2, 8}) cases->AddWide(absl::StrCat("shuffle ", form), body, width);
    ++form;
  }
}

// Inputs that are contiguous along the units: transposes before element-wise ops and norms of rows,
// of all sizes of elements, some together with an input that is contiguous along the rows.
void AddStagedInputs(Cases* cases) {
  struct Turned {
    const char *name, *dtype, *dims, *axes;
    const char* turned;  // dims of the fused copy; null: none is made
  };
  const Turned all[] = {
      {"turned bf16", "bf16", "64,128", "1,0", "128,64"},
      {"turned f32", "f32", "48,72", "1,0", "72,48"},
      {"turned s32", "s32", "32,40", "1,0", nullptr},
      {"turned e4m3", "e4m3", "64,96", "1,0", nullptr},
      {"channels last", "bf16", "2,32,14,14", "0,2,3,1", "2,14,14,32"},
      {"channels first", "f16", "2,14,14,24", "0,3,1,2", "2,24,14,14"},
      {"middle axes last", "bf16", "3,16,5,32", "3,0,2,1", "32,3,5,16"},
  };
  for (const auto& [name, dtype, dims, axes, turned] : all) {
    cases->AddStaged(name, ReadChain("x: $0[$1]; out transpose(x, $2)", dtype, dims, axes), 0);
    if (turned == nullptr) continue;
    const Chain fused = ReadChain(
        "x: $0[$1]; beside: f32[$3]; sum = transpose(tanh(f32(x)), $2) + beside; "
        "out sum, bf16(sum)",
        dtype, dims, axes, turned);
    cases->AddStaged(absl::StrCat(name, " fused"), fused, 0);
  }
  // softmax(t) t of t[batch, tokens, channels] = x[batch, channels, tokens]; 150 units fill no
  // round of a block's groups.
  const std::pair<int, int> rows[] = {{32, 48}, {40, 48}, {96, 48}, {384, 50}};
  for (const auto& [channels, tokens] : rows) {
    const Chain body = ReadChain(
        "x: bf16[3,$0,$1]; t = transpose(f32(x), 0, 2, 1); "
        "e = exp(t - spread(reduce_max(t, 2, keep), t)); "
        "out bf16(e / spread(sum(e, 2, keep), t) * t)",
        channels, tokens);
    cases->AddStaged(absl::StrCat("rows of ", channels, " channels"), body, 0);
  }
}

// Those that one stitched kernel takes.
void AddGraphsOfEveryType(Cases* cases) {
  constexpr uint64_t kSeeds = 60;
  constexpr int64_t kRows = 7;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const Chain body = testing::MakeRandomGraph(seed, {kElements, 3});
    cases->Add(absl::StrCat("any", seed), body, body.UsesM() ? kRows : 0, 1);
  }
}

// Sums of 1 and tanh that a kernel computes as one function, and some whose tanh others read too:
// 1 + tanh(x), tanh(x)^2 - 1, and (1 - t) (1 - t^2) of one t, of bf16 x[rows, columns].
Chain TanhsBesideOne(int64_t rows, int64_t columns) {
  return ReadChain(
      "x: bf16[$0,$1]; wide = f32(x); one = 1; squared = square(tanh(wide * 2)); "
      "t = tanh(wide * 0.5); slope = one - t * t; fall = one - t; "
      "out bf16(one + tanh(wide * 1)), bf16(squared - one), bf16(fall * slope)",
      rows, columns);
}

// Weights of four bits as bf16, by schedules of all kinds and widths.
void AddFourBits(Cases* cases) {
  const Chain of_u4 = ReadChain(
      "scale: const bf16[12,2]; zero: const f32[12,2]; w: const s8[12,32]; "
      "out bf16(dequantize_u4(w, scale, zero))");
  const Chain of_e2m1 =
      ReadChain("power: const bf16[12,4]; w: const s8[12,64]; out f16(dequantize_e2m1(w, power))");
  const Chain of_packed = ReadChain(
      "scale: const bf16[2,64]; w: const s8[4,512]; "
      "out bf16(dequantize_u4_packed(w, scale, scalar(8)))");
  const Chain packed_rows = ReadChain(
      "w: const s8[64,16]; power: const s8[64,1]; "  // the comparison takes no NaN
      "finite = s8(max(f32(power), 0)); "
      "out pack_codes(w, rows), pack_scales(bf16(dequantize_e8m0(finite)), rows)");
  const Chain packed_awq = ReadChain(
      "w: const s8[32,32]; zero: const s8[2,32]; "
      "out pack_codes(w, awq), bf16(pack_zeros(zero, awq))");
  const Chain packed_gptq = ReadChain(
      "w: const s8[4,256]; zero: const s8[2,32]; "
      "out pack_codes(w, gptq), f16(pack_zeros(zero, gptq))");
  for (const int width : {1, 2, 8}) {
    cases->AddWide("packing of rows", packed_rows, width);
    cases->AddWide("packing of AWQ", packed_awq, width);
    cases->AddWide("packing of GPTQ", packed_gptq, width);
    cases->AddWide("packed", of_packed, width);
    cases->AddWide("u4", of_u4, width);
    cases->AddWide("e2m1", of_e2m1, width);
  }
  cases->Add("u4", of_u4, 0, static_cast<int>(std::size(kKinds)));
}

}  // namespace

std::set<std::string> KindsOf(const Chain& body, const StitchSchedule& s) {
  std::set<std::string> kinds;
  const absl::StatusOr<StitchProgram> program = MakeStitchProgram(body, s.owner, s.handed);
  if (program.ok() && program->phases.size() > 1) kinds.insert("phases");
  for (size_t id = 0; program.ok() && id < program->uses.size(); ++id) {
    if (program->uses[id] == ReduceUse::kSegment) kinds.insert("segments");
  }
  if (!s.handed.empty()) kinds.insert("hand");
  if (s.split > 1) kinds.insert("split");
  if (s.hold_bytes > 0) kinds.insert("hold");
  if (s.join_all) kinds.insert("join all");
  if (s.owner < 0) {
    if (s.pixels > 1) kinds.insert("pixels");
    kinds.insert("flat");
    return kinds;
  }
  kinds.insert(s.cluster > 1            ? "cluster"
               : s.unit_threads == 1    ? "thread"
               : s.unit_threads < 32    ? "lanes"
               : s.unit_threads == 32   ? "warp"
               : s.UnitsPerBlock() == 1 ? "block"
                                        : "warps");
  if (s.staged) kinds.insert("staged");
  if (program.ok() && program->tile.axis >= 0) kinds.insert("tiles");
  if (s.keep_inputs) kinds.insert("inputs");
  if (s.keep_values) kinds.insert("values");
  if (s.keep_alike) kinds.insert("alike");
  return kinds;
}

std::vector<KernelCase> MakeKernelCases(const CaseOptions& options) {
  Cases cases;
  for (const char* line :
       {"softmax rows=M cols=200 scale=0.125", "layernorm rows=M cols=1000",
        "layernorm rows=M cols=2048", "softmax rows=M cols=3000", "residual_rmsnorm rows=M cols=64",
        "masked_softmax rows=M cols=74 mask=row", "bias_gelu_residual_layernorm rows=M cols=256",
        "swiglu rows=M cols=40 dtype=f16", "rope rows=M heads=2 dim=16",
        "lstm_cell rows=M hidden=24", "gru_cell rows=M hidden=37"}) {
    AddLine(line, "", &cases);
  }
  AddQuantizers(&cases);
  AddComposed(&cases);
  AddPacked(&cases);
  cases.Add("turned", TurnedSums(), 5, 4);
  for (uint64_t seed = options.first_seed; seed <= options.last_seed; ++seed) {
    cases.Add(absl::StrCat("random", seed), testing::MakeRandomStitchGraph(seed, {kElements}), 0,
              options.kinds);
  }
  AddForcedHands(options, &cases);
  AddNarrowColumnsAndShuffles(&cases);
  AddStagedInputs(&cases);
  AddGraphsOfEveryType(&cases);
  for (const testing::NamedGraph& graph : testing::GraphsIn("gathers")) {
    cases.Add(graph.name, graph.chain, graph.m, 2);
  }
  for (const int width : {1, 2, 8}) {
    cases.AddWide("taken of joined", testing::GraphOf("taken_of_joined(16, 24, 8)"), width);
    cases.AddWide("taken", testing::GraphOf("taken_of_softmax(5, 40, 8)"), width);
  }
  cases.AddForced("taken", testing::GraphOf("taken_of_softmax(M, 24, 3)"), 13, 6);
  for (const testing::NamedGraph& graph : testing::GraphsIn("scatters")) {
    cases.Add(graph.name, graph.chain, graph.m, 2);
    cases.AddForced(graph.name, graph.chain, graph.m, 1);
  }
  for (const testing::NamedGraph& graph : testing::GraphsIn("windows")) {
    cases.Add(graph.name, graph.chain, graph.m, 1);
    cases.AddPixels(graph.name, graph.chain, graph.m);
  }
  for (const testing::NamedGraph& graph : testing::GraphsIn("row_steps")) {
    cases.Add(graph.name, graph.chain, graph.m, 2);
  }
  cases.Add("running sums", testing::GraphOf("sums(M, 1500, f32)"), 3, 4);
  cases.AddForced("router", testing::GraphOf("router_of_shares(M, 24, 3)"), 13, 6);
  cases.Add("tanhs beside one", TanhsBesideOne(13, 100), 0, 3);
  AddFourBits(&cases);
  return cases.Take();
}

}  // namespace sinter::stitch_host
