// ProductsView: sequences of products recognised from primitives alone; everything else is refused
// with its reason.
#include "src/chain/products_view.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "src/base/status.h"
#include "src/chain/builder.h"
#include "src/chain/composites.h"
#include "src/chain/ffn_view.h"
#include "src/chain/problem.h"
#include "tests/support/constant_dim.h"

namespace sinter {
namespace {

ProductsSpec RandomSpec(std::mt19937* random) {
  ProductsSpec spec;
  spec.k = 8 * (1 + (*random)() % 4);
  spec.layout = (*random)() % 2 ? Layout::kIO : Layout::kOI;
  spec.dtype = (*random)() % 2 ? DType::kF16 : DType::kBF16;
  for (uint32_t i = 0, count = 1 + (*random)() % 6; i < count; ++i) {
    ProductSpec product;
    product.gated = (*random)() % 3 == 0;
    product.act = kActivations[(*random)() % 5];
    product.bias = (*random)() % 2;
    product.n = 8 * (1 + (*random)() % 4);
    spec.products.push_back(product);
  }
  return spec;
}

TEST(ViewAsProducts, ReadsBackEverySpec) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 60; ++trial) {
    const ProductsSpec spec = RandomSpec(&random);
    const Chain chain = *MakeProductsChain(spec);
    const absl::StatusOr<ProductsView> view = ViewAsProducts(chain);
    ASSERT_TRUE(view.ok()) << view.status() << "\n" << chain.ToString();
    EXPECT_TRUE(view->m.symbolic);
    EXPECT_EQ(view->layout, spec.layout);
    EXPECT_EQ(view->dtype, spec.dtype);
    EXPECT_TRUE(view->contiguous);
    EXPECT_TRUE(view->weights_constant);
    EXPECT_EQ(chain.InputName(chain.InputOrder()[view->a]), "a");
    ASSERT_EQ(view->steps.size(), spec.products.size());
    int64_t k = spec.k;
    for (size_t i = 0; i < spec.products.size(); ++i) {
      const ProductStep& step = view->steps[i];
      const ProductSpec& want = spec.products[i];
      EXPECT_EQ(step.gated, want.gated);
      EXPECT_EQ(step.act, want.act);
      EXPECT_EQ(step.bias(), want.bias);
      EXPECT_EQ(step.n, want.n);
      EXPECT_EQ(step.k, k);
      EXPECT_EQ(step.rounds, i + 1 == spec.products.size());
      const std::string name = chain.InputName(chain.InputOrder()[step.w]);
      EXPECT_EQ(name, (want.gated ? "w_gate" : "w") + std::to_string(i + 1));
      k = want.n;
    }
  }
}

// The bytes of a chain that casts every intermediate differ; its products are the same.
TEST(ViewAsProducts, SeesRoundedIntermediates) {
  ChainBuilder b;
  ValueId x = *b.Input({DType::kBF16, {Dim::M(), C(16)}});
  for (int i = 0; i < 3; ++i) {
    const ValueId w = *b.Input({DType::kBF16, {C(16), C(16)}}, {true, {}, ""});
    x = *AddLinear(b, x, w, kNoValue, Layout::kOI, Activation::kRelu);
    if (i != 1) x = *b.Cast(x, DType::kBF16);
  }
  ASSERT_TRUE(b.Output(x).ok());
  const absl::StatusOr<ProductsView> view = ViewAsProducts(*b.Finish());
  ASSERT_TRUE(view.ok()) << view.status();
  ASSERT_EQ(view->size(), 3);
  EXPECT_TRUE(view->steps[0].rounds);
  EXPECT_FALSE(view->steps[1].rounds);
  EXPECT_TRUE(view->steps[2].rounds);
}

// Two products over 16 columns; `sum` makes the output of the second one's result and of r[M,16].
Chain WithSum(const std::function<ValueId(ChainBuilder&, ValueId e, ValueId r)>& sum,
              std::vector<Dim> dims = {Dim::M(), C(16)}, DType dtype = DType::kBF16,
              std::vector<Stride> strides = {}) {
  ChainBuilder b;
  const ValueId a = *b.Input({DType::kBF16, {Dim::M(), C(16)}}, {false, {}, "a"});
  const ValueId w1 = *b.Input({DType::kBF16, {C(16), C(16)}}),
                w2 = *b.Input({DType::kBF16, {C(16), C(16)}});
  const ValueId c = *AddLinear(b, a, w1, kNoValue, Layout::kOI, Activation::kRelu);
  const ValueId e = *AddLinear(b, c, w2, kNoValue, Layout::kOI);
  const ValueId r = *b.Input({dtype, std::move(dims)}, {false, std::move(strides), "r"});
  EXPECT_TRUE(b.Output(sum(b, e, r)).ok());
  return *b.Finish();
}

TEST(ViewAsProducts, SeesAResidualInEverySpelling) {
  const struct {
    const char* what;
    bool rounds;
    std::function<ValueId(ChainBuilder&, ValueId, ValueId)> sum;
  } cases[] = {
      {"widened", false,
       [](ChainBuilder& b, ValueId e, ValueId r) {
         return *b.Cast(*b.Binary(BinaryKind::kAdd, e, *b.Cast(r, DType::kF32)), DType::kBF16);
       }},
      {"the other way round", false,
       [](ChainBuilder& b, ValueId e, ValueId r) {
         return *b.Cast(*b.Binary(BinaryKind::kAdd, r, e), DType::kBF16);
       }},
      {"rounded and widened", true,
       [](ChainBuilder& b, ValueId e, ValueId r) {
         const ValueId rounded = *b.Cast(*b.Cast(e, DType::kBF16), DType::kF32);
         return *b.Cast(*b.Binary(BinaryKind::kAdd, rounded, r), DType::kBF16);
       }},
      {"in bf16 alone", true,
       [](ChainBuilder& b, ValueId e, ValueId r) {
         return *b.Binary(BinaryKind::kAdd, r, *b.Cast(e, DType::kBF16));
       }},
  };
  for (const auto& c : cases) {
    const Chain chain = WithSum(c.sum);
    const absl::StatusOr<ProductsView> view = ViewAsProducts(chain);
    ASSERT_TRUE(view.ok()) << c.what << view.status();
    ASSERT_EQ(view->size(), 2) << c.what;
    EXPECT_FALSE(view->steps[0].has_residual());
    EXPECT_EQ(chain.InputName(chain.InputOrder()[view->steps[1].residual]), "r") << c.what;
    EXPECT_EQ(view->steps[1].rounds_sum, c.rounds) << c.what;
    EXPECT_TRUE(view->contiguous);
  }
}

TEST(ViewAsProducts, AResidualHasRowsOfItsOwn) {
  const auto sum = [](ChainBuilder& b, ValueId e, ValueId r) {
    return *b.Cast(*b.Binary(BinaryKind::kAdd, e, r), DType::kBF16);
  };
  const ProductsView view =
      *ViewAsProducts(WithSum(sum, {Dim::M(), C(16)}, DType::kBF16, {{19, 0}, {1, 0}}));
  EXPECT_EQ(view.steps[1].ld_residual, 19);
  EXPECT_FALSE(view.contiguous);
  EXPECT_EQ(ViewAsProducts(WithSum(sum, {Dim::M(), C(16)}, DType::kF32)).status().message(),
            "dtype of residual2 is f32, of a bf16");
  EXPECT_EQ(ViewAsProducts(WithSum(sum, {Dim::M(), C(16)}, DType::kBF16, {{0, 0}, {1, 0}}))
                .status()
                .message(),
            "strides of residual2 are [0,1], must be [at least 16,1]");
}

TEST(ViewAsProducts, NoResidualIsAddedTwiceNorBeforeAnActivation) {
  const auto twice = [](ChainBuilder& b, ValueId e, ValueId r) {
    const ValueId once = *b.Binary(BinaryKind::kAdd, e, r);
    return *b.Cast(*b.Binary(BinaryKind::kAdd, once, r), DType::kBF16);
  };
  const auto before = [](ChainBuilder& b, ValueId e, ValueId r) {
    const ValueId sum = *b.Binary(BinaryKind::kAdd, e, r);
    return *b.Cast(*b.Unary(UnaryKind::kRelu, sum), DType::kBF16);
  };
  EXPECT_FALSE(ViewAsProducts(WithSum(twice)).ok());
  EXPECT_FALSE(ViewAsProducts(WithSum(before)).ok());
}

TEST(ViewAsProducts, AResidualMayStandBetweenProductsAndBeTheRows) {
  ChainBuilder b;
  const ValueId a = *b.Input({DType::kBF16, {Dim::M(), C(16)}});
  ValueId x = a;
  for (int i = 0; i < 2; ++i) {
    const ValueId w = *b.Input({DType::kBF16, {C(16), C(16)}}, {true, {}, ""});
    x = *AddLinear(b, x, w, kNoValue, Layout::kOI);
    x = *b.Cast(*b.Binary(BinaryKind::kAdd, x, a), DType::kBF16);
  }
  ASSERT_TRUE(b.Output(x).ok());
  const Chain chain = *b.Finish();
  const ProductsView view = *ViewAsProducts(chain);
  ASSERT_EQ(view.size(), 2);
  EXPECT_EQ(view.steps[0].residual, view.a);
  EXPECT_EQ(view.steps[1].residual, view.a);
  EXPECT_TRUE(view.steps[0].rounds);
  EXPECT_EQ(ViewAsFfn(chain).status().message(), "not an ffn: the first product has a residual");
}

// One product of 16 columns, `scaled`, with a bias and relu behind it. Inputs: a, w, r, bias.
absl::StatusOr<ProductsView> WithScale(
    const std::function<ValueId(ChainBuilder&, ValueId product, ValueId r)>& scaled,
    const TensorType& r_type = {DType::kF32, {Dim::M(), C(1)}}) {
  ChainBuilder b;
  const ValueId a = *b.Input({DType::kBF16, {Dim::M(), C(16)}}, {false, {}, "a"});
  const ValueId w = *b.Input({DType::kBF16, {C(16), C(16)}}, {true, {}, "w"});
  const ValueId r = *b.Input(r_type, {false, {}, "r"});
  const ValueId bias = *b.Input({DType::kBF16, {C(16)}}, {true, {}, "b"});
  ValueId y = scaled(b, *b.Matmul(a, w, false, true), r);
  y = *b.Binary(BinaryKind::kAdd, y, *b.Broadcast(bias, {Dim::M(), C(16)}));
  y = *b.Unary(UnaryKind::kRelu, y);
  EXPECT_TRUE(b.Output(*b.Cast(y, DType::kBF16)).ok());
  SINTER_ASSIGN_OR_RETURN(const Chain chain, b.Finish());
  return ViewAsProducts(chain);
}

ValueId Mul(ChainBuilder& b, ValueId x, ValueId y) { return *b.Binary(BinaryKind::kMul, x, y); }
ValueId OverColumns(ChainBuilder& b, ValueId r) { return *b.Broadcast(r, {Dim::M(), C(16)}); }

TEST(ViewAsProducts, SeesScalarsAndAFactorOfRowsInEverySpelling) {
  const struct {
    const char* what;
    double scale;
    bool factor;
    DType dtype;
    std::vector<Dim> dims;
    std::function<ValueId(ChainBuilder&, ValueId, ValueId)> scaled;
  } cases[] = {
      {"a factor",
       1,
       true,
       DType::kF32,
       {Dim::M(), C(1)},
       [](ChainBuilder& b, ValueId p, ValueId r) { return Mul(b, p, OverColumns(b, r)); }},
      {"the other way round, widened behind",
       1,
       true,
       DType::kBF16,
       {Dim::M(), C(1)},
       [](ChainBuilder& b, ValueId p, ValueId r) {
         return Mul(b, *b.Cast(OverColumns(b, r), DType::kF32), p);
       }},
      {"a vector, widened before",
       1,
       true,
       DType::kBF16,
       {Dim::M()},
       [](ChainBuilder& b, ValueId p, ValueId r) {
         const ValueId column = *b.Reshape(*b.Cast(r, DType::kF32), {Dim::M(), C(1)});
         return Mul(b, p, OverColumns(b, column));
       }},
      {"a scalar, then a factor",
       0.125,
       true,
       DType::kF32,
       {Dim::M(), C(1)},
       [](ChainBuilder& b, ValueId p, ValueId r) {
         return Mul(b, Mul(b, *b.Scalar(0.125), p), OverColumns(b, r));
       }},
      {"a factor, then two scalars",
       1.5,
       true,
       DType::kF32,
       {Dim::M(), C(1)},
       [](ChainBuilder& b, ValueId p, ValueId r) {
         const ValueId thrice = Mul(b, Mul(b, p, OverColumns(b, r)), *b.Scalar(3));
         return *b.Binary(BinaryKind::kDiv, thrice, *b.Scalar(2));
       }},
  };
  for (const auto& c : cases) {
    const absl::StatusOr<ProductsView> view = WithScale(c.scaled, {c.dtype, c.dims});
    ASSERT_TRUE(view.ok()) << c.what << view.status();
    const ProductStep& step = view->steps[0];
    EXPECT_EQ(step.scale, c.scale) << c.what;
    EXPECT_EQ(step.has_factor(), c.factor) << c.what;
    EXPECT_EQ(step.factor_dtype, c.dtype) << c.what;
    EXPECT_TRUE(step.bias()) << c.what;
    EXPECT_EQ(step.act, Activation::kRelu) << c.what;
    EXPECT_TRUE(view->weights_constant) << c.what;
  }
}

TEST(ViewAsProducts, ScalesNothingThatIsRoundedOrHasTwoFactors) {
  const std::function<ValueId(ChainBuilder&, ValueId, ValueId)> others[] = {
      [](ChainBuilder& b, ValueId p, ValueId r) {  // the chain rounds the product first
        return Mul(b, *b.Cast(p, DType::kBF16), OverColumns(b, r));
      },
      [](ChainBuilder& b, ValueId p, ValueId r) {
        return Mul(b, Mul(b, p, OverColumns(b, r)), OverColumns(b, r));
      },
      [](ChainBuilder& b, ValueId p, ValueId r) {  // no constant, and 0
        return Mul(b, Mul(b, p, OverColumns(b, r)), *b.Scalar(0));
      },
      [](ChainBuilder& b, ValueId p, ValueId r) {  // divided by rows
        return *b.Binary(BinaryKind::kDiv, p, OverColumns(b, r));
      },
  };
  for (const auto& other : others) EXPECT_FALSE(WithScale(other).ok());
  const auto times = [](ChainBuilder& b, ValueId p, ValueId r) {
    return Mul(b, p, OverColumns(b, r));
  };
  EXPECT_EQ(WithScale(times, {DType::kF16, {Dim::M(), C(1)}}).status().message(),
            "dtype of factor1 is f16, of a bf16");
}

TEST(ViewAsProducts, AFactorOfUnroundedRowsIsOneOfTheProduct) {
  for (const bool rounds : {false, true}) {
    ChainBuilder b;
    const ValueId a = *b.Input({DType::kBF16, {Dim::M(), C(16)}}, {false, {}, "a"});
    const ValueId r = *b.Input({DType::kF32, {Dim::M(), C(1)}}, {false, {}, "r"});
    const ValueId w = *b.Input({DType::kBF16, {C(16), C(16)}}, {true, {}, "w"});
    ValueId x = Mul(b, *b.Cast(a, DType::kF32), OverColumns(b, r));
    x = Mul(b, x, *b.Scalar(4));
    if (rounds) x = *b.Cast(x, DType::kBF16);
    ASSERT_TRUE(b.Output(*b.Cast(*b.Matmul(x, w, false, true), DType::kBF16)).ok());
    const absl::StatusOr<ProductsView> view = ViewAsProducts(*b.Finish());
    EXPECT_EQ(view.ok(), !rounds) << "(a r) W rounds where (a W) r does not";
    if (!view.ok()) continue;
    EXPECT_EQ(view->steps[0].scale, 4);
    EXPECT_TRUE(view->steps[0].has_factor());
  }
}

TEST(ViewAsProducts, AGatedPairHasOneScalingForBoth) {
  FfnSpec spec;
  spec.gated = true;
  spec.n = spec.k = spec.l = 16;
  spec.act = Activation::kSilu;
  spec.factor1 = spec.factor2 = true;
  spec.scale1 = 0.5;
  const Chain chain = *MakeFfnChain(spec);
  const ProductsView view = *ViewAsProducts(chain), back = ProductsOf(*ViewAsFfn(chain));
  EXPECT_NE(view.steps[0].factor, view.steps[1].factor);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(view.steps[i].has_factor());
    EXPECT_EQ(back.steps[i].factor, view.steps[i].factor);
    EXPECT_EQ(back.steps[i].scale, view.steps[i].scale);
  }
  EXPECT_EQ(view.steps[0].scale, 0.5);
  EXPECT_EQ(ToString(*ViewAsFfn(chain)),
            "gated_ffn m=M n=16 k=16 l=16 act=silu layout=oi dtype=bf16 scale1=0.5 factor1=1 "
            "factor2=1");
}

TEST(ViewAsProducts, RefusesHalvesThatAreScaledApart) {
  for (const bool both : {false, true}) {
    ChainBuilder b;
    const ValueId a = *b.Input({DType::kBF16, {Dim::M(), C(16)}});
    const ValueId r = *b.Input({DType::kF32, {Dim::M(), C(1)}});
    const auto half = [&](double scale) {
      const ValueId w = *b.Input({DType::kBF16, {C(16), C(16)}}, {true, {}, ""});
      return Mul(b, *b.Matmul(a, w, false, true), *b.Scalar(scale));
    };
    const ValueId gate = Mul(b, half(2), OverColumns(b, r));
    ValueId up = half(both ? 3 : 2);
    if (both) up = Mul(b, up, OverColumns(b, r));
    ASSERT_TRUE(b.Output(*b.Cast(Mul(b, *AddSilu(b, gate), up), DType::kBF16)).ok());
    EXPECT_EQ(
        ViewAsProducts(*b.Finish()).status().message(),
        both ? "gate is scaled by 2, up by 3" : "gate and up differ in the factor of their rows");
  }
}

TEST(ViewAsProducts, AgreesWithTheFfnViewOfOneOrTwoProducts) {
  for (const char* line :
       {"gemm_chain m=M n=24 k=16 l=8 act=relu bias1=1 bias2=1", "matmul m=M n=24 k=16 bias1=1",
        "gated_ffn m=M n=24 k=16 l=8 act=silu layout=io bias1=1",
        "gate_up m=M n=24 k=16 act=silu"}) {
    const Chain chain = ParseProblem(line)->chain;
    const ProductsView direct = *ViewAsProducts(chain), back = ProductsOf(*ViewAsFfn(chain));
    EXPECT_EQ(back.a, direct.a);
    EXPECT_EQ(back.layout, direct.layout);
    EXPECT_EQ(back.dtype, direct.dtype);
    EXPECT_EQ(back.ld_a, direct.ld_a);
    EXPECT_EQ(back.ld_out, direct.ld_out);
    ASSERT_EQ(back.size(), direct.size());
    for (int i = 0; i < back.size(); ++i) {
      const ProductStep &x = back.steps[i], &y = direct.steps[i];
      EXPECT_EQ(
          std::tie(x.gated, x.act, x.n, x.k, x.w, x.w_up, x.b, x.b_up, x.ld_w, x.ld_w_up, x.rounds),
          std::tie(y.gated, y.act, y.n, y.k, y.w, y.w_up, y.b, y.b_up, y.ld_w, y.ld_w_up,
                   y.rounds));
    }
  }
}

TEST(ViewAsProducts, AnFfnHasAtMostTwoProductsAndNothingBehindTheSecond) {
  const struct {
    const char* line;
    const char* message;
  } cases[] = {
      {"products m=M k=8 n=8,8,8", "not an ffn: 3 products, must be 1 or 2"},
      {"products m=M k=8 n=8,8 act=relu",
       "not an ffn: the second product's activation is relu, must be identity"},
      {"products m=M k=8 n=8,8 gated=0,1", "not an ffn: the second product is gated"},
  };
  for (const auto& c : cases) {
    const Chain chain = ParseProblem(c.line)->chain;
    EXPECT_TRUE(ViewAsProducts(chain).ok());
    EXPECT_EQ(ViewAsFfn(chain).status().message(), c.message);
  }
}

// Three products, with something done to the second one's result.
Chain Broken(const std::function<ValueId(ChainBuilder&, ValueId first, ValueId second)>& change,
             Layout third = Layout::kOI) {
  ChainBuilder b;
  const ValueId a = *b.Input({DType::kBF16, {Dim::M(), C(16)}});
  std::vector<ValueId> w;
  for (int i = 0; i < 3; ++i) w.push_back(*b.Input({DType::kBF16, {C(16), C(16)}}));
  const ValueId first = *AddLinear(b, a, w[0], kNoValue, Layout::kOI, Activation::kRelu);
  const ValueId second = *AddLinear(b, first, w[1], kNoValue, Layout::kOI);
  const ValueId e = *AddLinear(b, change(b, first, second), w[2], kNoValue, third);
  EXPECT_TRUE(b.Output(*b.Cast(e, DType::kBF16)).ok());
  return *b.Finish();
}

TEST(ViewAsProducts, RefusesWhatIsNoSequenceWithTheOp) {
  const auto same = [](ChainBuilder&, ValueId, ValueId second) { return second; };
  const struct {
    const char* what;
    Chain chain;
    const char* message;
  } cases[] = {
      {"a residual", Broken([](ChainBuilder& b, ValueId first, ValueId second) {
         return *b.Binary(BinaryKind::kAdd, first, second);
       }),
       "op 6 (add) is no activation of a product with a weight, nor a gated pair"},
      {"another rounding", Broken([](ChainBuilder& b, ValueId, ValueId second) {
         return *b.Cast(second, DType::kF16);
       }),
       "is no activation of a product with a weight, nor a gated pair"},
      {"a norm between products", Broken([](ChainBuilder& b, ValueId, ValueId second) {
         return *AddRmsNorm(b, second, 1e-6);
       }),
       "is no activation of a product with a weight, nor a gated pair"},
      {"mixed layouts", Broken(same, Layout::kIO), "w3 is io, w1 oi: all weights must be alike"},
  };
  for (const auto& c : cases) {
    const absl::Status status = ViewAsProducts(c.chain).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << c.what;
    EXPECT_NE(status.message().find(c.message), absl::string_view::npos) << c.what << status;
  }
}

TEST(ViewAsProducts, TakesAsManyProductsAsAPlanHasKernels) {
  ProductsSpec spec;
  spec.k = 8;
  spec.products.assign(kMaxProducts, {false, Activation::kIdentity, 8, false});
  EXPECT_EQ(ViewAsProducts(*MakeProductsChain(spec))->size(), kMaxProducts);
  spec.products.push_back(spec.products.back());
  EXPECT_EQ(ViewAsProducts(*MakeProductsChain(spec)).status().message(), "more than 64 products");
}

}  // namespace
}  // namespace sinter
