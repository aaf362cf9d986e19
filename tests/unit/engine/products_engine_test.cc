// Sequences of products from Prepare to the last launch: real planning and code generation, and a
// device that computes, kernel by kernel, what each spec says, on the buffers that it names.
#include "absl/strings/numbers.h"
#include "src/reference/compare.h"
#include "tests/unit/engine/engine_tests.h"

namespace sinter {
namespace {

using testing::FakeLaunch;
using Choice = PrepareOptions::Choice;

float Read(DType dtype, const uint16_t* at) {
  return dtype == DType::kF16 ? F16ToF32(*at) : BF16ToF32(*at);
}
uint16_t Round(DType dtype, double value) {
  const auto narrow = static_cast<float>(value);
  return dtype == DType::kF16 ? F32ToF16(narrow) : F32ToBF16(narrow);
}

double Activate(Activation act, double x) {
  switch (act) {
    case Activation::kRelu:
      return std::max(x, 0.0);
    case Activation::kSilu:
      return x / (1 + std::exp(-x));
    default:
      return x;
  }
}

// Computes one kernel's spec. Rows of C and of the result are rounded where they are stored.
class SpecRun {
 public:
  SpecRun(const KernelSpec& spec, const BufferList& buffers, int64_t m)
      : spec_(spec), p_(ProductOf(spec).sequence), buffers_(buffers), m_(m * p_.rows_per_m) {}

  void Run() const {
    const OperandBinding* kept = Find(Role::kC);
    const int64_t n = p_.front().n, k = p_.front().k, l = p_.back().n;
    std::vector<uint16_t> c(static_cast<size_t>(m_ * n));
    Multiply(At(Role::kA), StrideOf(Role::kA), k, n, Role::kW, Role::kBias, c.data(), n);
    if (p_.size() == 1) return Store(c.data(), n);
    const uint16_t* rows = c.data();
    if (kept != nullptr) {
      std::memcpy(At(Role::kC), c.data(), c.size() * 2);
      rows = At(Role::kC);
    }
    std::vector<uint16_t> e(static_cast<size_t>(m_ * l));
    Multiply(rows, n, n, l, Role(Role::kW, 1), Role(Role::kBias, 1), e.data(), l);
    Store(e.data(), l);
  }

 private:
  const OperandBinding* Find(Role role) const {
    for (const OperandBinding& b : ProductOf(spec_).operands) {
      if (b.role == role) return &b;
    }
    return nullptr;
  }
  uint16_t* At(Role role) const {
    const OperandBinding* b = Find(role);
    if (b == nullptr) return nullptr;
    const DevicePtr base = b->buffer < 0 ? buffers_.workspace : buffers_.pointers[b->buffer];
    return reinterpret_cast<uint16_t*>(base + b->offset_bytes);
  }
  int64_t StrideOf(Role role) const { return Find(role)->row_stride; }

  // What the product of `weight` is multiplied by in row `r`.
  double Scale(Role weight, int64_t r) const {
    const bool second = weight == Role(Role::kW, 1);
    const MatrixProduct& product = second ? p_.back() : p_.front();
    const double constant = product.epilogue.scale();
    const RowFactor factor = FactorOf(product);
    if (factor == RowFactor::kNone) return constant;
    const uint16_t* factors = At(second ? Role(Role::kFactor, 1) : Role::kFactor);
    if (factor == RowFactor::kElement) return constant * Read(p_.element(), factors + r);
    return constant * reinterpret_cast<const float*>(factors)[r];
  }

  // What the product of `weight` is multiplied by in a column.
  double ColumnScale(Role weight, int64_t column) const {
    const Role role = weight == Role(Role::kW, 1) ? Role(Role::kScaleW, 1)
                      : weight == Role::kWUp      ? Role::kScaleUp
                                                  : Role::kScaleW;
    const uint16_t* scales = At(role);
    if (scales == nullptr) return 1;
    const DType element = ShapeOf(p_, role).element;
    if (element == DType::kF32) return reinterpret_cast<const float*>(scales)[column];
    return Read(element, scales + column);
  }

  double Sum(const uint16_t* row, int64_t k, Role weight, Role bias, int64_t column,
             double scale) const {
    const uint16_t* w = At(weight);
    const int64_t stride = StrideOf(weight);
    const bool oi = p_.layout() == Layout::kOI;
    double sum = 0;
    for (int64_t i = 0; i < k; ++i) {
      const uint16_t* at = w + (oi ? column * stride + i : i * stride + column);
      sum += double{Read(p_.element(), row + i)} * Read(p_.element(), at);
    }
    return scale * ColumnScale(weight, column) * sum +
           (At(bias) == nullptr ? 0 : Read(p_.element(), At(bias) + column));
  }

  void Multiply(const uint16_t* rows, int64_t stride, int64_t k, int64_t n, Role weight, Role bias,
                uint16_t* out, int64_t out_stride) const {
    const bool first = weight == Role::kW;
    for (int64_t r = 0; r < m_; ++r) {
      for (int64_t column = 0; column < n; ++column) {
        const double scale = Scale(weight, r);
        double x = Sum(rows + r * stride, k, weight, bias, column, scale);
        x = Activate((first ? p_.front() : p_.back()).epilogue.activation(), x);
        if (first && p_.front().pair) {
          x *= Sum(rows + r * stride, k, Role::kWUp, Role::kBiasUp, column, scale);
        }
        out[r * out_stride + column] = Round(p_.element(), x);
      }
    }
  }

  void Store(const uint16_t* from, int64_t columns) const {
    for (int64_t r = 0; r < m_; ++r) {
      std::memcpy(At(Role::kOut) + r * StrideOf(Role::kOut), from + r * columns,
                  static_cast<size_t>(columns) * 2);
    }
  }

  const KernelSpec& spec_;
  const ProductSequence& p_;
  const BufferList& buffers_;
  const int64_t m_;
};

// A world that plans and generates for real. Launches are named "k<index of the spec>", as their
// recipes tell: equal code may be loaded for several.
struct ProductsWorld {
  FakeWorld world;
  std::vector<KernelSpec> specs;
  std::map<std::string, size_t> launches;  // index by the bytes of a recipe
  std::mutex mutex;

  explicit ProductsWorld(absl::string_view line) {
    world.chain = ParseProblem(line)->chain;
    world.resident_clusters = 1000;
    world.plan = PlanChain;
    world.generate = [this](const KernelSpec& spec, const DeviceModel& model) {
      absl::StatusOr<GeneratedKernel> kernel = Generate(spec, model);
      if (kernel.ok()) {
        // The entry tells codes apart, the recipe launches of one code.
        kernel->recipe.entry = kernel->request.entry = kernel->request.name =
            absl::StrCat("k", Sha256(kernel->request.source).Hex());
        Learn(spec, *kernel);
      }
      return kernel;
    };
    world.name = [this](const LaunchRecipe& recipe) {
      std::lock_guard<std::mutex> lock(mutex);
      return absl::StrCat("k", launches.at(recipe.Encode()));
    };
    world.poisons = true;
    world.run = [this](const std::string& name, const BufferList& buffers, int64_t m) {
      size_t index = 0;
      if (!absl::SimpleAtoi(name.substr(1), &index)) return absl::InternalError(name);
      SpecRun(specs[index], buffers, m).Run();
      return absl::OkStatus();
    };
  }

  void Learn(const KernelSpec& spec, const GeneratedKernel& kernel) {
    std::lock_guard<std::mutex> lock(mutex);
    if (launches.try_emplace(kernel.recipe.Encode(), specs.size()).second) specs.push_back(spec);
  }
  // The index of the first spec that is launched as `spec` is.
  size_t IndexOf(const KernelSpec& spec) {
    const std::string recipe = world.generate(spec, world.model)->recipe.Encode();
    std::lock_guard<std::mutex> lock(mutex);
    return launches.at(recipe);
  }
};

// Prepares, binds poisoned buffers, launches, and compares the output with the reference.
void ExpectRight(ProductsWorld& w, const PreparedPlan& plan, int64_t m) {
  const Chain& chain = w.world.chain;
  const auto inputs = RandomInputs(chain, m, 5).value();
  std::vector<int64_t> sizes;
  for (const std::string& input : inputs) sizes.push_back(static_cast<int64_t>(input.size()));
  sizes.push_back(OutputBytes(chain, 0, m).value());
  FakeBuffers buffers(sizes);
  FakeBuffers workspace({static_cast<int64_t>(std::max<uint64_t>(plan.WorkspaceBytes(), 256))});
  std::vector<const void*> pointers;
  std::vector<DevicePtr> caller = buffers.pointers();
  for (size_t i = 0; i < inputs.size(); ++i) {
    std::memcpy(reinterpret_cast<void*>(buffers.pointers()[i]), inputs[i].data(), inputs[i].size());
    pointers.push_back(inputs[i].data());
    caller[static_cast<size_t>(chain.InputOrder()[i])] = buffers.pointers()[i];
  }
  const auto bound = Got(plan.Bind(caller, workspace.pointers()[0]));
  ASSERT_OK(plan.Launch(*bound, nullptr, m, false));
  const auto want = Got(RunReferenceF64(chain, m, pointers, {1, nullptr, true, {}}));
  const DType dtype = chain.output_type(0).dtype;
  const ErrorMeasure error =
      CompareBuffer(reinterpret_cast<void*>(buffers.pointers().back()), dtype, want[0]);
  EXPECT_TRUE(error.Within(BoundsOf(chain, 0))) << error.ToString() << "\n" << plan.Summary();
}

constexpr const char* kLines[] = {
    "products m=M k=64 n=128,64,64 act=relu,identity,identity",
    "products m=M k=64 n=128,64,64 act=relu,identity,identity layout=io bias=1",
    "products m=M k=64 n=96,64,48 act=silu,identity,identity gated=1,0,0 bias=0,1,1",
    "products m=M k=64 n=64,128,64 act=identity,silu,identity gated=0,1,0 dtype=f16",
    ("products m=M k=72 n=64,128,64,96,64,56 act=relu,silu,identity,identity,relu,identity "
     "gated=0,1,0,0,0,0"),
    "conv_chain b=M ic=64 h=3 w=5 oc1=128 oc2=64 k1=1 k2=1 act=relu bias2=1",
    "conv_chain b=M ic=64 h=2 w=2 oc1=128 oc2=64 k1=1 k2=1 act=relu weights=HWIO bias1=1",
};

TEST(ProductsEngineTest, BothChoicesComputeTheChain) {
  for (const char* line : kLines) {
    ProductsWorld w(line);
    const auto engine = w.world.MakeEngine();
    for (Choice choice : {Choice::kBest, Choice::kFused, Choice::kUnfused}) {
      SCOPED_TRACE(absl::StrCat(line, " choice ", static_cast<int>(choice)));
      const auto plan = Got(engine->Prepare(w.world.chain, 17, {.choice = choice}));
      if (choice != Choice::kBest) {
        EXPECT_EQ(plan->plan().name(), choice == Choice::kFused ? "fused" : "unfused");
      }
      const int64_t bucket = plan->plan().bucket;  // as many rows as the workspace has room for
      for (const int64_t m : {int64_t{1}, int64_t{17}, bucket}) ExpectRight(w, *plan, m);
    }
  }
}

// A pass never ends inside an image: each takes as many whole ones as its bucket has.
TEST(ProductsEngineTest, LongLaunchesOfConvolutionsAreCutBetweenImages) {
  ProductsWorld w("conv_chain b=M ic=64 h=56 w=56 oc1=256 oc2=64 k1=1 k2=1 act=relu");
  w.world.poisons = false;  // there is no memory
  w.world.run = [](const std::string&, const BufferList&, int64_t) { return absl::OkStatus(); };
  const auto engine = w.world.MakeEngine();
  for (const int64_t m : {1, 8, 32, 33, 100}) {
    const auto plan = Got(engine->Prepare(w.world.chain, m, {}));
    EXPECT_EQ(plan->plan().bucket, std::min<int64_t>(BucketOf(m), 32));
    constexpr DevicePtr kApart = DevicePtr{1} << 32;  // nothing is read or written
    const auto bound = Got(plan->Bind({kApart, 2 * kApart, 3 * kApart, 4 * kApart}, 5 * kApart));
    w.world.launches.clear();
    ASSERT_TRUE(plan->Launch(*bound, nullptr, m, false).ok());
    int64_t images = 0;
    for (const FakeLaunch& launch : w.world.launches) {
      EXPECT_EQ(launch.row_offset % 32, 0);
      EXPECT_EQ(launch.m, std::min<int64_t>(32, m - launch.row_offset));
      images += launch.m;
    }
    EXPECT_EQ(images, static_cast<int64_t>(plan->plan().kernels.size()) * m);
  }
}

TEST(ProductsEngineTest, KernelsInsideAPlanStartEarlyUnlessTheyAreCooperative) {
  ProductsWorld w(kLines[4]);
  const auto plan = Got(w.world.MakeEngine()->Prepare(w.world.chain, 17, {}));
  ExpectRight(w, *plan, 17);
  const std::vector<PlannedKernel>& kernels = plan->plan().kernels;
  ASSERT_EQ(w.world.launches.size(), kernels.size());
  for (size_t i = 0; i < kernels.size(); ++i) {
    EXPECT_EQ(w.world.launches[i].kernel, absl::StrCat("k", w.IndexOf(kernels[i].spec)));
    const bool waits = ProductOf(kernels[i].spec).schedule.dataflow == Dataflow::kGridExchange;
    EXPECT_EQ(w.world.launches[i].pdl_edge, i > 0 && !waits);
  }
}

TEST(ProductsEngineTest, TheSelfCheckAndTheWarmStartTakeThem) {
  ProductsWorld cold(kLines[2]);
  PrepareOptions options{.verify = true, .choice = Choice::kFused};
  const auto engine = cold.world.MakeEngine();
  const auto plan = Got(engine->Prepare(cold.world.chain, 16, options));
  EXPECT_EQ(plan->plan().name(), "fused");
  EXPECT_THAT(plan->Summary(), HasSubstr(", verified"));
  EXPECT_THAT(plan->Explain(), HasSubstr("note: products 1"));
  EXPECT_FALSE(plan->Svg().empty());

  ProductsWorld warm(kLines[2]);
  warm.world.disk = cold.world.disk;
  const auto again = warm.world.MakeEngine();
  const auto found = Got(again->Prepare(warm.world.chain, 16, options));
  EXPECT_EQ(again->Stats().searched, 0u);
  EXPECT_EQ(found->plan().PlanDigest(), plan->plan().PlanDigest());
}

TEST(ProductsEngineTest, ChainsOfConstantRowsIgnoreM) {
  ProductsWorld w(kLines[0]);
  ProductsSpec spec{.m = Dim::Constant(9), .k = 64};
  spec.products.assign(3, {false, Activation::kRelu, 64, false});
  w.world.chain = *MakeProductsChain(spec);
  const auto plan = Got(w.world.MakeEngine()->Prepare(w.world.chain, 9, {}));
  ExpectRight(w, *plan, 9);
  for (const FakeLaunch& launch : w.world.launches) EXPECT_EQ(launch.m, 9);
}

// Scaled by constants, factors of rows and scales of columns: planned, generated, bound, launched,
// and kept; a plan of the same chain without them is another one.
TEST(ProductsEngineTest, ScaledProductsAreComputedAndKept) {
  FfnSpec spec{.gated = true, .n = 64, .k = 128, .l = 64, .act = Activation::kSilu, .bias1 = true};
  const Chain plain = *MakeFfnChain(spec);
  spec.scale1 = 0.25;
  spec.factor1 = spec.factor2 = true;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    spec.factor_dtype = dtype;
    spec.scale_w1 = spec.scale_w2 = true;
    spec.scale_w_dtype = dtype == DType::kF32 ? DType::kBF16 : DType::kF32;
    for (Choice choice : {Choice::kFused, Choice::kUnfused}) {
      PrepareOptions options{.choice = choice};
      ProductsWorld w(kLines[0]);
      w.world.chain = *MakeFfnChain(spec);
      const auto plan = Got(w.world.MakeEngine()->Prepare(w.world.chain, 17, options));
      for (int64_t m : {1, 17}) ExpectRight(w, *plan, m);

      ProductsWorld warm(kLines[0]);
      warm.world.disk = w.world.disk;
      const auto again = warm.world.MakeEngine();
      const auto found = Got(again->Prepare(w.world.chain, 17, options));
      EXPECT_EQ(again->Stats().searched, 0u);
      EXPECT_EQ(found->plan().PlanDigest(), plan->plan().PlanDigest());
      ASSERT_TRUE(again->Prepare(plain, 17, options).ok());
      EXPECT_EQ(again->Stats().searched, 1u);
    }
  }
}

TEST(ProductsEngineTest, OtherProductsAreRefusedWithTheOp) {
  ProductsWorld w("rmsnorm rows=M cols=64");
  w.world.chain = ReadChain("out {f32[2048,2048]} @ {f32[2048,2048]}");
  const absl::Status status = w.world.MakeEngine()->Prepare(w.world.chain, 9, {}).status();
  EXPECT_EQ(StatusNumber(status), static_cast<int32_t>(ErrorCode::kNoLegalPlan));
  EXPECT_TRUE(Says(status, "input 0 and input 1 are f32"));
}

}  // namespace
}  // namespace sinter
