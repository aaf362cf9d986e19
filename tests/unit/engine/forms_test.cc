// Plans of normal forms: which chain keys name, and whose buffers kernels get.
#include "tests/unit/engine/engine_tests.h"

namespace sinter {
namespace {

constexpr int64_t kRows = 5;

// Columns 64 to 128 of rows after an axis of 3, times a weight, as heads.
Chain RoughChain(bool weight_first = false) {
  constexpr char kX[] = "x: bf16[3,M,192]", kW[] = "w: const bf16[32,64]";
  return ReadChain("$0; $1; out reshape(bf16(x[:, :, 64:128] @ w.T), [3,M,4,8])",
                   weight_first ? kW : kX, weight_first ? kX : kW);
}

// A world that plans normal forms, and whose only kernel computes all of one.
struct World {
  FakeWorld fake;
  Chain chain = RoughChain();
  std::shared_ptr<const NormalForm> form = *NormalFormOf(std::make_shared<const Chain>(chain));

  World() {
    fake.normal = NormalFormOf;
    fake.plan = PlanChain;
    fake.generate = [](const KernelSpec& spec, const DeviceModel& model) {
      return Generate(spec, model);
    };
    fake.run = [this](const std::string&, const BufferList& buffers, int64_t m) {
      const Chain& planned = *form->chain;
      EXPECT_EQ(buffers.count, planned.num_inputs() + planned.num_outputs());
      std::vector<const void*> in;
      std::vector<void*> out;
      for (int i = 0; i < buffers.count; ++i) {
        void* const at = reinterpret_cast<void*>(buffers.pointers[i]);
        if (i < planned.num_inputs()) in.push_back(at);
        if (i >= planned.num_inputs()) out.push_back(at);
      }
      return RunReference(planned, m, in, out);
    };
  }
};

TEST(FormsTest, KernelsGetViewsOfTheCallersBuffers) {
  World world;
  ASSERT_TRUE(world.form->changed());
  const auto engine = world.fake.MakeEngine();
  const auto plan = Got(engine->Prepare(world.chain, kRows, {}));
  ASSERT_EQ(plan->plan().kernels.size(), 1u);

  const auto inputs = *RandomInputs(world.chain, kRows, 3);
  const auto bytes = static_cast<size_t>(*OutputBytes(world.chain, 0, kRows));
  FakeBuffers buffers({static_cast<int64_t>(inputs[0].size()),
                       static_cast<int64_t>(inputs[1].size()), static_cast<int64_t>(bytes)});
  for (size_t i = 0; i < inputs.size(); ++i) {
    std::memcpy(reinterpret_cast<void*>(buffers.pointers()[i]), inputs[i].data(), inputs[i].size());
  }
  const auto bound = Got(plan->Bind(buffers.pointers(), 0));
  ASSERT_TRUE(plan->Launch(*bound, nullptr, kRows, false).ok());
  std::string want(bytes, '\0');
  ASSERT_TRUE(
      RunReference(world.chain, kRows, {inputs[0].data(), inputs[1].data()}, {&want[0]}).ok());
  const std::string got(reinterpret_cast<const char*>(buffers.pointers()[2]), bytes);
  EXPECT_EQ(got, want);
}

// Chains that differ only in the order of their inputs share a plan; notes and errors name each
// chain's own inputs.
TEST(FormsTest, NotesAndErrorsCountTheCallersOwnInputs) {
  World world;
  const Chain other = RoughChain(/*weight_first=*/true);
  ASSERT_EQ(other.CanonicalBytes(), world.chain.CanonicalBytes());
  const auto engine = world.fake.MakeEngine();
  const auto first = engine->Prepare(world.chain, kRows, {}),
             second = engine->Prepare(other, kRows, {});
  ASSERT_TRUE(first.ok() && second.ok()) << first.status() << second.status();
  EXPECT_EQ(engine->Stats().searched, 1u);
  EXPECT_THAT((*first)->plan().note, HasSubstr("#0 is input 0 from byte 128 on"));
  EXPECT_THAT((*second)->plan().note, HasSubstr("#0 is input 1 from byte 128 on"));
  const DevicePtr there = 1 << 20;
  EXPECT_TRUE(Says((*first)->Bind({0, there, there}, 0), "input 0 is null"));
  EXPECT_TRUE(Says((*second)->Bind({0, there, there}, 0), "input 0 is null"));
}

TEST(FormsTest, KeysAndRecordsAreOfTheCallersChain) {
  World world;
  ASSERT_TRUE(world.fake.MakeEngine()->Prepare(world.chain, kRows, {}).ok());
  const std::vector<std::string> keys = world.fake.disk->Keys(RecordKind::kPlan);
  ASSERT_EQ(keys.size(), 1u);
  EXPECT_EQ(DecodePlanKey(keys[0])->chain, world.chain.CanonicalBytes());
  // The stored plan is judged by the form that is made again.
  PrepareOptions stored{.must_hit = true};
  const auto again = world.fake.MakeEngine();
  EXPECT_TRUE(again->Prepare(world.chain, kRows, stored).ok());
  EXPECT_EQ(again->Stats().searched, 0u);
}

TEST(FormsTest, TheSelfCheckComparesWithTheCallersChain) {
  World world;
  PrepareOptions verified{.verify = true};
  const auto plan = Got(world.fake.MakeEngine()->Prepare(world.chain, kRows, verified));
  // A form that computes something else is seen.
  World wrong;
  ChainBuilder b;
  const Chain& planned = *wrong.form->chain;
  const ValueId x = *b.Input(planned.input_op(0).type, {false, planned.input_op(0).strides, ""});
  const ValueId w = *b.Input(planned.input_op(1).type, {true, {}, ""});
  const ValueId y = *b.Unary(UnaryKind::kNeg, *b.Matmul(x, w, false, true));
  ASSERT_TRUE(b.Output(*b.Cast(y, DType::kBF16)).ok());
  auto form = std::make_shared<NormalForm>(*wrong.form);
  form->chain = std::make_shared<const Chain>(*b.Finish());
  wrong.form = form;
  wrong.fake.normal = [form](const std::shared_ptr<const Chain>&) { return form; };
  wrong.fake.plan = [&](const Chain&, int64_t bucket, const DeviceModel& model,
                        const FusionOptions& options) {
    return PlanChain(*World().form->chain, bucket, model, options);
  };
  const absl::Status status =
      wrong.fake.MakeEngine()->Prepare(wrong.chain, kRows, verified).status();
  EXPECT_TRUE(Says(status, "differs from the reference"));
}

TEST(FormsTest, ErrorsNumberTheCallersOps) {
  World world;
  const Chain chain = ReadChain("x: bf16[1,M,64]; w: f32[64,64]; out f32(bf16(f32(x))) @ w");
  ValueId product = -1;
  for (size_t i = 0; i < chain.ops().size(); ++i) {
    if (chain.ops()[i].kind == OpKind::kMatmul) product = static_cast<ValueId>(i);
  }
  const absl::Status status = world.fake.MakeEngine()->Prepare(chain, kRows, {}).status();
  EXPECT_TRUE(Says(status, "op " + std::to_string(product) + " (matmul of 'x' and 'w')"));
}

}  // namespace
}  // namespace sinter
