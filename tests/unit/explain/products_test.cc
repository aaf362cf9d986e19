// Pictures of kernels: what they say of a schedule, and that every dataflow has one.
#include "src/base/format.h"
#include "src/explain/explain.h"
#include "src/plan/product_family.h"
#include "tests/support/test.h"
#include "tests/unit/plan/sample_kernels.h"

namespace sinter {
namespace {

TEST(Picture, EveryDataflowHasARow) {
  for (int value = 1; value < 256; value++) {
    const auto dataflow = static_cast<Dataflow>(value);
    if (NameOf(dataflow) == "invalid") continue;
    EXPECT_EQ(RowOf(dataflow).dataflow, dataflow)
        << NameOf(dataflow) << " needs a row in src/product/dataflow";
  }
}

TEST(Picture, AnUnknownDataflowIsDrawnAsSuch) {
  EXPECT_THAT(std::string(RowOf(static_cast<Dataflow>(99)).title), HasSubstr("no drawing"));
}

TEST(Picture, PartsOfSharedMemoryAddUp) {
  for (const ProductSequence& p : {SampleS8(), SampleG7()}) {
    for (Dataflow dataflow : DataflowsOf(p)) {
      const KernelSpec spec = SampleSpec(p, dataflow);
      const ProductsPicture k = PictureOf(spec);
      int64_t sum = 0;
      for (const SharedPart& part : k.shared) sum += part.bytes * part.count;
      EXPECT_EQ(sum, SizesOf(ProductOf(spec).sequence, ProductOf(spec).schedule).shared_bytes)
          << NameOf(dataflow);
      EXPECT_EQ(k.products.size(), k.hand_overs.size() + 1) << NameOf(dataflow);
    }
  }
}

TEST(Picture, TheIntermediateTravelsThroughItsLevel) {
  const auto medium = [](Dataflow d) {
    return PictureOf(SampleSpec(SampleG7(), d)).hand_overs.at(0).medium;
  };
  EXPECT_EQ(medium(Dataflow::kGridExchange), Medium::kL2);
  EXPECT_EQ(medium(Dataflow::kClusterExchange), Medium::kDsm);
}

TEST(Picture, AResidualIsAddedToTheLastProduct) {
  ProductSequence p = SampleG7();
  SetResidual(&p, Residual::kAddedRounded);
  const ProductsPicture chain = PictureOf(SampleSpec(p, Dataflow::kClusterExchange));
  EXPECT_EQ(chain.products[0].formula, "c = relu(a w1)");
  EXPECT_EQ(chain.products[1].formula, "out = round(c w2) + residual");
  const ProductSequence one = SecondOf(p);
  const KernelSpec spec = SampleSpec(one, SampleSchedule(one, Dataflow::kProduct));
  EXPECT_EQ(PictureOf(spec).products[0].formula, "out = round(a w) + residual");
}

TEST(Picture, ScalingsStandBeforeTheirProducts) {
  ProductSequence p = SampleG7();
  SetScale(&p, 0, 0.125f);
  SetFactor(&p, 0, RowFactor::kF32);
  SetFactor(&p, 1, RowFactor::kElement);
  SetBias(&p, 0);
  const ProductsPicture chain = PictureOf(SampleSpec(p, Dataflow::kClusterExchange));
  EXPECT_EQ(chain.products[0].formula, "c = relu(0.125 factor1 (a w1) + bias1)");
  EXPECT_EQ(chain.products[1].formula, "out = factor2 (c w2)");
}

TEST(Picture, ANormOfTheRowsIsSpelledOut) {
  ProductSequence p = FirstOf(SampleS8());
  SetNorm(&p, 0, 0.5f);
  KernelSpec spec = SampleSpec(p, Dataflow::kProduct);
  EXPECT_EQ(PictureOf(spec).products[0].formula,
            "out = silu(rsqrt(mean(a^2) + 0.5) (a w)) * (rsqrt(mean(a^2) + 0.5) (a w_up))");
}

TEST(Picture, AProductOfAChainHasTheNamesOfItsOperands) {
  KernelSpec first = SampleSpec(SampleG7(), Dataflow::kProduct);
  ProductIn(&first).operands.back().buffer = kWorkspaceBuffer;  // its output
  EXPECT_EQ(PictureOf(first).products[0].formula, "out = relu(a w)");
  EXPECT_EQ(PictureOf(first).result_to, "L2");
  KernelSpec second =
      SampleSpec(SecondOf(SampleG7()), SampleSchedule(SampleG7(), Dataflow::kProduct));
  ProductIn(&second).operands.front().buffer = kWorkspaceBuffer;  // its rows
  EXPECT_EQ(PictureOf(second).products[0].formula, "out = a w");
  EXPECT_EQ(PictureOf(second).products[0].operands_from, "L2 and HBM");
}

TEST(Picture, FormulasNameGateActivationAndBias) {
  ProductSequence p = SampleS8();
  SetBias(&p, 0);
  SetBias(&p, 1);
  const ProductsPicture k = PictureOf(SampleSpec(p, Dataflow::kGridExchange));
  EXPECT_EQ(k.products[0].formula, "c = silu(a w1 + bias1) * (a w_up + bias_up)");
  EXPECT_EQ(k.products[1].formula, "out = c w2 + bias2");
}

TEST(Picture, WeightsAreDrawnAsTheyLieInMemory) {
  ProductSequence p = SampleS8();
  EXPECT_THAT(ProductsText(PictureOf(SampleSpec(p, Dataflow::kGridExchange))),
              HasSubstr("w1 w_up 3072 x 1024"));
  SetLayout(&p, Layout::kIO);
  EXPECT_THAT(ProductsText(PictureOf(SampleSpec(p, Dataflow::kGridExchange))),
              HasSubstr("w1 w_up 1024 x 3072"));
}

TEST(Picture, AConvolutionShowsItsWindows) {
  KernelSpec spec = SampleSpec(SampleC6(), SampleC6Schedule(Dataflow::kClusterExchange));
  const WindowPicture shown = *PictureOf(spec).window;
  EXPECT_EQ(shown.image_bytes, 28 * 28 * 128 * 2);
  EXPECT_EQ(shown.matrix_bytes, 9 * shown.image_bytes);
  EXPECT_THAT(shown.Lines(), ElementsAre(HasSubstr("3x3 taps on images of 28x28x128, stride "
                                                   "1x1, dilation 1x1, padding 1,1,1,1"),
                                         HasSubstr("28x28 windows an image, 1 images of 196"),
                                         "K steps by tap: 0 1 2 | 3 4 5 | 6 7 8"));
  EXPECT_FALSE(PictureOf(SampleSpec(SampleG7(), Dataflow::kClusterExchange)).window.has_value());
}

TEST(Picture, StepsOfATapMayBeSeveralOrSharedWithTheNext) {
  WindowPicture shown;
  shown.window.taps = {3, 3};
  shown.window.channels = 64;
  shown.step_columns = 128;
  EXPECT_EQ(shown.Lines()[2], "K steps by tap: 0 0 1 | 1 2 2 | 3 3 4");
  shown.window.channels = 256;
  EXPECT_EQ(shown.StepsOf(2), "4-5");
  shown.window.taps = {7, 7};
  EXPECT_LE(shown.Lines()[2].size(), 90u);
}

TEST(Picture, SplitAndTurnsAreSaid) {
  const std::string text = ProductsText(PictureOf(SampleSpec(SampleS8(), Dataflow::kGridExchange)));
  EXPECT_THAT(text, HasSubstr("K 3072 over 4 blocks (DSM)"));
  EXPECT_THAT(text, HasSubstr("up to 2 tiles a group"));
  EXPECT_THAT(ProductsText(PictureOf(SampleSpec(SampleG7(), Dataflow::kClusterExchange))),
              Not(HasSubstr("up to")));
}

TEST(Units, ShowThreeDigitsAndAUnit) {
  EXPECT_EQ(SizeText(49152), "48 KiB");
  EXPECT_EQ(SizeText(1536), "1.50 KiB");
  EXPECT_EQ(SizeText(96), "96 B");
  EXPECT_EQ(AmountText(19.5e6, "B"), "19.5 MB");
  EXPECT_EQ(AmountText(999.7e3, "B"), "1.00 MB");
  EXPECT_EQ(AmountText(0, "B"), "0 B");
  EXPECT_EQ(RateText(4.55e6, "B"), "4.55 TB/s");
  EXPECT_EQ(RateText(790e6, "FLOP"), "790 TFLOP/s");
}

}  // namespace
}  // namespace sinter
