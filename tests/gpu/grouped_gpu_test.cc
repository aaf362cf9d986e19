// Grouped products by ids and by ends, and the gated FFN of a mixture of experts, on any routing:
// all, one or no expert, ids outside, equal ids, counts around the borders of tiles; NaN stays in
// its row; one plan and one captured graph serve every routing.
#include "src/engine/bound_plan.h"
#include "src/plan/grouped_family.h"
#include "src/reference/reference.h"
#include "tests/gpu/stream_fixture.h"
#include "tests/support/grouped_ends.h"
#include "tests/support/pointers.h"

namespace sinter::gpu_testing::grouped {
namespace {

using Ids = std::vector<int32_t>;

struct Routing {
  const char* name;
  // The id of slot i of `slots`, `top` a row, among `experts`.
  int32_t (*id)(int64_t i, int64_t top, int32_t experts, uint32_t random);
};

const Routing kRoutings[] = {
    {"uniform",
     [](int64_t, int64_t, int32_t e, uint32_t r) { return static_cast<int32_t>(r % e); }},
    {"one expert", [](int64_t, int64_t, int32_t e, uint32_t) { return 1 % e; }},
    {"last expert", [](int64_t, int64_t, int32_t e, uint32_t) { return e - 1; }},
    {"in turn",
     [](int64_t i, int64_t, int32_t e, uint32_t) { return static_cast<int32_t>(i % e); }},
    {"none", [](int64_t, int64_t, int32_t, uint32_t) { return -1; }},
    {"some", [](int64_t, int64_t, int32_t e,
                uint32_t r) { return r % 3 == 0 ? -1 : static_cast<int32_t>(r / 3 % e); }},
    {"equal in a row", [](int64_t i, int64_t top, int32_t e,
                          uint32_t) { return static_cast<int32_t>(i / top * 7 % e); }},
    {"outside",
     [](int64_t, int64_t, int32_t e, uint32_t r) {
       const int32_t ids[] = {
           e,    std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max(), -7, 0,
           e - 1};
       return ids[r % 6];
     }},
    {"skewed", [](int64_t, int64_t, int32_t e,
                  uint32_t r) { return r % 4 != 0 ? 0 : static_cast<int32_t>(r / 4 % e); }},
};

Chain ChainOf(const std::string& line) { return Got(ParseProblem(line), line).chain; }

// Rows and columns of a tile, and its stages.
constexpr GroupedSchedule kThreadDots{0, 0, 0}, kWarpDots{0, 1, 0};
constexpr GroupedSchedule k64x64{64, 64, 5}, k64x256{64, 256, 4}, k128x128{128, 128, 4},
    k128x256{128, 256, 4};
// The columns of W are the rows of wgmma. A cluster has one block, or a pair.
constexpr GroupedSchedule kSwapped64{64, 256, 5, 1, 1}, kSwappedPairs64{64, 256, 5, 1, 2},
    kSwapped128{128, 256, 4, 1, 1}, kSwappedPairs128{128, 256, 4, 1, 2};

// A form of tiles, of a build with pauses or none.
struct Form {
  GroupedSchedule schedule;
  bool jitter = false;
  std::string ToString() const {
    return absl::StrCat(schedule.ToString(false), jitter ? " with pauses" : "");
  }
};
// The widest tiles, of 128 rows and 256 columns, have no registers for pauses.
std::vector<Form> FormsOf(const std::vector<GroupedSchedule>& schedules, bool with_jitter) {
  std::vector<Form> forms;
  for (const GroupedSchedule& schedule : schedules) {
    const bool widest = schedule.swapped == 0 && schedule.block_m == 128 && schedule.block_n == 256;
    forms.push_back({schedule});
    if (with_jitter && !widest) forms.push_back({schedule, true});
  }
  return forms;
}

// Whether a row's results depend only on its own inputs, so that a reference of more rows begins
// with them.
bool RowsAreApart(const Chain& chain) {
  return std::none_of(chain.ops().begin(), chain.ops().end(), [&](const Op& op) {
    if (op.kind != OpKind::kReduce) return false;
    const std::vector<Dim>& dims = chain.op(op.operands[0]).type.dims;
    return std::any_of(op.axes.begin(), op.axes.end(),
                       [&](int32_t axis) { return dims[static_cast<size_t>(axis)].symbolic; });
  });
}

// A chain whose input "ids" the tests write.
class Routed {
 public:
  Routed(const Ports& ports, const std::string& line, int64_t rows)
      : Routed(ports, ChainOf(line), rows) {}
  Routed(const Ports& ports, const Chain& chain, int64_t rows)
      : chain_(Got(NormalFormOf(std::make_shared<const Chain>(chain)))->chain),
        rows_(rows),
        rows_apart_(RowsAreApart(*chain_)),
        inputs_(Got(RandomInputs(*chain_, rows, 11))),
        tensors_(Got(DeviceTensors::Make(ports, *chain_, rows, inputs_))) {}

  const Chain& chain() const { return *chain_; }

  void Make(Engine* engine, const PrepareOptions& options = {}) {
    const auto plan = Got(engine->Prepare(*chain_, rows_, options));
    text_ = plan->plan().ToText();
    run_ = Got(tensors_->Bind(plan));
  }

  // Plans whose grouped products are of these forms, compiled on all cores. Null where a schedule
  // is illegal for one of them, as `refused` forms are; the others must compile, pauses too.
  std::vector<LoadedPlanPtr> Build(const Ports& ports, const std::vector<Form>& forms,
                                   int refused) {
    std::vector<LoadedPlanPtr> result(forms.size());
    for (const bool jitter : {false, true}) {
      std::vector<Plan> plans;
      std::vector<size_t> of;
      for (size_t i = 0; i < forms.size(); ++i) {
        if (forms[i].jitter != jitter) continue;
        GroupedSchedule schedule = forms[i].schedule;
        schedule.grid = schedule.ClusterBlocks();
        const auto planned = GroupedPlanOf(*chain_, rows_, ports.model, schedule);
        if (absl::IsFailedPrecondition(planned.status())) {
          --refused;
          continue;
        }
        EXPECT_OK(planned);
        if (!planned.ok()) continue;
        plans.push_back(*planned);
        of.push_back(i);
      }
      BuildOptions options;
      options.codegen.jitter = options.codegen.trap_spins = jitter;
      auto built = BuildPlans(ports, chain_, plans, options);
      options.codegen.trap_spins = false;
      for (size_t i = 0; i < plans.size(); ++i) {
        // Traps between products in flight may be refused.
        if (!built[i].ok() && jitter) built[i] = BuildPlan(ports, chain_, plans[i], options);
        EXPECT_OK(built[i]) << forms[of[i]].ToString();
        if (built[i].ok()) result[of[i]] = *built[i];
      }
    }
    EXPECT_EQ(refused, 0) << "more or fewer forms are illegal";
    return result;
  }

  // Launches are of this plan, its grouped products on grids of `blocks`.
  void Use(const LoadedPlan& built, int blocks) {
    auto plan = std::make_shared<LoadedPlan>(built);
    for (size_t i = 0; i < plan->recipes.size(); ++i) {
      if (plan->plan.kernels[i].spec.family != &GroupedFamily()) continue;
      LaunchRecipe& recipe = plan->recipes[i];
      recipe.grid[0] = static_cast<uint32_t>(blocks) / recipe.cluster[0] * recipe.cluster[0];
    }
    text_ = absl::StrCat(plan->plan.ToText(), "on grids of ", blocks);
    run_ = Got(tensors_->Bind(LoadedPlanPtr(std::move(plan))));
  }

  // The canonical input of that name.
  size_t InputOf(const std::string& name) const {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (chain_->InputName(chain_->InputOrder()[i]) == name) return i;
    }
    ADD_FAILURE() << "no input " << name;
    return 0;
  }

  void Write(const std::string& name, const std::string& bytes) {
    const size_t input = InputOf(name);
    std::memcpy(&inputs_[input][0], bytes.data(), bytes.size());
    written_[name] = bytes;
    ASSERT_OK(tensors_->Replace(static_cast<int>(input), inputs_[input]));
  }
  std::string& input(const std::string& name) { return inputs_[InputOf(name)]; }
  void WriteNumbers(const std::string& name, const Ids& numbers) {
    Write(name, std::string(reinterpret_cast<const char*>(numbers.data()),
                            numbers.size() * sizeof(int32_t)));
  }
  void Route(const Ids& ids) { WriteNumbers("ids", ids); }
  void RouteEnds(const Ids& ends) { WriteNumbers("ends", ends); }

  absl::Status Launch(StreamHandle stream, int64_t m) { return run_.launch(stream, m, false); }
  absl::Status Poison() { return tensors_->Poison(run_); }
  absl::StatusOr<std::string> Download() { return tensors_->DownloadOutput(); }
  absl::StatusOr<std::string> Run(int64_t m) { return tensors_->Run(run_, m); }

  // The reference of the first `m` rows. If rows are independent, one evaluation of all rows serves
  // each m.
  std::vector<double> Reference(int64_t m) {
    const int64_t rows = rows_apart_ ? rows_ : m;
    std::vector<double>& whole = references_[{written_, rows}];
    if (whole.empty()) {
      auto outputs = RunReferenceF64(*chain_, rows, PointersTo(inputs_));
      EXPECT_OK(outputs);
      if (!outputs.ok()) return {};
      whole = std::move((*outputs)[0]);
    }
    const auto of_row = static_cast<int64_t>(whole.size()) / std::max<int64_t>(rows, 1);
    return {whole.begin(), whole.begin() + of_row * m};
  }

  void Expect(int64_t m, const std::string& what) { ExpectOutput(Got(Run(m), what), m, what); }
  void ExpectOutput(const std::string& output, int64_t m, const std::string& what) {
    const auto got = Got(OutputValues(*chain_, 0, m, output));
    const std::vector<double> want = Reference(m);
    ASSERT_EQ(got.size(), want.size());
    const ErrorMeasure errors = Compare(got, want, chain_->output_type(0).dtype);
    EXPECT_TRUE(errors.Within(BoundsOf(*chain_, 0)))
        << what << " m " << m << ": " << errors.ToString() << "\n"
        << text_;
    const auto used = static_cast<size_t>(*OutputBytes(*chain_, 0, m));
    EXPECT_OK(DeviceTensors::CheckGuard(output, m == 0 ? 0 : used)) << what << " m " << m;
  }

 private:
  const std::shared_ptr<const Chain> chain_;  // a normal form
  const int64_t rows_;
  const bool rows_apart_;
  std::vector<std::string> inputs_;  // canonical, as they are now
  const std::unique_ptr<DeviceTensors> tensors_;
  BoundRun run_;
  std::string text_;                            // of the plan
  std::map<std::string, std::string> written_;  // inputs that are not the random ones
  std::map<std::pair<std::map<std::string, std::string>, int64_t>, std::vector<double>> references_;
};

Ids RoutedTo(const Routing& routing, int64_t rows, int64_t top, int32_t experts, uint32_t seed) {
  std::mt19937 random(seed);
  Ids ids;
  for (int64_t i = 0; i < rows * top; ++i)
    ids.push_back(routing.id(i, top, experts, static_cast<uint32_t>(random())));
  return ids;
}

class Grouped : public StreamTest {
 protected:
  void Sweep(const std::string& line, int64_t rows, int64_t top, int32_t experts,
             const std::vector<int64_t>& ms) {
    SCOPED_TRACE(line);
    Routed data(ports(), line, rows);
    data.Make(engine());
    for (const Routing& routing : kRoutings) {
      data.Route(RoutedTo(routing, rows, top, experts, 3));
      for (const int64_t m : ms) data.Expect(m, routing.name);
    }
  }

  // Every form of tiles, on grids of each number of blocks, by each routing of `rows` rows (all
  // slots' ids, or ends) and at each number of rows. `refused` forms must be illegal.
  struct Sizes {
    int64_t rows, top;
    int32_t experts;
  };
  void ExpectForms(Routed&& data, const std::vector<Form>& forms, int refused,
                   const std::vector<int>& grids, const Sizes& sizes,
                   const std::vector<int64_t>& ms, absl::Span<const Routing> routings = kRoutings) {
    std::vector<std::pair<std::string, Ids>> ids;
    for (const Routing& routing : routings) {
      ids.push_back({routing.name, RoutedTo(routing, sizes.rows, sizes.top, sizes.experts, 3)});
    }
    ExpectForms(data, forms, refused, grids, "ids", ids, ms);
  }
  void ExpectForms(Routed& data, const std::vector<Form>& forms, int refused,
                   const std::vector<int>& grids, const std::string& input,
                   const std::vector<std::pair<std::string, Ids>>& routings,
                   const std::vector<int64_t>& ms) {
    const std::vector<LoadedPlanPtr> built = data.Build(ports(), forms, refused);
    for (size_t form = 0; form < forms.size(); ++form) {
      SCOPED_TRACE(forms[form].ToString());
      if (built[form] == nullptr) continue;
      for (const int blocks : grids) {
        data.Use(*built[form], blocks);
        for (const auto& [name, numbers] : routings) {
          data.WriteNumbers(input, numbers);
          for (const int64_t m : ms) data.Expect(m, name);
        }
      }
    }
  }
};

TEST_F(Grouped, ProductsEqualTheReferenceOnEveryRouting) {
  for (const char* types :
       {"dtype=bf16", "dtype=f16", "dtype=bf16 layout=io", "dtype=f32", "dtype=f32 layout=io"}) {
    Sweep(absl::StrCat("grouped_matmul m=M experts=8 top=2 n=136 k=200 ", types), 70, 2, 8,
          {0, 1, 7, 64, 70});
    Sweep(absl::StrCat("grouped_matmul m=M experts=3 top=1 n=37 k=64 ", types), 130, 1, 3,
          {1, 129, 130});
  }
  Sweep("grouped_matmul m=M experts=1 top=1 n=64 k=64", 65, 1, 1, {1, 63, 64, 65});
  Sweep("grouped_matmul m=M experts=1024 top=32 n=64 k=64", 33, 32, 1024, {1, 33});
  Sweep("grouped_matmul m=M experts=300 top=6 n=96 k=8", 300, 6, 300, {1, 299, 300});
}

TEST_F(Grouped, GatedFfnsEqualTheReferenceOnEveryRouting) {
  for (const char* form :
       {"act=silu", "act=gelu_tanh order=up_gate", "act=gelu_erf layout=io dtype=f16",
        "act=relu n=96", "act=identity", "act=silu dtype=f32"}) {
    const std::string text(form);
    const std::string n = text.find("n=96") == text.npos ? " n=192" : "";
    Sweep(absl::StrCat("grouped_gated_ffn m=M experts=16 top=4 k=256 l=264 ", n, " ", form), 40, 4,
          16, {0, 1, 3, 17, 40});
  }
}

// GEMMs of e4m3, with scales of every kind; columns that no tensor map takes; and a K that ends
// inside a step.
TEST_F(Grouped, ScaledProductsEqualTheReferenceOnEveryRouting) {
  for (const char* form : {"n=160 k=384 scales=group", "n=136 k=256 scales=group",
                           "n=160 k=208 scales=row", "n=136 k=200 scales=tensor"}) {
    Sweep(absl::StrCat("scaled_grouped_matmul m=M experts=8 top=2 dtype=f32 ", form), 70, 2, 8,
          {0, 1, 7, 64, 70});
  }
  Sweep("scaled_grouped_matmul m=M experts=300 top=6 n=256 k=128 scales=group", 300, 6, 300,
        {1, 299, 300});
}

TEST_F(Grouped, ScaledGatedFfnsEqualTheReferenceOnEveryRouting) {
  for (const char* form : {"n=256 act=silu scales=group quantize=group",
                           "n=128 act=silu scales=group quantize=group ue8m0=1",
                           "n=192 act=gelu_tanh order=up_gate scales=row",
                           "n=192 act=silu scales=tensor quantize=tensor",
                           "n=256 act=silu order=interleaved scales=group quantize=group",
                           "n=256 act=silu scales=row quantize=static"}) {
    Sweep(absl::StrCat("scaled_grouped_gated_ffn m=M experts=16 top=4 k=384 l=264 ", form), 40, 4,
          16, {0, 1, 3, 17, 40});
  }
}

// Plans of small, middle and large buckets, each with every M from 1 on for a uniform routing.
TEST_F(Grouped, EveryMToOneHundredAndThirty) {
  Routed data(ports(), "grouped_gated_ffn m=M experts=16 top=4 n=128 k=128 l=128 act=silu", 130);
  data.Make(engine());
  data.Route(RoutedTo(kRoutings[0], 130, 4, 16, 5));
  for (int64_t m = 1; m <= 130; ++m) data.Expect(m, "uniform");
}

TEST_F(Grouped, CountsAroundTheBordersOfTiles) {
  constexpr int64_t kRows = 400;
  for (const int64_t bucket : {kRows, int64_t{16}}) {
    Routed data(ports(), "grouped_matmul m=M experts=4 top=1 n=128 k=128", bucket);
    data.Make(engine());
    for (const int64_t first : {0, 1, 15, 16, 63, 64, 65, 127, 128, 129, 255, 256, 257}) {
      if (first > bucket) continue;
      Ids ids;
      for (int64_t i = 0; i < bucket; ++i) ids.push_back(i < first ? 2 : i % 2 == 0 ? 0 : 3);
      data.Route(ids);
      data.Expect(bucket, absl::StrCat(first, " rows of expert 2"));
    }
  }
}

TEST_F(Grouped, NaNStaysInItsRowAndUntouchedExpertsAreNotRead) {
  constexpr int64_t kRows = 48, kTop = 2;
  Routed data(ports(), "grouped_gated_ffn m=M experts=8 top=2 n=128 k=128 l=128 act=silu", kRows);
  data.Make(engine());
  Ids ids;
  for (int64_t i = 0; i < kRows * kTop; ++i)
    ids.push_back(static_cast<int32_t>(i % 7));  // 7 is untouched
  data.Route(ids);
  const uint16_t nan = 0x7fc0;
  std::string x = data.input("x"), w1 = data.input("w1"), w2 = data.input("w2");
  for (int64_t k = 0; k < 128; ++k)
    std::memcpy(&x[static_cast<size_t>((5 * 128 + k) * 2)], &nan, 2);
  for (size_t i = w1.size() / 8 * 7; i < w1.size(); i += 2) std::memcpy(&w1[i], &nan, 2);
  for (size_t i = w2.size() / 8 * 7; i < w2.size(); i += 2) std::memcpy(&w2[i], &nan, 2);
  data.Write("x", x);
  data.Write("w1", w1);
  data.Write("w2", w2);
  const auto got = Got(OutputValues(data.chain(), 0, kRows, Got(data.Run(kRows))));
  for (size_t i = 0; i < got.size(); ++i) ASSERT_EQ(std::isnan(got[i]), i / 128 == 5) << i;
}

TEST_F(Grouped, AHundredRunsGiveTheSameBits) {
  Routed data(ports(), "grouped_gated_ffn m=M experts=32 top=8 n=128 k=256 l=256 act=silu", 200);
  data.Make(engine());
  data.Route(RoutedTo(kRoutings[0], 200, 8, 32, 5));
  std::string first;
  for (int run = 0; run < 100; ++run) {
    const auto output = Got(data.Run(200));
    if (run == 0) {
      first = output;
      data.ExpectOutput(first, 200, "first run");
    }
    ASSERT_TRUE(output == first) << "run " << run;
  }
}

TEST_F(Grouped, OneCapturedGraphReplaysAnyRouting) {
  constexpr int64_t kRows = 96;
  Routed data(ports(), "grouped_gated_ffn m=M experts=16 top=4 n=128 k=128 l=128 act=silu", kRows);
  data.Make(engine());
  const auto stream = Got(MakeStream(device_));
  ASSERT_OK(BeginCapture(stream));
  ASSERT_OK(data.Launch(stream.get(), kRows));
  const auto exec = Got(Instantiate(device_, Got(EndCapture(stream))));
  for (const Routing& routing : kRoutings) {
    data.Route(RoutedTo(routing, kRows, 4, 16, 9));
    ASSERT_OK(data.Poison());
    ASSERT_OK(Replay(exec, stream));
    data.ExpectOutput(Got(data.Download()), kRows, routing.name);
  }
}

// More rows than the largest bucket takes in one pass are cut.
TEST_F(Grouped, LongLaunchesAreCut) {
  constexpr int64_t kRows = 20000;
  Sweep("grouped_matmul m=M experts=8 top=8 n=16 k=16", kRows, 8, 8, {kRows});
}

// Every form of tiles, on grids that take many turns and with pauses: so that a stage, a tile's
// slots or a peer's columns that are not waited for show.
TEST_F(Grouped, EveryFormEqualsTheReferenceWithPausesToo) {
  const std::vector<Form> forms =
      FormsOf({kWarpDots, k64x64, k64x256, k128x128, k128x256, kSwappedPairs128, kSwapped128,
               kSwapped64, kSwappedPairs64},
              true);
  const char* const lines[] = {"grouped_gated_ffn m=M experts=5 top=3 n=208 k=200 l=272 act=silu",
                               ("grouped_gated_ffn m=M experts=300 top=2 n=64 k=128 l=64 "
                                "act=gelu_tanh order=up_gate dtype=f16"),
                               "grouped_matmul m=M experts=2 top=1 n=1040 k=64"};
  constexpr int64_t kRows = 700;
  const Sizes sizes[] = {{kRows, 3, 5}, {kRows, 2, 300}, {kRows, 1, 2}};
  // 128 x 256 tiles of up to two steps of K; with pauses and without, swapped ones of one step.
  const int refused[] = {0, 9, 9};
  for (size_t i = 0; i < 3; ++i) {
    SCOPED_TRACE(lines[i]);
    ExpectForms(Routed(ports(), lines[i], kRows), forms, refused[i], {4, 132}, sizes[i],
                {0, 1, 257, kRows});
    if (HasFatalFailure()) return;
  }
}

// A warp's vectors of K in one batch or several, whole or not, of the last lanes or none; columns
// of a warp that are not there.
TEST_F(Grouped, WarpsSumAnyK) {
  const std::vector<Form> forms = FormsOf({kWarpDots}, false);
  constexpr int64_t kRows = 9;
  for (const char* line :
       {"grouped_matmul n=44 k=72", "grouped_matmul n=37 k=768 dtype=f16",
        "grouped_matmul n=36 k=2048", "grouped_matmul n=36 k=2312", "grouped_matmul n=36 k=2880",
        "grouped_matmul n=20 k=7168", "grouped_gated_ffn n=136 k=2120 l=40 act=silu",
        "grouped_gated_ffn n=200 k=2880 l=64 act=silu order=interleaved "
        "alpha=1.702 beta=1 limit=7 bias1=1 bias2=1",
        "scaled_grouped_matmul n=400 k=256 dtype=f32 scales=group",
        "scaled_grouped_matmul n=400 k=4224 dtype=f32 scales=group",
        "scaled_grouped_matmul n=400 k=4112 dtype=f32 scales=row"}) {
    SCOPED_TRACE(line);
    ExpectForms(Routed(ports(), absl::StrCat(line, " m=M experts=5 top=3"), kRows), forms, 0,
                {3, 132}, {kRows, 3, 5}, {0, 1, kRows});
    if (HasFatalFailure()) return;
  }
}

// The same of e4m3: scales of 128 of K come with the stages, whole ones multiply sums. A lone
// product has tiles of 128 rows and 256 columns too, a pair has not the registers.
TEST_F(Grouped, EveryFormOfScaledProductsEqualsTheReferenceWithPausesToo) {
  const std::vector<Form> forms = FormsOf({kThreadDots,
                                           kWarpDots,
                                           {64, 64, 8, 1},
                                           {64, 128, 4, 1},
                                           k64x256,
                                           {128, 128, 5, 1},
                                           k128x256,
                                           kSwapped64,
                                           kSwappedPairs64},
                                          true);
  constexpr int64_t kRows = 300;
  // Refused: the widest tiles of pairs; with pauses and without, swapped ones of one step of K.
  const std::pair<const char*, int> forms_of[] = {
      {"scaled_grouped_gated_ffn n=256 k=640 l=400 act=silu scales=group quantize=group", 1},
      {"scaled_grouped_gated_ffn n=256 k=640 l=400 act=silu scales=row quantize=row", 1},
      {"scaled_grouped_gated_ffn n=128 k=384 l=272 act=silu order=interleaved scales=group "
       "quantize=group",
       5},
      {"scaled_grouped_matmul n=400 k=640 dtype=f32 scales=group", 0},
      {"scaled_grouped_matmul n=400 k=656 dtype=f32 scales=row", 0}};
  for (const auto& [form, refused] : forms_of) {
    const std::string line = absl::StrCat(form, " m=M experts=5 top=3");
    SCOPED_TRACE(line);
    const Routing routings[] = {kRoutings[0], kRoutings[5], kRoutings[8]};
    ExpectForms(Routed(ports(), line, kRows), forms, refused, {8}, {kRows, 3, 5}, {1, kRows},
                routings);
    if (HasFatalFailure()) return;
  }
}

// A NaN among a row's codes or scales stays in its row; matrices that no id names are not read.
TEST_F(Grouped, NaNOfAScaledProductStaysInItsRow) {
  constexpr int64_t kRows = 48, kTop = 2;
  Routed data(ports(),
              "scaled_grouped_gated_ffn m=M experts=8 top=2 n=128 k=256 l=128 act=silu "
              "scales=group quantize=group",
              kRows);
  data.Make(engine());
  Ids ids;
  for (int64_t i = 0; i < kRows * kTop; ++i) ids.push_back(static_cast<int32_t>(i % 7));
  data.Route(ids);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::string x = data.input("x"), scales = data.input("scale_x"), w1 = data.input("w1");
  x[5 * 256 + 130] = 0x7f;
  std::memcpy(&scales[(9 * 2 + 1) * 4], &nan, 4);
  std::memset(&w1[w1.size() / 8 * 7], 0x7f, w1.size() / 8);
  data.Write("x", x);
  data.Write("scale_x", scales);
  data.Write("w1", w1);
  const auto got = Got(OutputValues(data.chain(), 0, kRows, Got(data.Run(kRows))));
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(std::isnan(got[i]), i / 128 == 5 || i / 128 == 9) << i;
  }
}

// Numbers of slots per expert around the largest number for one block and for a pair of blocks.
TEST_F(Grouped, SwappedTilesHaveAnyNumberOfSlots) {
  constexpr int64_t kRows = 1200;
  for (const char* line :
       {"grouped_gated_ffn m=M experts=4 top=1 n=128 k=128 l=256 act=silu",
        "scaled_grouped_gated_ffn m=M experts=4 top=1 n=256 k=256 l=256 act=silu scales=group "
        "quantize=group"}) {
    std::vector<Form> forms = FormsOf({kSwapped64, kSwappedPairs64}, false);
    if (line[0] == 'g') {
      forms.push_back({kSwappedPairs128});
      forms.push_back({kSwapped128});
    }
    std::vector<std::pair<std::string, Ids>> routings;
    for (const int64_t first : {0,   1,   7,   8,   9,   15,  16,  17,  31,  32,  33,  63,
                                64,  65,  95,  96,  97,  127, 128, 129, 130, 223, 224, 225,
                                240, 241, 255, 256, 257, 258, 383, 511, 512, 513, 768, 1199}) {
      Ids ids;
      for (int64_t i = 0; i < kRows; ++i) ids.push_back(i < first ? 2 : i % 5 == 0 ? -1 : 0);
      routings.push_back({absl::StrCat(first, " rows of expert 2"), ids});
    }
    SCOPED_TRACE(line);
    Routed data(ports(), line, kRows);
    ExpectForms(data, forms, 0, {132}, "ids", routings, {kRows});
    if (HasFatalFailure()) return;
  }
}

// c = silu(gate) * up with gate and up in turns, from `first` on, and biases of 5 experts; then the
// second product with biases. [experts, out, in], or in, out.
Chain BiasedFfn(int first, bool oi, const char* bias_type) {
  return ReadChain(
      "x: bf16[M,200]; ids: s32[M,2]; w1: const bf16[5,$0]; b1: const $4[5,416];"
      "y = grouped(x, w1$5, ids) + $6(gather(b1, ids));"
      "c = bf16(swiglu(y[:, :, $2:416:2], y[:, :, $3:416:2]));"
      "w2: const bf16[5,$1]; b2: const $4[5,272];"
      "out bf16(grouped(c, w2$5, ids) + $6(gather(b2, ids)))",
      oi ? "416,200" : "200,416", oi ? "272,208" : "208,272", first, 1 - first, bias_type,
      oi ? ".T" : "", absl::string_view(bias_type) == "f32" ? "" : "f32");
}

TEST_F(Grouped, BiasesAndColumnsInTurnsEqualTheReference) {
  constexpr int64_t kRows = 600;
  const std::vector<Form> forms = FormsOf(
      {kThreadDots, kWarpDots, k64x64, k64x256, k128x128, k128x256, kSwappedPairs128}, false);
  for (const int first : {0, 1}) {
    for (const bool oi : {true, false}) {
      // 128 x 256 tiles have no registers for a pair's biases; swapped ones and dots of warps are
      // for layout oi.
      SCOPED_TRACE(absl::StrCat("first ", first, oi ? " oi" : " io"));
      ExpectForms(Routed(ports(), BiasedFfn(first, oi, first == 0 ? "bf16" : "f32"), kRows), forms,
                  oi ? 1 : 3, {16}, {kRows, 2, 5}, {1, 257, kRows});
      if (HasFatalFailure()) return;
    }
  }
}

// Element-wise ends, with what they read of experts, slots and columns, in every form of tiles.
TEST_F(Grouped, AnyEndEqualsTheReferenceInEveryForm) {
  constexpr int64_t kRows = 300;
  const std::vector<Form> forms = FormsOf(
      {kThreadDots, kWarpDots, k64x64, k64x256, k128x128, k128x256, kSwappedPairs128, kSwapped64},
      false);
  for (const testing::GroupedEndCase& one : testing::GroupedEndCases()) {
    const bool biased_pair = absl::StrContains(one.name, "a pair with biases");
    SCOPED_TRACE(one.name);
    ExpectForms(Routed(ports(), one.Make(5, 2, 208, 200), kRows), forms, biased_pair ? 1 : 0, {16},
                {kRows, 2, 5}, {1, 157, kRows});
    if (HasFatalFailure()) return;
  }
}

// End offsets of `experts` groups of `rows` rows: even, one, none, falling, negative, past the
// rows, rows after the last, around the borders of tiles.
std::vector<std::pair<std::string, Ids>> EndsOf(int64_t rows, int64_t experts) {
  constexpr int32_t kLeast = std::numeric_limits<int32_t>::min();
  constexpr int32_t kMost = std::numeric_limits<int32_t>::max();
  std::vector<std::pair<std::string, Ids>> cases = {
      {"even", {}},    {"first", {}},  {"last", {}},   {"none", {}},   {"falling", {}},
      {"extreme", {}}, {"beyond", {}}, {"behind", {}}, {"borders", {}}};
  for (int64_t e = 0; e < experts; ++e) {
    const bool last = e + 1 == experts;
    const int64_t of[] = {rows * (e + 1) / experts,
                          rows,
                          last ? rows : 0,
                          0,
                          rows - rows * e / experts,
                          e % 3 == 0 ? kLeast
                          : last     ? kMost
                                     : -e,
                          3 * rows * (e + 1) / experts,
                          rows * (e + 1) / experts / 2,
                          std::min<int64_t>(rows, 64 * e + (e % 3) - 1)};
    for (size_t i = 0; i < cases.size(); ++i) {
      cases[i].second.push_back(static_cast<int32_t>(of[i]));
    }
  }
  return cases;
}

// A gated pair, or a product, times a number of each row, by ends.
Chain ByEnds(int64_t experts, int64_t n, int64_t k, bool gated, bool factor_on_sums,
             const char* dtype) {
  ChainReader r(
      "x: $3[M,$2]; w: const $3[$0,$1,$2]; ends: s32[$0]; factor: f32[M,1];"
      "y = grouped_by_ends(x, w.T, ends)",
      experts, gated ? 2 * n : n, k, dtype);
  constexpr char kWeigh[] = "y = y * spread(factor, y)";
  if (factor_on_sums) r.Add(kWeigh);
  if (gated) r.Add("y = swiglu(y[:, 0:$0], y[:, $0:$1])", n, 2 * n);
  if (!factor_on_sums) r.Add(kWeigh);
  r.Add("out $0(y)", dtype);
  return r.Finish();
}

TEST_F(Grouped, EndsOfAnyValuesEqualTheReferenceInEveryForm) {
  constexpr int64_t kRows = 700;
  const std::vector<Form> forms = FormsOf({kThreadDots, k64x64, k64x256, k128x128, k128x256,
                                           kSwappedPairs128, kSwapped128, kSwappedPairs64},
                                          false);
  const auto expect = [&](int64_t experts, int64_t n, int64_t k, bool gated, bool factor_on_sums,
                          const char* dtype) {
    SCOPED_TRACE(absl::StrCat(experts, " experts"));
    Routed data(ports(), ByEnds(experts, n, k, gated, factor_on_sums, dtype), kRows);
    // 128 x 256 tiles of up to two steps of K.
    ExpectForms(data, forms, k <= 128 ? 1 : 0, {20}, "ends", EndsOf(kRows, experts),
                {0, 1, 257, kRows});
  };
  expect(5, 208, 200, true, false, "bf16");
  expect(300, 64, 128, true, true, "f16");
  expect(1, 1040, 72, false, false, "bf16");
}

// Ends count all rows of a launch that is cut into passes.
TEST_F(Grouped, EndsOfLongLaunchesCountTheRowsOfAllPasses) {
  constexpr int64_t kRows = 20000;
  Routed data(ports(), ChainOf("grouped_matmul_ends m=M experts=7 n=64 k=64"), kRows);
  data.Make(engine());
  for (const auto& [name, ends] : EndsOf(kRows, 7)) {
    data.RouteEnds(ends);
    data.Expect(kRows, name);
  }
}

// gpt-oss's gate and biases, and weights that multiply the input as in Llama 4.
TEST_F(Grouped, OptionsOfServersEqualTheReferenceOnEveryRouting) {
  Sweep(
      "grouped_gated_ffn m=M experts=16 top=4 n=192 k=256 l=264 act=silu order=interleaved "
      "alpha=1.702 beta=1 limit=7 bias1=1 bias2=1",
      40, 4, 16, {0, 1, 17, 40});
  Sweep("grouped_gated_ffn m=M experts=16 top=1 n=192 k=256 l=264 act=silu weight=input", 300, 1,
        16, {1, 17, 300});
  Sweep("grouped_gated_ffn m=M experts=16 top=4 n=128 k=256 l=264 act=silu limit=0.5", 600, 4, 16,
        {1, 600});
}

// 128 experts of the narrow ones that servers cut over eight GPUs. K is short: the reference on the
// host is what takes long.
TEST_F(Grouped, ManyRowsOfAWideModel) {
  const char kLine[] = "grouped_gated_ffn m=M experts=128 top=8 n=192 k=192 l=256 act=silu";
  Sweep(kLine, 600, 8, 128, {600});
  Sweep(kLine, 1100, 8, 128, {1, 600, 1100});
}

}  // namespace
}  // namespace sinter::gpu_testing::grouped
