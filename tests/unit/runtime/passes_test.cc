// Launches of more rows than one pass takes, of planned kernels: what the driver is given in each
// pass lies in the buffers of all rows and in the workspace of one pass.
#include "src/plan/kernel_code.h"
#include "tests/support/chains.h"
#include "tests/unit/fusion/assembly/chains.h"
#include "tests/unit/runtime/fixture.h"

namespace sinter {
namespace {

constexpr int64_t kRows = 2 * kLargestBucket + 3;
constexpr DevicePtr kSpace = DevicePtr{1} << 40;  // from one buffer to the next

// Where a plan's buffers lie, far apart, and how many bytes each has; the workspace is the last
// one.
struct Places {
  std::vector<DevicePtr> buffers;
  std::vector<uint64_t> bytes;

  Places(const Chain& chain, const Plan& plan) {
    for (int i = 0; i < chain.num_inputs(); ++i) {
      Add(*BufferBytes(chain.input_op(i).type, chain.input_op(i).strides, kRows));
    }
    for (int i = 0; i < chain.num_outputs(); ++i) {
      Add(*BufferBytes(chain.output_type(i), chain.outputs()[static_cast<size_t>(i)].strides,
                       kRows));
    }
    Add(static_cast<int64_t>(plan.workspace_bytes));
  }
  BufferList List() const {
    return {buffers.data(), static_cast<int>(buffers.size()) - 1, buffers.back()};
  }
  // Whether bytes from `first` to `end` lie in the buffer that a recipe calls `number`.
  bool Hold(int number, DevicePtr first, DevicePtr end) const {
    const size_t at = number == kWorkspaceBuffer ? buffers.size() - 1 : static_cast<size_t>(number);
    return first >= buffers[at] && end <= buffers[at] + bytes[at];
  }

 private:
  void Add(int64_t size) {
    buffers.push_back(kSpace * (buffers.size() + 1));
    bytes.push_back(static_cast<uint64_t>(size));
  }
};

DevicePtr EndOf(const FakeMap& map, DType dtype) {
  uint64_t last = (map.dims[0] - 1) * static_cast<uint64_t>(SizeOf(dtype));
  for (uint32_t i = 1; i < map.rank; ++i) last += (map.dims[i] - 1) * map.strides[i - 1];
  return map.address + last + static_cast<uint64_t>(SizeOf(dtype));
}

// What of a launch's arguments lies elsewhere; "" if nothing does.
std::string FindEscape(const FakeLaunch& launch, const LaunchRecipe& recipe, const Places& places) {
  for (size_t i = 0; i < recipe.args.size(); ++i) {
    const ArgSlot& arg = recipe.args[i];
    if (arg.kind == ArgKind::kPointer) {
      const auto at = ReadAs<DevicePtr>(launch.params[i]);
      if (!places.Hold(arg.index, at, at + 1)) return absl::StrCat("pointer ", i);
    }
    if (arg.kind != ArgKind::kTensorMap) continue;
    const TensorMapTemplate& made = recipe.tensor_maps[static_cast<size_t>(arg.index)];
    const FakeMap map = DecodeFakeMap(launch.params[i]);
    if (!places.Hold(made.buffer, map.address, EndOf(map, made.dtype))) {
      return absl::StrCat("tensor map ", i);
    }
  }
  return "";
}

// All passes of one kernel; counts those of its arguments that lie in the workspace.
void CheckPasses(const LaunchRecipe& recipe, const Places& places, int* in_workspace) {
  FakeDriver fake;
  for (const ArgSlot& arg : recipe.args) fake.kernel.param_sizes.push_back(SizeOfArg(arg));
  const auto loader = std::move(*MakeLoader(OpenFake(fake)));
  const auto kernel = Got(loader->Load(FakeCubin(recipe.entry), recipe));
  const auto bound = Got(kernel->Bind(recipe, places.List()));
  for (int64_t first = 0; first < kRows; first += kLargestBucket) {
    const int64_t m = std::min(kLargestBucket, kRows - first);
    ASSERT_TRUE(kernel->Launch(*bound, nullptr, m, first, false).ok());
    EXPECT_EQ(FindEscape(fake.launches().back(), recipe, places), "")
        << recipe.entry << ", rows from " << first;
  }
  for (const TensorMapTemplate& map : recipe.tensor_maps) {
    *in_workspace += map.buffer == kWorkspaceBuffer ? 1 : 0;
  }
}

TEST(Passes, GiveTheDriverAddressesInsideTheBuffers) {
  int in_workspace = 0;
  for (const char* line :
       {"products m=M k=64 n=128,64,64,96 act=relu,identity,identity,identity",
        "gated_ffn m=M n=256 k=128 l=128 act=silu", "gemm_chain m=M n=256 k=128 l=64 act=relu",
        "grouped_gated_ffn m=M experts=8 top=2 n=128 k=128 l=128 act=silu",
        "layernorm rows=M cols=96"}) {
    const Problem problem = Got(ParseProblem(line));
    const Chain& chain = problem.chain;
    for (const Plan& plan : testing::PlansOf(chain, kLargestBucket)) {
      SCOPED_TRACE(absl::StrCat(line, "\n", plan.ToText()));
      const Places places(chain, plan);
      for (const PlannedKernel& planned : plan.kernels) {
        CheckPasses(*RecipeOf(planned.spec), places, &in_workspace);
      }
    }
  }
  EXPECT_GT(in_workspace, 20);
}

}  // namespace
}  // namespace sinter
