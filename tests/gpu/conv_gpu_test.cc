// Convolutions on the kernels of GEMMs: M counts images, rows count pixels of the result. A read
// outside a buffer spoils the result, and a write outside it is detected.
#include "tests/gpu/gpu_tests.h"

namespace sinter::gpu_testing::conv {
namespace {

using Choice = PrepareOptions::Choice;

constexpr int kRuns = 3;

class Convolutions : public GpuTest {
 protected:
  // At each number of images and by each plan that there is; the unfused one always is.
  static void Expect(const std::string& line, const std::vector<int64_t>& batches) {
    const Problem problem = Got(ParseProblem(line));
    SCOPED_TRACE(line);
    Expect(problem.chain, batches);
  }
  static void Expect(const Chain& chain, const std::vector<int64_t>& batches) {
    for (const int64_t images : batches) {
      SCOPED_TRACE(absl::StrCat("images ", images));
      const auto data = Of(chain, images, static_cast<uint64_t>(images));
      for (const Choice choice : {Choice::kBest, Choice::kFused, Choice::kUnfused}) {
        const auto plan = engine()->Prepare(chain, images, {.choice = choice});
        if (!plan.ok() && choice == Choice::kFused) continue;
        ASSERT_OK(plan);
        ExpectRight(*data, *plan);
      }
    }
  }

  static std::unique_ptr<DeviceChain> Of(const Chain& chain, int64_t images, uint64_t seed) {
    return Got(DeviceChain::Make(ports(), chain, images, Got(RandomInputs(chain, images, seed)),
                                 BoundsOf(chain, 0)));
  }
  static void ExpectRight(DeviceChain& data, const PreparedPlanPtr& plan) {
    ExpectCorrect(data, plan, data.rows(), kRuns);
    EXPECT_OK(data.CheckSurroundings()) << plan->plan().ToText();
  }

  static std::vector<int64_t> OneToNine() { return {1, 2, 3, 4, 5, 6, 7, 8, 9}; }
};

// FlashFuser's C1 to C4 and, in addition, extents that no tile size divides.
TEST_F(Convolutions, C1) {
  Expect("conv_chain b=M ic=64 h=56 w=56 oc1=256 oc2=64 k1=1 k2=1 act=relu", OneToNine());
}
TEST_F(Convolutions, C2) {
  Expect("conv_chain b=M ic=128 h=28 w=28 oc1=512 oc2=128 k1=1 k2=1 act=relu", OneToNine());
}
TEST_F(Convolutions, C3) {
  Expect("conv_chain b=M ic=256 h=14 w=14 oc1=1024 oc2=256 k1=1 k2=1 act=relu", OneToNine());
}
TEST_F(Convolutions, C4) {
  Expect("conv_chain b=M ic=512 h=7 w=7 oc1=2048 oc2=512 k1=1 k2=1 act=relu", OneToNine());
}
TEST_F(Convolutions, Ragged) {
  Expect("conv_chain b=M ic=40 h=5 w=7 oc1=72 oc2=24 k1=1 k2=1 act=relu", OneToNine());
  Expect(
      "conv_chain b=M ic=200 h=13 w=11 oc1=136 oc2=327 k1=1 k2=1 act=silu bias1=1 bias2=1 "
      "dtype=f16",
      OneToNine());
  Expect("conv_chain b=M ic=8 h=1 w=1 oc1=8 oc2=8 k1=1 k2=1 act=identity", OneToNine());
}
TEST_F(Convolutions, HwioFilters) {
  Expect("conv_chain b=M ic=64 h=9 w=6 oc1=136 oc2=72 k1=1 k2=1 act=relu weights=HWIO bias2=1",
         OneToNine());
}
TEST_F(Convolutions, ScaleBiasActivationAndResidual) {
  for (const char* residual : {"none", "before", "behind"}) {
    for (const int scale : {0, 1}) {
      Expect(absl::StrCat("conv b=M ic=72 h=7 w=5 oc=136 k=1 act=relu bias=1 scale=", scale,
                          " residual=", residual),
             OneToNine());
    }
  }
}

// Filters of several taps: rows by im2col loads. FlashFuser's C5 to C8, then every stride, dilation
// and padding, images that are higher than wide, taps that lie outside, one result pixel.
TEST_F(Convolutions, C5) {
  Expect("conv_chain b=M ic=64 h=56 w=56 oc1=64 oc2=256 k1=3 k2=1 act=relu", {1, 2, 3, 8});
}
TEST_F(Convolutions, C6) {
  Expect("conv_chain b=M ic=128 h=28 w=28 oc1=128 oc2=512 k1=3 k2=1 act=relu", {1, 2, 5, 9});
}
TEST_F(Convolutions, C7) {
  Expect("conv_chain b=M ic=256 h=14 w=14 oc1=256 oc2=1024 k1=3 k2=1 act=relu", {1, 3, 8});
}
TEST_F(Convolutions, C8) {
  Expect("conv_chain b=M ic=512 h=7 w=7 oc1=512 oc2=2048 k1=3 k2=1 act=relu", {1, 2, 4, 9});
}
TEST_F(Convolutions, Windows) {
  for (const char* window :
       {"h=9 w=7 k=3", "h=7 w=12 k=3 pad=0", "h=13 w=6 k=2 pad=0,1,0,1", "h=11 w=8 k=5",
        "h=15 w=13 k=7 stride=2 pad=3", "h=9 w=10 k=1,3", "h=9 w=10 k=3,1", "h=8 w=9 k=3 stride=2",
        "h=7 w=7 k=3 stride=3,1", "h=9 w=11 k=3 dilation=2", "h=12 w=9 k=3 dilation=1,3 stride=2,1",
        "h=6 w=5 k=3 pad=1,0,0,2", "h=3 w=4 k=2 pad=3,0,0,3", "h=4 w=3 k=4,3 pad=0", "h=1 w=1 k=3",
        "h=8 w=8 k=1 stride=2 pad=0"}) {
    for (const char* channels : {"ic=64 oc=40", "ic=192 oc=136 weights=HWIO dtype=f16"}) {
      Expect(absl::StrCat("conv b=M ", window, " ", channels, " act=relu bias=1"), {1, 3, 8});
    }
  }
}
// A tap's channels end inside a stage's rows: zeros follow, and not the next tap.
TEST_F(Convolutions, WindowsOfFewOrOddChannels) {
  for (const int channels : {8, 16, 24, 40, 72, 136}) {
    for (const char* window : {"h=9 w=7 k=3", "h=11 w=13 k=7 stride=2 pad=3",
                               "h=8 w=9 k=2,3 dilation=1,2 pad=0,1,1,0"}) {
      for (const char* weights : {"OHWI", "HWIO dtype=f16"}) {
        Expect(absl::StrCat("conv b=M ", window, " ic=", channels, " oc=", channels + 32,
                            " act=relu bias=1 weights=", weights),
               {1, 3, 8});
      }
    }
  }
}
TEST_F(Convolutions, ChainsOfFewOrOddChannels) {
  Expect("conv_chain b=M ic=40 h=14 w=14 oc1=72 oc2=136 k1=3 k2=1 act=relu", OneToNine());
  Expect("conv_chain b=M ic=8 h=28 w=28 oc1=64 oc2=64 k1=3 k2=1 act=relu bias1=1", {1, 2, 8});
  Expect("conv_chain b=M ic=136 h=7 w=9 oc1=136 oc2=40 k1=3 k2=1 act=silu weights=HWIO", {1, 5});
}

// In groups of 8 to 112 channels, which share tiles or have their own; of 4 and of 1 with several
// results, which are joined; of 24, of which the last stands alone.
TEST_F(Convolutions, InGroups) {
  for (const char* groups :
       {"ic=128 oc=128 groups=16", "ic=128 oc=256 groups=16", "ic=64 oc=32 groups=4",
        "ic=72 oc=72 groups=3", "ic=216 oc=216 groups=9", "ic=192 oc=192 groups=4",
        "ic=224 oc=224 groups=2", "ic=448 oc=448 groups=4", "ic=128 oc=128 groups=32",
        "ic=16 oc=32 groups=16", "ic=256 oc=512 groups=2 weights=HWIO dtype=f16"}) {
    for (const char* window : {"h=9 w=7 k=3", "h=12 w=10 k=3 stride=2 pad=1", "h=8 w=8 k=1",
                               "h=9 w=11 k=3 dilation=2", "h=6 w=5 k=2 pad=1,0,0,2"}) {
      Expect(absl::StrCat("conv b=M ", window, " ", groups, " act=relu scale=1 bias=1"), {1, 3, 8});
    }
  }
  Expect("conv b=M ic=144 h=14 w=14 oc=144 k=3 groups=6 act=silu bias=1 residual=before",
         OneToNine());
}
// The positional convolution of wav2vec2, of one image and of several.
TEST_F(Convolutions, LinesInGroups) {
  Expect("conv b=M ic=768 h=1 w=99 oc=768 k=1,128 pad=0,0,64,64 groups=16 bias=1", {1, 4});
  Expect("conv b=M ic=96 h=1 w=64 oc=96 k=1,9 pad=0,0,4,4 groups=2 act=relu", {1, 2, 7});
}

// Convolution, batch norm folded into a scale and a bias, ReLU, a convolution of 1 x 1, the same.
TEST_F(Convolutions, FoldedBatchNorms) {
  for (const int64_t taps : {1, 3}) {
    for (const FilterLayout filter : {FilterLayout::kOHWI, FilterLayout::kHWIO}) {
      for (const DType dtype : {DType::kBF16, DType::kF16}) {
        ConvSpec spec{.height = 9, .width = 7, .channels = 64, .filter = filter, .dtype = dtype};
        spec.layers.resize(2);
        for (ConvLayer& layer : spec.layers) layer.scale = layer.bias = true;
        spec.layers[0].out = 72;
        spec.layers[0].taps = {taps, taps};
        spec.layers[0].conv.pads = {taps / 2, taps / 2, taps / 2, taps / 2};
        spec.layers[0].act = Activation::kRelu;
        spec.layers[1].out = 136;
        SCOPED_TRACE(absl::StrCat("taps ", taps, ", ", NameOf(dtype), ", filter layout ",
                                  static_cast<int>(filter)));
        Expect(Got(MakeConvChain(spec)), {1, 3, 8});
      }
    }
  }
}

TEST_F(Convolutions, EveryBatchOfAWindow) {
  Expect("conv b=M ic=128 h=7 w=9 oc=72 k=3 act=relu bias=1 residual=behind", OneToNine());
  Expect("conv b=M ic=64 h=5 w=6 oc=64 k=3 act=relu scale=1 bias=1 residual=before", OneToNine());
  Expect("conv b=M ic=72 h=7 w=6 oc=40 k=3 act=silu bias=1 residual=before", OneToNine());
}
// The second takes windows of what the first writes: two kernels.
TEST_F(Convolutions, WindowsOfAResult) {
  Expect("conv_chain b=M ic=64 h=9 w=6 oc1=128 oc2=64 k1=1 k2=3 act=relu bias1=1", {1, 2, 5, 9});
  Expect("conv_chain b=M ic=64 h=9 w=6 oc1=64 oc2=40 k1=3 k2=3 act=relu stride=2", {1, 4, 7});
}

// More images than a bucket: passes end between images.
TEST_F(Convolutions, LaunchesOfSeveralPasses) {
  const std::string chain = "conv_chain b=M ic=16 h=56 w=56 oc1=32 oc2=16 k1=1 k2=1 act=relu";
  ASSERT_EQ(LargestBucketOf(ParseProblem(chain)->chain), 32);
  Expect(chain, {32, 33, 71});
  Expect("conv b=M ic=16 h=56 w=56 oc=24 k=1 act=relu scale=1 bias=1 residual=before", {33, 71});
  Expect("conv_chain b=M ic=64 h=56 w=56 oc1=16 oc2=16 k1=3 k2=1 act=relu", {33, 65});
}

// A bucket's plan serves every batch up to it, in buffers of that batch.
TEST_F(Convolutions, OnePlanServesItsWholeBucket) {
  const auto problem =
      ParseProblem("conv_chain b=M ic=64 h=14 w=14 oc1=128 oc2=64 k1=1 k2=1 act=relu");
  const auto plan = Got(engine()->Prepare(problem->chain, 16, {}));
  for (int64_t images = 1; images <= 16; ++images) {
    SCOPED_TRACE(absl::StrCat("images ", images));
    ExpectRight(*Of(problem->chain, images, 5), plan);
  }
}

}  // namespace
}  // namespace sinter::gpu_testing::conv
