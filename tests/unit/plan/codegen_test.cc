#include "src/plan/kernel_code.h"
#include "src/plan/product_family.h"
#include "tests/support/chips.h"
#include "tests/support/refusals.h"
#include "tests/unit/plan/sample_kernels.h"

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

void Drop(KernelSpec* spec, Role role) {
  auto& list = ProductIn(spec).operands;
  for (size_t i = 0; i < list.size(); ++i) {
    if (list[i].role == role) list.erase(list.begin() + static_cast<long>(i--));
  }
}

ProductSequence Biased(ProductSequence p) {
  SetBias(&p, 0);
  SetBias(&p, 1);
  return p;
}

struct Refusal {
  const char* name;
  Dataflow dataflow;
  void (*damage)(KernelSpec*);
  const char* message;
};

// A kernel of `spec` is made, and refused once it is damaged.
void ExpectRefused(const Refusal& r, KernelSpec spec) {
  ASSERT_OK(Generate(spec, H200()));
  r.damage(&spec);
  EXPECT_TRUE(Fails(Generate(spec, H200()), absl::StatusCode::kInvalidArgument, r.message))
      << r.name;
}

TEST(Generate, RefusesBadSpecsAndNamesTheField) {
  const Dataflow product = Dataflow::kProduct, grid = Dataflow::kGridExchange,
                 cluster = Dataflow::kClusterExchange;
  const Refusal refusals[] = {
      {"stitch without a body", grid, [](KernelSpec* s) { s->family = &StitchFamily(); },
       "a stitch kernel has no body"},
      {"products", grid,
       [](KernelSpec* s) { ProductIn(s).sequence.products.push_back(ProductIn(s).sequence[1]); },
       "products: 3 are not 1 to 2"},
      {"short rows", product, [](KernelSpec* s) { OperandOf(s, Role::kOut)->row_stride = 8; },
       "operand out: row stride 8 is below its"},
      {"gaps in C", grid, [](KernelSpec* s) { OperandOf(s, Role::kC)->row_stride += 8; },
       "operand c: row stride 3080 is not n = 3072"},
      {"odd offset", product, [](KernelSpec* s) { OperandOf(s, Role::kOut)->offset_bytes = 3; },
       "operand out: offset 3 is not a multiple of 2"},
      {"flags", grid, [](KernelSpec* s) { s->workspace_flags_offset = 2; },
       "workspace flags offset 2 is not a multiple of 4"},
      {"dtype", grid, [](KernelSpec* s) { SetElement(&ProductIn(s).sequence, DType::kF32); },
       "product 1: element 1 (f32)"},
      {"n", grid, [](KernelSpec* s) { SetColumns(&ProductIn(s).sequence, 0, 3073); },
       "product 2: k 3073"},
      {"k", cluster, [](KernelSpec* s) { ProductIn(s).sequence[0].k = 7; }, "product 1: k 7"},
      {"l", cluster, [](KernelSpec* s) { ProductIn(s).sequence[1].n = 0; }, "product 2: n 0"},
      {"bucket", product, [](KernelSpec* s) { ProductIn(s).sequence.m = 0; }, "products: m 0"},
      {"program of another result", grid,
       [](KernelSpec* s) {
         ProductIn(s).sequence[1].epilogue.program = ProgramOf({Activation::kRelu}, DType::kF32);
       },
       "product 2: program gives f32, the result is bf16"},
      {"layout", grid, [](KernelSpec* s) { SetLayout(&ProductIn(s).sequence, Layout(3)); },
       "product 1: layout 3"},
      {"no out", product, [](KernelSpec* s) { Drop(s, Role::kOut); }, "no operand out"},
      {"no rows", product, [](KernelSpec* s) { Drop(s, Role::kA); }, "no operand a"},
      {"no weights", grid, [](KernelSpec* s) { Drop(s, Role::kW); }, "no operand w1"},
      {"no up", grid, [](KernelSpec* s) { Drop(s, Role::kWUp); }, "no operand w_up"},
      {"no second weights", cluster, [](KernelSpec* s) { Drop(s, Role(Role::kW, 1)); },
       "no operand w2"},
      {"no bias", grid, [](KernelSpec* s) { Drop(s, Role::kBias); }, "no operand bias1"},
      {"no up bias", grid, [](KernelSpec* s) { Drop(s, Role::kBiasUp); }, "no operand bias_up"},
      {"no second bias", cluster, [](KernelSpec* s) { Drop(s, Role(Role::kBias, 1)); },
       "no operand bias2"},
      {"no C", grid, [](KernelSpec* s) { Drop(s, Role::kC); }, "no operand c"},
      {"row stride", grid, [](KernelSpec* s) { OperandOf(s, Role::kA)->row_stride = 1025; },
       "operand a: row stride of 2050 bytes"},
      {"offset", grid, [](KernelSpec* s) { OperandOf(s, Role(Role::kW, 1))->offset_bytes = 8; },
       "offset 8 must be multiples of 16"},
  };
  for (const Refusal& r : refusals) {
    ExpectRefused(r, SampleSpec(Biased(SampleS8()), r.dataflow));
  }
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
  const Refusal refusals[] = {
      {"none", Dataflow::kGridExchange, [](KernelSpec* s) { Drop(s, Role::kResidual); },
       "kernel has no operand residual"},
      {"short rows", Dataflow::kClusterExchange,
       [](KernelSpec* s) { OperandOf(s, Role::kResidual)->row_stride = 1016; },
       "operand residual: row stride 1016 is below its 1024 columns"},
      {"odd offset", Dataflow::kProduct,
       [](KernelSpec* s) { OperandOf(s, Role::kResidual)->offset_bytes = 5; },
       "operand residual: offset 5 is not a multiple of 2"},
      {"element", Dataflow::kGridExchange,
       [](KernelSpec* s) {
         ProductEpilogue& e = ProductIn(s).sequence[1].epilogue;
         e.program = ProgramOf(FormOf(e), DType::kF32);
       },
       "product 2: program gives f32, the result is bf16"},
  };
  for (const Refusal& r : refusals) {
    ExpectRefused(r, SampleSpec(WithResidual(SampleProblem(SampleS8(), r.dataflow)),
                                SampleSchedule(SampleS8(), r.dataflow)));
  }
}

ProductSequence Scaled(ProductSequence p) {
  SetScale(&p, 0, 0.125f);
  SetFactor(&p, 0, RowFactor::kF32);
  if (p.size() == 2) SetFactor(&p, 1, RowFactor::kElement);
  return p;
}

TEST(Generate, RefusesAFactorThatIsNone) {
  const Refusal refusals[] = {
      {"none", Dataflow::kGridExchange, [](KernelSpec* s) { Drop(s, Role(Role::kFactor, 1)); },
       "kernel has no operand factor2"},
      {"gaps", Dataflow::kClusterExchange,
       [](KernelSpec* s) { OperandOf(s, Role::kFactor)->row_stride = 2; },
       "operand factor1: row stride 2 is not 1"},
      {"f32 at half an element", Dataflow::kProduct,
       [](KernelSpec* s) { OperandOf(s, Role::kFactor)->offset_bytes = 6; },
       "operand factor: offset 6 is not a multiple of 4"},
      {"element", Dataflow::kGridExchange,
       [](KernelSpec* s) {
         ChangeForm(&ProductIn(s).sequence[1], [](FormSpec& f) { f.factor = DType::kF16; });
       },
       "product 2: factor is f16, must be f32 or bf16"},
  };
  for (const Refusal& r : refusals) {
    ExpectRefused(r, SampleSpec(Scaled(SampleProblem(SampleS8(), r.dataflow)),
                                SampleSchedule(SampleS8(), r.dataflow)));
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
  struct Change {
    const char* name;
    void (*apply)(KernelSpec*);
  };
  const Change changes[] = {
      {"activation",
       [](KernelSpec* s) { SetActivation(&ProductIn(s).sequence, Activation::kGeluErf); }},
      {"dtype", [](KernelSpec* s) { SetElement(&ProductIn(s).sequence, DType::kF16); }},
      {"k", [](KernelSpec* s) { ProductIn(s).sequence[0].k = 1016; }},
      {"constant weights", [](KernelSpec* s) { ProductIn(s).constant_weights = false; }},
      {"bias1",
       [](KernelSpec* s) {
         SetBias(&ProductIn(s).sequence, 0);
         ProductIn(s).operands.push_back({Role::kBias, 7, 0, 0});
         ProductIn(s).operands.push_back({Role::kBiasUp, 8, 0, 0});
       }},
      {"stages", [](KernelSpec* s) { ProductIn(s).schedule.stages = 2; }},
      {"tile", [](KernelSpec* s) { ProductIn(s).schedule.first.block_n = 24; }},
      {"out stride", [](KernelSpec* s) { OperandOf(s, Role::kOut)->row_stride = 2048; }},
      {"out alignment", [](KernelSpec* s) { OperandOf(s, Role::kOut)->offset_bytes = 2; }},
  };
  const KernelSpec spec = SampleSpec(SampleS8(), Dataflow::kGridExchange);
  const std::string source = SourceOf(spec);
  for (const Change& change : changes) {
    KernelSpec other = spec;
    change.apply(&other);
    EXPECT_NE(SourceOf(other), source) << change.name;
  }
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
