#include "tests/support/on_threads.h"
#include "tests/unit/runtime/fixture.h"

namespace sinter {
namespace {

StreamHandle AStream() { return reinterpret_cast<StreamHandle>(0x51); }

class LaunchTest : public ::testing::Test {
 protected:
  LaunchTest() {
    fake.kernel = ExampleKernel();
    device = OpenFake(fake);
    loader = std::move(*MakeLoader(device));
  }

  std::shared_ptr<LoadedKernel> Load(const LaunchRecipe& recipe) {
    return Got(loader->Load(FakeCubin("k"), recipe));
  }

  // Loads, binds and launches once.
  FakeLaunch LaunchOnce(const LaunchRecipe& recipe, int64_t m, int64_t row_offset, bool pdl_edge) {
    const auto kernel = Load(recipe);
    const auto bound = Got(kernel->Bind(recipe, ExampleBuffers()));
    const absl::Status status = kernel->Launch(*bound, AStream(), m, row_offset, pdl_edge);
    EXPECT_TRUE(status.ok()) << Text(status);
    const std::vector<FakeLaunch> launches = fake.launches();
    return launches.empty() ? FakeLaunch{} : launches.back();
  }

  FakeDriver fake;
  std::shared_ptr<const Device> device;
  std::unique_ptr<Loader> loader;
};

TEST_F(LaunchTest, PassesShapeStreamAndEveryArgument) {
  const FakeLaunch launch = LaunchOnce(ExampleRecipe(), 5, 0, false);
  EXPECT_EQ(launch.entry, "k");
  EXPECT_EQ(launch.config.gridDimX, 16u);
  EXPECT_EQ(launch.config.gridDimY, 2u);
  EXPECT_EQ(launch.config.blockDimX, 128u);
  EXPECT_EQ(launch.config.sharedMemBytes, 100u * 1024);
  EXPECT_EQ(launch.config.hStream, AStream());
  ASSERT_EQ(launch.params.size(), 8u);
  const FakeMap activations = DecodeFakeMap(launch.params[0]);
  EXPECT_EQ(activations.address, kBuffers[0]);
  EXPECT_EQ(activations.rank, 2u);
  EXPECT_EQ(activations.dims[0], 64u);
  EXPECT_EQ(activations.dims[1], 5u);
  EXPECT_EQ(activations.strides[0], 128u);
  EXPECT_EQ(activations.box[1], 8u);
  EXPECT_EQ(activations.type, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
  EXPECT_EQ(activations.swizzle, CU_TENSOR_MAP_SWIZZLE_128B);
  const FakeMap weights = DecodeFakeMap(launch.params[1]);
  EXPECT_EQ(weights.address, kBuffers[1] + 32);
  EXPECT_EQ(weights.dims[1], 256u);
  EXPECT_EQ(ReadAs<DevicePtr>(launch.params[2]), kBuffers[2] + 64);
  EXPECT_EQ(ReadAs<DevicePtr>(launch.params[3]), kWorkspace + 128);
  EXPECT_EQ(ReadAs<int32_t>(launch.params[4]), 5);
  EXPECT_EQ(ReadAs<int32_t>(launch.params[5]), -7);
  EXPECT_EQ(ReadAs<float>(launch.params[6]), 0.5f);
  EXPECT_EQ(std::string(launch.params[7].begin(), launch.params[7].end()), "twelve bytes");
}

TEST_F(LaunchTest, ARowOffsetMovesWhatDependsOnMAndNothingElse) {
  const FakeLaunch launch = LaunchOnce(ExampleRecipe(), 3, 8192, false);
  const FakeMap activations = DecodeFakeMap(launch.params[0]);
  EXPECT_EQ(activations.address, kBuffers[0] + 8192 * 128);
  EXPECT_EQ(activations.dims[1], 3u);
  EXPECT_EQ(DecodeFakeMap(launch.params[1]).address, kBuffers[1] + 32);
  EXPECT_EQ(ReadAs<DevicePtr>(launch.params[2]), kBuffers[2] + 64 + 8192 * 512);
  EXPECT_EQ(ReadAs<DevicePtr>(launch.params[3]), kWorkspace + 128);
}

// Maps, arguments and the row offset of images: m and offset count those, the kernel's rows pixels.
TEST_F(LaunchTest, RowsPerMMultiplyMAndTheRowOffset) {
  LaunchRecipe recipe = ExampleRecipe();
  recipe.rows_per_m = 49;
  recipe.args[5] = {ArgKind::kFirstRow, 0, 0, 0, 0};
  const FakeLaunch launch = LaunchOnce(recipe, 3, 32, false);
  EXPECT_EQ(ReadAs<int32_t>(launch.params[5]), 32 * 49) << "the first row";
  const FakeMap pixels = DecodeFakeMap(launch.params[0]);
  EXPECT_EQ(pixels.dims[1], 3u * 49);
  EXPECT_EQ(pixels.address, kBuffers[0] + 32 * 49 * 128);
  EXPECT_EQ(ReadAs<DevicePtr>(launch.params[2]), kBuffers[2] + 64 + 32 * 49 * 512);
  EXPECT_EQ(ReadAs<int32_t>(launch.params[4]), 3 * 49);
  EXPECT_EQ(DecodeFakeMap(launch.params[1]).dims[1], 256u);
  const auto kernel = Load(recipe);
  const auto bound = kernel->Bind(recipe, ExampleBuffers());
  const int64_t most = ((int64_t{1} << 31) - 1) / 49;
  EXPECT_TRUE(kernel->Launch(**bound, AStream(), most, 0, false).ok());
  EXPECT_THAT(Text(kernel->Launch(**bound, AStream(), most + 1, 0, false)),
              HasSubstr("must lie in 0..43826196"));
}

// Clusters stay whole; more blocks than a grid may have are left to the kernel's turns.
TEST_F(LaunchTest, TheGridGrowsWithRowsBeyondItsOwn) {
  LaunchRecipe recipe = ExampleRecipe();
  recipe.grid = {120, 1, 1};
  recipe.cluster = {4, 1, 1};
  const auto blocks = [&](int64_t m) { return LaunchOnce(recipe, m, 0, false).config.gridDimX; };
  EXPECT_EQ(blocks(9000), 120u);
  recipe.grid_rows = 1000;
  EXPECT_EQ(blocks(3), 120u);
  EXPECT_EQ(blocks(1000), 120u);
  EXPECT_EQ(blocks(1001), 124u);
  EXPECT_EQ(blocks(9000), 9u * 120);
  recipe.grid_rows = 1;
  EXPECT_EQ(blocks(std::numeric_limits<int32_t>::max()), 0x7ffffffcu);
}

// An im2col map counts images where its kernel counts pixels of results.
TEST_F(LaunchTest, Im2colMapsReachTheEncoderWithCornersAndStridesWidthFirst) {
  LaunchRecipe recipe = ExampleRecipe();
  recipe.rows_per_m = 14 * 10;
  TensorMapTemplate& map = recipe.tensor_maps[0];
  map.dims = {Dim::Constant(128), Dim::Constant(20), Dim::Constant(28), Dim::M()};
  map.stride_bytes = {256, 20 * 256, 28 * 20 * 256};
  map.box = {64, 96};
  map.walk = PixelWalk{{-1, -2}, {-1, 0}, {2, 1}};
  const FakeLaunch launch = LaunchOnce(recipe, 3, 8, false);
  const FakeMap encoded = DecodeFakeMap(launch.params[0]);
  EXPECT_EQ(encoded.im2col, 1);
  EXPECT_EQ(encoded.rank, 4u);
  EXPECT_THAT(encoded.dims, testing::ElementsAre(128u, 20u, 28u, 3u, 0u));
  EXPECT_THAT(encoded.strides, testing::ElementsAre(256u, 20u * 256, 28u * 20 * 256, 0u));
  EXPECT_EQ(encoded.address, kBuffers[0] + 8 * 28 * 20 * 256);
  EXPECT_EQ(encoded.box[0], 64u);
  EXPECT_EQ(encoded.box[1], 96u);
  EXPECT_THAT(encoded.lower, testing::ElementsAre(-1, -2));
  EXPECT_THAT(encoded.upper, testing::ElementsAre(-1, 0));
  EXPECT_THAT(encoded.element_strides, testing::ElementsAre(2, 1, 1));
  EXPECT_EQ(encoded.swizzle, CU_TENSOR_MAP_SWIZZLE_128B);
  EXPECT_EQ(ReadAs<int32_t>(launch.params[4]), 3 * 140);
  EXPECT_EQ(DecodeFakeMap(launch.params[1]).im2col, 0);
}

TEST_F(LaunchTest, MapsWithMAreEncodedForEachLaunchAndTheOthersOnce) {
  const auto kernel = Load(ExampleRecipe());
  const auto bound = Got(kernel->Bind(ExampleRecipe(), ExampleBuffers()));
  for (const int64_t m : {1, 300, 2}) {
    ASSERT_TRUE(kernel->Launch(*bound, AStream(), m, 0, false).ok());
    EXPECT_EQ(DecodeFakeMap(fake.launches().back().params[0]).dims[1], static_cast<uint64_t>(m));
  }
  const auto names = fake.CallNames();
  EXPECT_EQ(std::count(names.begin(), names.end(), "cuTensorMapEncodeTiled"), 1 + 3);
}

TEST_F(LaunchTest, MapsOfAFewNumbersOfRowsAreKept) {
  const auto kernel = Load(ExampleRecipe());
  const auto bound = Got(kernel->Bind(ExampleRecipe(), ExampleBuffers()));
  const auto encoded = [&] {
    const auto names = fake.CallNames();
    return std::count(names.begin(), names.end(), "cuTensorMapEncodeTiled");
  };
  const auto launch = [&](int64_t m, int64_t row_offset) {
    ASSERT_TRUE(kernel->Launch(*bound, AStream(), m, row_offset, false).ok());
    const FakeMap map = DecodeFakeMap(fake.launches().back().params[0]);
    EXPECT_EQ(map.dims[1], static_cast<uint64_t>(m));
    EXPECT_EQ(map.address, kBuffers[0] + static_cast<uint64_t>(row_offset) * 128);
  };
  for (int round = 0; round < 3; ++round) {
    for (const int64_t m : {5, 1, 300, 64}) launch(m, 0);
  }
  EXPECT_EQ(encoded(), 1 + 4);
  launch(65, 0);  // no room is left
  launch(65, 0);
  launch(5, 8192);  // the maps of other rows
  launch(5, 0);
  EXPECT_EQ(encoded(), 1 + 4 + 3);
}

TEST_F(LaunchTest, ThreadsThatLaunchDifferentRowsAtOnceKeepTheirMapsApart) {
  const auto kernel = Load(ExampleRecipe());
  const auto bound = Got(kernel->Bind(ExampleRecipe(), ExampleBuffers()));
  fake.on_launch = [](const FakeLaunch& launch) {
    const uint64_t rows = DecodeFakeMap(launch.params[0]).dims[1];
    return rows == static_cast<uint64_t>(ReadAs<int32_t>(launch.params[4])) ? CUDA_SUCCESS
                                                                            : CUDA_ERROR_UNKNOWN;
  };
  OnThreads(4, [&](int t) {
    for (int64_t i = 0; i < 200; ++i) {
      EXPECT_TRUE(kernel->Launch(*bound, AStream(), 1 + (i * (t + 1)) % 7, 0, false).ok());
    }
  });
}

TEST_F(LaunchTest, AContiguousMDimensionMovesByElements) {
  LaunchRecipe recipe = ExampleRecipe();
  recipe.tensor_maps[0].dims = {Dim::M(), Dim::Constant(64)};
  recipe.tensor_maps[0].stride_bytes = {65536};
  const FakeLaunch launch = LaunchOnce(recipe, 8, 16, false);
  EXPECT_EQ(DecodeFakeMap(launch.params[0]).address, kBuffers[0] + 32);
  EXPECT_EQ(DecodeFakeMap(launch.params[0]).dims[0], 8u);
  const auto kernel = Load(recipe);
  const auto bound = kernel->Bind(recipe, ExampleBuffers());
  EXPECT_THAT(Text(kernel->Launch(**bound, AStream(), 8, 3, false)),
              HasSubstr("row offset 3 puts a tensor at 0x10006"));
}

TEST_F(LaunchTest, WithoutRowsAKernelThatReadsNoneIsLaunched) {
  LaunchRecipe recipe = ExampleRecipe();
  for (TensorMapTemplate& map : recipe.tensor_maps) {
    for (Dim& dim : map.dims) dim = dim.symbolic ? Dim::Constant(8) : dim;
  }
  LaunchOnce(recipe, 0, 0, false);
  EXPECT_EQ(fake.launches().size(), 1u);
}

// A map must have a row, which a kernel that is launched without any does not load.
TEST_F(LaunchTest, WithoutRowsMapsHaveOne) {
  EXPECT_EQ(DecodeFakeMap(LaunchOnce(ExampleRecipe(), 0, 0, false).params[0]).dims[1], 1u);
}

TEST_F(LaunchTest, RefusesRowsThatNoKernelTakes) {
  const auto kernel = Load(ExampleRecipe());
  const auto bound = Got(kernel->Bind(ExampleRecipe(), ExampleBuffers()));
  const int64_t rows[][2] = {{-1, 0}, {int64_t{1} << 31, 0}, {1, -1}, {1, int64_t{1} << 40}};
  for (const auto& row : rows) {
    EXPECT_EQ(kernel->Launch(*bound, AStream(), row[0], row[1], false).code(),
              absl::StatusCode::kInvalidArgument);
  }
  EXPECT_THAT(fake.launches(), IsEmpty());
}

struct AttributeCase {
  std::array<uint32_t, 3> cluster;
  bool cooperative, pdl, pdl_edge;
  std::vector<CUlaunchAttributeID> ids;
};

TEST_F(LaunchTest, AttributesAreExactlyThoseOfTheRecipe) {
  const CUlaunchAttributeID kCluster = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  const CUlaunchAttributeID kCooperative = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
  const CUlaunchAttributeID kPdl = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
  const AttributeCase rows[] = {
      {{1, 1, 1}, false, false, false, {}},
      {{1, 1, 1}, false, false, true, {}},  // the kernel does not wait: never overlapped
      {{1, 1, 1}, false, true, false, {}},
      {{1, 1, 1}, false, true, true, {kPdl}},
      {{8, 1, 1}, false, false, false, {kCluster}},
      {{16, 1, 1}, true, false, false, {kCluster, kCooperative}},
      {{4, 2, 1}, true, true, true, {kCluster, kCooperative, kPdl}},
  };
  for (const AttributeCase& row : rows) {
    LaunchRecipe recipe = ExampleRecipe();
    recipe.cluster = row.cluster;
    recipe.cooperative = row.cooperative;
    recipe.pdl = row.pdl;
    const FakeLaunch launch = LaunchOnce(recipe, 4, 0, row.pdl_edge);
    std::vector<CUlaunchAttributeID> ids;
    for (const CUlaunchAttribute& attribute : launch.attributes) {
      ids.push_back(attribute.id);
      if (attribute.id == kCluster) {
        EXPECT_EQ(attribute.value.clusterDim.x, row.cluster[0]);
        EXPECT_EQ(attribute.value.clusterDim.y, row.cluster[1]);
        EXPECT_EQ(attribute.value.clusterDim.z, row.cluster[2]);
      }
      if (attribute.id == kCooperative) {
        EXPECT_EQ(attribute.value.cooperative, 1);
      }
      if (attribute.id == kPdl) {
        EXPECT_EQ(attribute.value.programmaticStreamSerializationAllowed, 1);
      }
    }
    EXPECT_EQ(ids, row.ids);
  }
}

TEST_F(LaunchTest, LoadForcesTheModuleInAndSetsTheFunctionsAttributes) {
  for (const uint32_t cluster : {8u, 16u}) {
    LaunchRecipe recipe = ExampleRecipe();
    recipe.cluster[0] = cluster;
    const auto before = fake.CallNames().size();
    const auto kernel = Load(recipe);
    const auto names = fake.CallNames();
    const std::vector<std::string> calls(names.begin() + before, names.end());
    EXPECT_THAT(calls, Contains("cuFuncLoad"));
    EXPECT_EQ(std::count(calls.begin(), calls.end(), "cuFuncSetAttribute"), cluster > 8 ? 2 : 1);
  }
}

TEST_F(LaunchTest, LoadRefusesDamagedImagesBeforeTheDriverSeesThem) {
  std::string segment = FakeCubin("k");  // one that ends past the file
  segment[sizeof(Elf64_Ehdr) + offsetof(Elf64_Phdr, p_filesz) + 3] = 1;
  for (const std::string& image :
       {std::string(), std::string(300, 'x'), FakeCubin("k").substr(0, 100), segment}) {
    const auto kernel = loader->Load(image, ExampleRecipe());
    EXPECT_EQ(kernel.status().code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(Text(kernel.status()), HasSubstr("kernel 'k'"));
  }
  const auto names = fake.CallNames();
  EXPECT_EQ(std::count(names.begin(), names.end(), "cuModuleLoadData"), 0);
}

TEST_F(LaunchTest, LoadRefusesAKernelThatTheRecipeDoesNotFit) {
  const struct {
    FakeKernel kernel;
    const char* message;
  } rows[] = {
      {{{128, 128, 8, 8, 4, 4}, 0, 1024}, "gives 8 arguments, the kernel takes 6"},
      {{{128, 128, 8, 8, 4, 4, 4, 12, 8}, 0, 1024}, "gives 8 arguments, the kernel takes more"},
      {{{128, 128, 8, 8, 4, 8, 4}, 0, 1024},
       "argument 5 has 4 bytes, the kernel's parameter has 8"},
      {{{128, 128, 8, 8, 4, 4, 4}, 0, 64}, "threads per block 128 exceeds the kernel's 64"},
      {{{128, 128, 8, 8, 4, 4, 4}, 140000, 1024}, "102400 dynamic + 140000 static exceeds"},
  };
  for (const auto& row : rows) {
    fake.kernel = row.kernel;
    const auto kernel = loader->Load(FakeCubin("k"), ExampleRecipe());
    EXPECT_THAT(Text(kernel.status()), HasSubstr(row.message));
    EXPECT_THAT(Text(kernel.status()), HasSubstr("kernel 'k'"));
  }
  EXPECT_EQ(fake.live().modules, 0);
}

TEST_F(LaunchTest, BindNamesTheBufferThatIsWrong) {
  const auto kernel = Load(ExampleRecipe());
  const DevicePtr odd_map[3] = {0x10001, 0x20000, 0x30000};
  const DevicePtr odd_pointer[3] = {0x10000, 0x20000, 0x30004};
  const DevicePtr null[3] = {0x10000, 0, 0x30000};
  const struct {
    BufferList buffers;
    const char* message;
  } rows[] = {
      {{odd_map, 3, kWorkspace}, "buffer 0: address 0x10001 is not 16-byte aligned"},
      {{odd_pointer, 3, kWorkspace}, "buffer 2: address 0x30004 is not 16-byte aligned"},
      {{null, 3, kWorkspace}, "buffer 1 is null"},
      {{kBuffers, 2, kWorkspace}, "buffer 2 does not exist, the launch gives 2"},
      {{kBuffers, 3, 0}, "the workspace is null"},
      {{kBuffers, 3, 0x40008}, "the workspace: address 0x40008"},
  };
  for (const auto& row : rows) {
    const auto bound = kernel->Bind(ExampleRecipe(), row.buffers);
    EXPECT_EQ(bound.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(Text(bound.status()), HasSubstr(row.message));
  }
}

TEST_F(LaunchTest, BindRefusesARecipeThatTheKernelWasNotLoadedFor) {
  const auto kernel = Load(ExampleRecipe());
  LaunchRecipe more_shared = ExampleRecipe();
  more_shared.shared_bytes += 16;
  LaunchRecipe wider = ExampleRecipe();
  wider.cluster[0] = 16;
  LaunchRecipe fewer = ExampleRecipe();
  fewer.args.pop_back();
  LaunchRecipe other = ExampleRecipe();
  other.entry = "other";
  LaunchRecipe threads = ExampleRecipe();
  threads.block[0] /= 2;
  LaunchRecipe pointer_for_m = ExampleRecipe();
  pointer_for_m.args[4] = pointer_for_m.args[3];
  for (const LaunchRecipe& recipe : {more_shared, wider, fewer, other, threads, pointer_for_m}) {
    EXPECT_EQ(kernel->CheckRecipe(recipe).code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(kernel->Bind(recipe, ExampleBuffers()).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  LaunchRecipe constant_rows = ExampleRecipe();  // as a kernel of equal code may have
  constant_rows.args[4] = {ArgKind::kInt32, 0, 0, 12, 0};
  constant_rows.grid[0] *= 2;
  EXPECT_TRUE(kernel->CheckRecipe(constant_rows).ok()) << kernel->CheckRecipe(constant_rows);
  EXPECT_TRUE(kernel->Bind(constant_rows, ExampleBuffers()).ok());
  LaunchRecipe other_buffers = ExampleRecipe();
  other_buffers.tensor_maps[0].buffer = 2;
  EXPECT_TRUE(kernel->Bind(other_buffers, ExampleBuffers()).ok());
}

TEST_F(LaunchTest, RefusesABindingOfAnotherKernel) {
  const auto one = Load(ExampleRecipe());
  const auto two = Load(ExampleRecipe());
  const auto bound = Got(one->Bind(ExampleRecipe(), ExampleBuffers()));
  EXPECT_THAT(Text(two->Launch(*bound, AStream(), 1, 0, false)), HasSubstr("another kernel"));
}

TEST_F(LaunchTest, LaunchesFromAnyThreadAndLeavesItsContextAlone) {
  const auto kernel = Load(ExampleRecipe());
  const auto bound = Got(kernel->Bind(ExampleRecipe(), ExampleBuffers()));
  std::thread([&] {
    EXPECT_TRUE(kernel->Launch(*bound, AStream(), 1, 0, false).ok());
    EXPECT_THAT(fake.ContextStack(), IsEmpty());
  }).join();
  EXPECT_EQ(fake.launches().back().context, device->context());
}

TEST_F(LaunchTest, ALaunchThatTheDriverRefusesNamesKernelAndResult) {
  const auto kernel = Load(ExampleRecipe());
  const auto bound = Got(kernel->Bind(ExampleRecipe(), ExampleBuffers()));
  fake.on_launch = [](const FakeLaunch&) { return CUDA_ERROR_LAUNCH_FAILED; };
  const absl::Status status = kernel->Launch(*bound, AStream(), 1, 0, false);
  EXPECT_EQ(StatusNumber(status), static_cast<int32_t>(ErrorCode::kDriver));
  EXPECT_EQ(DriverResultOf(status), CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_THAT(Text(status), HasSubstr("kernel 'k': cuLaunchKernelEx"));
}

TEST_F(LaunchTest, ReportsTheDriversResidentClusters) {
  for (const auto& [cluster, expected] :
       std::vector<std::pair<uint32_t, int>>{{1, 132}, {2, 66}, {4, 30}, {8, 15}, {16, 7}}) {
    LaunchRecipe recipe = ExampleRecipe();
    recipe.cluster[0] = cluster;
    const auto kernel = Load(recipe);
    EXPECT_EQ(Got(kernel->MaxActiveClusters(recipe)), expected) << cluster;
  }
}

TEST(TwoDevices, KernelsRunInTheContextOfTheirOwn) {
  FakeDriver fake({FakeChip(), FakeChip()});
  fake.kernel = ExampleKernel();
  for (const int ordinal : {0, 1}) {
    const auto device = OpenFake(fake, ordinal);
    const auto loader = MakeLoader(device);
    const auto kernel = Got((*loader)->Load(FakeCubin("k"), ExampleRecipe()));
    const auto bound = kernel->Bind(ExampleRecipe(), ExampleBuffers());
    ASSERT_TRUE(kernel->Launch(**bound, AStream(), 1, 0, false).ok());
    EXPECT_EQ(fake.launches().back().context, device->context());
  }
  EXPECT_EQ(fake.live().Total(), 0);
  EXPECT_THAT(fake.violations(), IsEmpty());
}

}  // namespace
}  // namespace sinter
