// Source and recipe of fixed kernels of products, byte for byte.
#include "tests/golden/codegen/kernel_text.h"
#include "tests/support/test.h"
#include "tests/unit/plan/sample_kernels.h"

namespace sinter {
namespace {

TEST(CodegenGolden, SourcesAndRecipes) {
  ProductSequence residual = SampleG7();
  SetResidual(&residual, Residual::kAddedRounded);
  ProductSequence scaled = SampleS8();
  SetScale(&scaled, 0, 0.125f);
  SetFactor(&scaled, 0, RowFactor::kF32);
  SetScale(&scaled, 1, 1);
  SetFactor(&scaled, 1, RowFactor::kElement);
  const std::pair<const char*, ProductSequence> problems[] = {
      {"s8", SampleS8()}, {"g7", SampleG7()}, {"g7-residual", residual}, {"s8-scaled", scaled}};
  for (const auto& [id, problem] : problems) {
    for (Dataflow dataflow : DataflowsOf(problem)) {
      KernelSpec spec = SampleSpec(problem, dataflow);
      if (dataflow == Dataflow::kProduct && ResidualOf(problem) != Residual::kNone) {
        spec = SampleSpec(SecondOf(problem), ProductOf(spec).schedule);
      }
      ExpectGoldenKernel(absl::StrCat(id, "-", NameOf(dataflow)), spec);
    }
  }
}

// A gate/up pair of codes whose rows' scales are column-major, M elements apart, with padded block
// scales; and a GEMM with vector scales of rows and columns that take every second element.
TEST(CodegenGolden, StridedScales) {
  Schedule s = ReadSchedule("product bm64 wg1x1 bk128 st4 grid16 first 64/1");
  ProductSequence pair = MakeSequence(64, MakeProduct(1024, 512, Activation::kSilu, true));
  SetCodes(&pair, DType::kBF16, ScaleKind::kBlock, ScaleKind::kBlock);
  SetScaleStrides(&pair, 0);
  ExpectGoldenKernel("codes-strided-blocks-product", SampleSpec(pair, s));
  ProductSequence vectors = MakeSequence(64, MakeProduct(1024, 512));
  SetCodes(&vectors, DType::kF32, ScaleKind::kVector, ScaleKind::kVector);
  SetScaleStrides(&vectors, 0);
  ExpectGoldenKernel("codes-strided-vectors-product", SampleSpec(vectors, s));
}

// The end of a residual block.
TEST(CodegenGolden, ActivatedSums) {
  ProductSequence chain = SampleC6();
  SetBias(&chain, 1);
  SetResidual(&chain, Residual::kAdded);
  SetSumActivation(&chain, Activation::kRelu);
  ExpectGoldenKernel("c6-activated-sum-cluster-exchange",
                     SampleSpec(chain, SampleC6Schedule(Dataflow::kClusterExchange)));
  Schedule product = SampleC6Schedule(Dataflow::kProduct);
  product.first.split_k = product.cluster = 1;
  ExpectGoldenKernel("c6-activated-sum-product", SampleSpec(SecondOf(chain), product));
}

// Folded batch norms of both convolutions, and scales of a gated pair's columns.
TEST(CodegenGolden, ScalesOfColumns) {
  ProductSequence chain = SampleC6();
  for (int i = 0; i < 2; ++i) {
    SetColumnScale(&chain, i, DType::kBF16);
    SetBias(&chain, i);
  }
  for (Dataflow dataflow : {Dataflow::kProduct, Dataflow::kClusterExchange}) {
    ExpectGoldenKernel(absl::StrCat("c6-column-scales-", NameOf(dataflow)),
                       SampleSpec(SampleProblem(chain, dataflow), SampleC6Schedule(dataflow)));
  }
  ProductSequence gated = SampleS8();
  SetColumnScale(&gated, 0, DType::kF32);
  SetFactor(&gated, 0, RowFactor::kF32);
  SetColumnScale(&gated, 1, DType::kF32);
  ExpectGoldenKernel("s8-column-scales-grid-exchange", SampleSpec(gated, Dataflow::kGridExchange));
}

TEST(CodegenGolden, ProductsOfCodes) {
  ProductSequence p = FirstOf(SampleS8());
  const Schedule s = SampleSchedule(p, Dataflow::kProduct);
  SetCodes(&p, DType::kBF16, ScaleKind::kVector, ScaleKind::kVector);
  p[0].accumulate = Accumulate::kFast;
  ExpectGoldenKernel("s8-fast-codes-product", SampleSpec(p, s));
  p[0].accumulate = Accumulate::kPromoted;
  p[0].rows.element = p[0].weights.element = DType::kS8;
  ExpectGoldenKernel("s8-integers-product", SampleSpec(p, s));
}

// Results quantised by groups, with scales rounded to powers of two, and by a scale that is given.
TEST(CodegenGolden, QuantisedResults) {
  ProductSequence p = FirstOf(SampleS8());
  SetCodes(&p, DType::kF32, ScaleKind::kVector, ScaleKind::kVector);
  Schedule s = SampleSchedule(p, Dataflow::kProduct);
  s.first.block_n = 128;
  s.grid = s.cluster;
  s.stages = 2;
  s.block_m = 64;
  s.warpgroups_m = 1;
  SetQuantized(&p, {128, 0.25f, 0, true});
  ExpectGoldenKernel("s8-quantised-groups-product", SampleSpec(p, s));
  SetQuantized(&p, {});
  ExpectGoldenKernel("s8-quantised-given-product", SampleSpec(p, s));
}

TEST(CodegenGolden, WeightsOfLayoutIo) {
  ProductSequence p = SampleG7();
  SetLayout(&p, Layout::kIO);
  Schedule s = SampleSchedule(p, Dataflow::kGridExchange);
  s.first.block_n = s.second.block_n = 64;
  ExpectGoldenKernel("g7-io-grid-exchange", SampleSpec(p, s));
}

TEST(CodegenGolden, Windows) {
  const ProductSequence chain = SampleC6();
  for (Dataflow dataflow : {Dataflow::kProduct, Dataflow::kClusterExchange}) {
    ExpectGoldenKernel(absl::StrCat("c6-", NameOf(dataflow)),
                       SampleSpec(SampleProblem(chain, dataflow), SampleC6Schedule(dataflow)));
  }
  ExpectGoldenKernel("c6-of-40-channels-product",
                     SampleSpec(FirstOf(SampleC6(40)), SampleC6Schedule(Dataflow::kProduct)));
}

// Gradients of weights: the rows of a known number of tokens by weights along K, with swapped
// operands; and a sum over M, split over four ranks.
TEST(CodegenGolden, TransposedRows) {
  ProductSequence p = MakeSequence(768, MakeProduct(3072, 1024));
  SetTransposedRows(&p, false);
  Schedule s = ReadSchedule("product bm128 wg1x2 bk64 st6 swapped grid132 first 128/1");
  ExpectGoldenKernel("transposed-rows-product", SampleSpec(p, s));
  SetTransposedRows(&p, true);
  p[0].n = 768;
  p[0].k = 8192;
  p[0].result = DType::kF32;
  s = With(s, "wg2x1 st4 cl4 unswapped first 128/4");
  ExpectGoldenKernel("sum-over-m-product", SampleSpec(p, s));
}

// C5 of FlashFuser's convolutions for 8 images, and a gated pair in a cluster whose blocks take
// their ranges in two chunks.
TEST(CodegenGolden, WeightsThatStay) {
  ProductSequence chain = SampleC6(64);
  SetColumns(&chain, 0, 64);
  SetColumns(&chain, 1, 256);
  chain.m = 8;
  Schedule s = ReadSchedule("resident-weights bk64 st7 grid98 first 64/1 second 256/1");
  ExpectGoldenKernel("c5-resident-weights", SampleSpec(chain, s));
  ProductSequence gated = MakeSequence(1024, MakeProduct(256, 128, Activation::kSilu, true), 128);
  s.cluster = s.second.split_k = 2;
  s.stages = 2;
  s.grid = 32;
  s.second.block_n = 128;
  ExpectGoldenKernel("gated-resident-weights", SampleSpec(gated, s));
}

}  // namespace
}  // namespace sinter
