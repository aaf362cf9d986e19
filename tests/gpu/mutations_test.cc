// The table of mutations fits the device library: each changes the one header that it names.
#include "src/device/device_library.h"
#include "tests/gpu/mutant_plans.h"
#include "tests/support/test.h"

namespace sinter::gpu_testing {
namespace {

CompileRequest Library() { return CompileRequest{.headers = CopyDeviceHeaders()}; }

TEST(Mutations, EachAppliesToTheDeviceLibrary) {
  const CompileRequest original = Library();
  std::set<std::string> names;
  int lethal = 0;
  for (const Mutation& mutation : AllMutations()) {
    CompileRequest request = original;
    EXPECT_OK(Apply(mutation, &request));
    const bool control = mutation.find.empty();
    EXPECT_EQ(request.headers == original.headers, control) << mutation.name;
    EXPECT_TRUE(names.insert(mutation.name).second) << mutation.name;
    lethal += !control && mutation.must_die ? 1 : 0;
  }
  EXPECT_GE(lethal, 10);
}

TEST(Mutations, EachHasSchedulesThatShowIt) {
  const DeviceModel own = BuiltinModel("h200").value();
  for (const Mutation& mutation : AllMutations()) {
    const DeviceModel model = MutantModel(own, mutation);
    const Chain chain = Got(MakeMutantChain(mutation), mutation.name);
    const auto plans = Got(MutantPlans(chain, model, mutation), mutation.name);
  }
}

}  // namespace
}  // namespace sinter::gpu_testing
