#include "src/plan/kernel_code.h"
#include "src/plan/product_family.h"
#include "tests/support/chips.h"
#include "tests/unit/plan/changed_spec.h"

namespace sinter {
namespace {

std::string SourceOf(const KernelSpec& spec, const CodegenOptions& options = {}) {
  const auto kernel = Generate(spec, H200(), options);
  EXPECT_TRUE(kernel.ok()) << kernel.status();
  return kernel.ok() ? kernel->request.source : "";
}

OperandBinding* OperandOf(KernelSpec* spec, Role role) {
  return const_cast<OperandBinding*>(FindOperand(ProductIn(spec).operands, role));
}

ProductSequence Biased(ProductSequence p) {
  SetBias(&p, 0);
  SetBias(&p, 1);
  return p;
}

// Kernels of `spec` that are refused once they are changed, as refused_specs.txt has them.
void ExpectRefusedSpecs(const std::string& section, const KernelSpec& spec) {
  ExpectRefusedChanges("tests/unit/plan/refused_specs.txt", section, spec,
                       [](const KernelSpec& of) { return Generate(of, H200()).status(); });
}

TEST(Generate, RefusesBadSpecsAndNamesTheField) {
  for (const Dataflow dataflow :
       {Dataflow::kProduct, Dataflow::kGridExchange, Dataflow::kClusterExchange}) {
    ExpectRefusedSpecs(absl::StrCat("biased ", NameOf(dataflow)),
                       SampleSpec(Biased(SampleS8()), dataflow));
  }
  KernelSpec stitched = SampleSpec(Biased(SampleS8()), Dataflow::kGridExchange);
  stitched.family = &StitchFamily();
  EXPECT_TRUE(Fails(Generate(stitched, H200()), absl::StatusCode::kInvalidArgument,
                    "a stitch kernel has no body"));
}

TEST(Generate, RefusesBadSchedulesAndNamesTheField) {
  for (const Dataflow dataflow : {Dataflow::kGridExchange, Dataflow::kClusterExchange}) {
    const std::string section(NameOf(dataflow));
    for (const auto& [words, message] :
         RefusalsOf("tests/unit/plan/refused_schedules.txt", section)) {
      KernelSpec spec = SampleSpec(Biased(SampleS8()), dataflow);
      ASSERT_OK(Generate(spec, H200()));
      ProductIn(&spec).schedule = With(ProductOf(spec).schedule, words);
      EXPECT_TRUE(Fails(Generate(spec, H200()), absl::StatusCode::kInvalidArgument, message))
          << words;
    }
  }
}

ProductSequence WithResidual(ProductSequence p, Residual residual = Residual::kAdded) {
  SetResidual(&p, residual);
  return p;
}

TEST(Generate, RefusesAResidualThatIsNone) {
  for (const Dataflow dataflow :
       {Dataflow::kProduct, Dataflow::kGridExchange, Dataflow::kClusterExchange}) {
    ExpectRefusedSpecs(absl::StrCat("residual ", NameOf(dataflow)),
                       SampleSpec(WithResidual(SampleProblem(SampleS8(), dataflow)),
                                  SampleSchedule(SampleS8(), dataflow)));
  }
}

ProductSequence Scaled(ProductSequence p) {
  SetScale(&p, 0, 0.125f);
  SetFactor(&p, 0, RowFactor::kF32);
  if (p.size() == 2) SetFactor(&p, 1, RowFactor::kElement);
  return p;
}

TEST(Generate, RefusesAFactorThatIsNone) {
  for (const Dataflow dataflow :
       {Dataflow::kProduct, Dataflow::kGridExchange, Dataflow::kClusterExchange}) {
    ExpectRefusedSpecs(absl::StrCat("factor ", NameOf(dataflow)),
                       SampleSpec(Scaled(SampleProblem(SampleS8(), dataflow)),
                                  SampleSchedule(SampleS8(), dataflow)));
  }
}

// Whoever checks nothing before: the source is written for elements that the table plans, and no
// other type is written as one of them.
TEST(KernelSource, RefusesElementsThatItHasNoRowFor) {
  for (DType element : {DType::kF32, DType::kS32, DType::kPred}) {
    KernelSpec spec = SampleSpec(SampleS8(), Dataflow::kGridExchange);
    SetElement(&ProductIn(&spec).sequence, element);
    EXPECT_EQ(ProductSource(ProductKernels::Of(*CodeOf(spec))).status().message(),
              absl::StrCat("no kernel multiplies ", NameOf(element)));
    EXPECT_EQ(Generate(spec, H200()).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST(Generate, IsAFunctionOfTheSpec) {
  for (const ProductSequence& p : {SampleS8(), Biased(SampleS8()), SampleG7()}) {
    for (Dataflow dataflow : DataflowsOf(p)) {
      const KernelSpec spec = SampleSpec(p, dataflow);
      const auto a = Got(Generate(spec, H200())), b = Got(Generate(spec, H200()));
      EXPECT_EQ(a.request.source, b.request.source);
      EXPECT_EQ(a.request.headers, b.request.headers);
      EXPECT_EQ(a.request.options, b.request.options);
      EXPECT_EQ(a.request.name, b.request.name);
      EXPECT_TRUE(a.recipe == b.recipe);
    }
  }
}

TEST(Generate, FillsTheRequest) {
  const auto kernel = Got(Generate(SampleSpec(SampleG7(), Dataflow::kClusterExchange), H200()));
  EXPECT_EQ(kernel.request.name, "sinter_cluster_exchange.cu");
  EXPECT_EQ(kernel.request.entry, "sinter_cluster_exchange");
  EXPECT_EQ(kernel.request.arch, "sm_90a");
  EXPECT_TRUE(kernel.request.options.empty());
  EXPECT_EQ(kernel.recipe.entry, kernel.request.entry);
}

TEST(Generate, TestBuildsAreOptionsAndChangeNoSource) {
  const KernelSpec spec = SampleSpec(SampleG7(), Dataflow::kGridExchange);
  const auto kernel = Got(Generate(spec, H200(), {true, true}));
  EXPECT_THAT(kernel.request.options, ElementsAre("-DSINTER_TRAP_SPINS", "-DSINTER_JITTER"));
  EXPECT_EQ(kernel.request.source, SourceOf(spec));
}

TEST(Generate, BatchInvariantKernelsAreCompiledWithoutContraction) {
  KernelSpec spec = SampleSpec(SampleG7(), Dataflow::kClusterExchange);
  spec.batch_invariant = true;
  const auto kernel = Got(Generate(spec, H200()));
  EXPECT_THAT(kernel.request.options, ElementsAre("--fmad=false"));
  EXPECT_EQ(kernel.request.source, SourceOf(SampleSpec(SampleG7(), Dataflow::kClusterExchange)));
}

// Everything of a spec that changes the kernel changes its text.
TEST(KernelSource, ChangesWithTheSpec) {
  const KernelSpec spec = SampleSpec(SampleS8(), Dataflow::kGridExchange);
  const std::string source = SourceOf(spec);
  for (const char* words :
       {"p.act=gelu_erf", "p.element=f16", "p.1.k=1016", "constant_weights=false", "s.stages=2",
        "s.first.block_n=24", "out.row_stride=2048", "out.offset_bytes=2"}) {
    EXPECT_NE(SourceOf(Changed(spec, words)), source) << words;
  }
  KernelSpec biased = Changed(spec, "p.bias1=true");
  ProductIn(&biased).operands.push_back({Role::kBias, 7, 0, 0});
  ProductIn(&biased).operands.push_back({Role::kBiasUp, 8, 0, 0});
  EXPECT_NE(SourceOf(biased), source);
}

TEST(KernelSource, DoesNotDependOnWhichBuffersArePassed) {
  KernelSpec spec = SampleSpec(SampleS8(), Dataflow::kGridExchange);
  const std::string source = SourceOf(spec);
  for (OperandBinding& operand : ProductIn(&spec).operands) {
    if (operand.buffer != kWorkspaceBuffer) operand.buffer += 3;
  }
  EXPECT_EQ(SourceOf(spec), source);
}

struct RowsOfOperand {
  int64_t l, stride;
  uint64_t offset;
  bool aligned;
};
constexpr RowsOfOperand kRowsOfOperands[] = {{1024, 1024, 0, true},  {1024, 1032, 16, true},
                                             {1020, 1024, 0, false}, {1024, 1028, 0, false},
                                             {1024, 1024, 8, false}, {1023, 1023, 2, false}};

TEST(ResidualAligned, NeedsColumnsStrideAndOffsetOf16Bytes) {
  for (const RowsOfOperand& row : kRowsOfOperands) {
    ProductSequence p = WithResidual(SampleS8());
    p[1].n = row.l;
    KernelSpec spec = SampleSpec(p, SampleSchedule(SampleS8(), Dataflow::kGridExchange));
    OperandOf(&spec, Role::kResidual)->row_stride = row.stride;
    OperandOf(&spec, Role::kResidual)->offset_bytes = row.offset;
    EXPECT_EQ(ProductKernels::Of(*CodeOf(spec)).residual.aligned, row.aligned)
        << row.l << " " << row.stride;
  }
}

// A second product as wide as gate and up together takes their wrapper.
TEST(KernelSource, WritesOneWrapperForEachWidth) {
  KernelSpec spec = SampleSpec(SampleS8(), Dataflow::kGridExchange);
  const auto wrappers = [&] {
    const std::vector<std::string> parts = absl::StrSplit(SourceOf(spec), "struct Wgmma<");
    return parts.size() - 1;
  };
  EXPECT_EQ(wrappers(), 2u);
  ProductIn(&spec).schedule.second.block_n = 64;
  EXPECT_EQ(wrappers(), 1u);
}

TEST(KernelSource, AssertsThePlansSharedMemory) {
  for (Dataflow dataflow : DataflowsOf(SampleS8())) {
    const KernelSpec spec = SampleSpec(SampleS8(), dataflow);
    const auto bytes = SizesOf(ProductOf(spec).sequence, ProductOf(spec).schedule).shared_bytes;
    EXPECT_THAT(SourceOf(spec), HasSubstr(absl::StrCat("kBytes == ", bytes, ",")));
  }
}

TEST(OutputAligned, NeedsColumnsStrideAndOffsetOf16Bytes) {
  for (const RowsOfOperand& row : kRowsOfOperands) {
    KernelSpec spec = SampleSpec(SampleS8(), Dataflow::kGridExchange);
    ProductIn(&spec).sequence[1].n = row.l;
    OperandOf(&spec, Role::kOut)->row_stride = row.stride;
    OperandOf(&spec, Role::kOut)->offset_bytes = row.offset;
    EXPECT_EQ(ProductKernels::Of(*CodeOf(spec)).out.aligned, row.aligned)
        << row.l << " " << row.stride;
  }
  KernelSpec one = SampleSpec(SampleS8(), Dataflow::kProduct);  // the columns are n here
  EXPECT_TRUE(ProductKernels::Of(*CodeOf(one)).out.aligned);
  SetColumns(&ProductIn(&one).sequence, 0, 3076);
  EXPECT_FALSE(ProductKernels::Of(*CodeOf(one)).out.aligned);
}

}  // namespace
}  // namespace sinter
