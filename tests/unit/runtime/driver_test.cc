#include "tests/support/refusals.h"
#include "tests/unit/runtime/fixture.h"

namespace sinter {
namespace {

CUcontext Foreign() { return reinterpret_cast<CUcontext>(0xf0); }

TEST(DriverOpen, WithoutALibraryIsUnavailableAndSaysWhatHelps) {
  const auto driver = Driver::Open("/dev/null/libcuda.so.1");
  ASSERT_EQ(driver.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(Text(driver.status()), HasSubstr("/dev/null/libcuda.so.1"));
  EXPECT_THAT(Text(driver.status()), HasSubstr("SINTER_LIBCUDA"));
}

TEST(DriverOpen, ALibraryThatIsNoDriverIsUnavailableAndNamesWhatItLacks) {
  const auto driver = Driver::Open("libdl.so.2");
  ASSERT_EQ(driver.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(Text(driver.status()), HasSubstr("lacks cuInit, it is older than CUDA 12.0"));
}

TEST(DriverOpen, AFailingInitIsUnavailableWithTheResultAttached) {
  FakeDriver fake;
  fake.FailCall(1, CUDA_ERROR_NO_DEVICE);
  const auto driver = fake.Make();
  ASSERT_EQ(driver.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(DriverResultOf(driver.status()), CUDA_ERROR_NO_DEVICE);
}

CUresult AnswerCuda12(int* version) {
  *version = 12000;
  return CUDA_SUCCESS;
}

// Driver 525 is CUDA 12.0: it has none of the functions that are optional here.
TEST(DriverOpen, Driver525Serves) {
  FakeDriver fake;
  fake.kernel = ExampleKernel();
  DriverTable table = fake.Table();
  table.DriverGetVersion = AnswerCuda12;
#define SINTER_WITHOUT(field, symbol, parameters) table.field = nullptr;
  SINTER_DRIVER_OPTIONAL(SINTER_WITHOUT)
#undef SINTER_WITHOUT
  const auto driver = Got(Driver::FromTable(table));
  EXPECT_EQ(*driver->Version(), 12000);
  const auto device = Got(Device::Open(driver, 0));
  const auto loader = Got(MakeLoader(device));
  const auto kernel = Got(loader->Load(FakeCubin("k"), ExampleRecipe()));
}

TEST(DriverCheck, NamesCallResultAndNumber) {
  FakeDriver fake;
  const auto driver = Got(fake.Make());
  EXPECT_TRUE(driver->Check(CUDA_SUCCESS, "cuX").ok());
  const absl::Status status = driver->Check(CUDA_ERROR_OUT_OF_MEMORY, "cuMemAlloc");
  EXPECT_EQ(StatusNumber(status), static_cast<int32_t>(ErrorCode::kDriver));
  EXPECT_EQ(DriverResultOf(status), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_THAT(Text(status), HasSubstr("cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (2)"));
}

TEST(DriverCheck, SaysThatAFaultCostsTheContextAndTheWayOut) {
  FakeDriver fake;
  const auto driver = Got(fake.Make());
  for (const CUresult result :
       {CUDA_ERROR_ILLEGAL_ADDRESS, CUDA_ERROR_LAUNCH_FAILED, CUDA_ERROR_LAUNCH_TIMEOUT,
        CUDA_ERROR_ASSERT, CUDA_ERROR_HARDWARE_STACK_ERROR, CUDA_ERROR_ILLEGAL_INSTRUCTION,
        CUDA_ERROR_MISALIGNED_ADDRESS, CUDA_ERROR_INVALID_ADDRESS_SPACE, CUDA_ERROR_INVALID_PC}) {
    const absl::Status status = driver->Check(result, "cuLaunchKernelEx");
    EXPECT_TRUE(IsContextLost(status)) << result;
    EXPECT_EQ(DriverResultOf(status), result);
    EXPECT_THAT(Text(status), HasSubstr("the CUDA context is lost"));
    EXPECT_THAT(Text(status), HasSubstr("start a new process"));
  }
  EXPECT_FALSE(IsContextLost(driver->Check(CUDA_ERROR_OUT_OF_MEMORY, "cuMemAlloc")));
}

TEST(DeviceOpen, RefusesAnOrdinalThatIsNotThere) {
  FakeDriver fake;
  const auto driver = Got(fake.Make());
  for (const int ordinal : {-1, 1, 99}) {
    const auto device = Device::Open(driver, ordinal);
    ASSERT_EQ(device.status().code(), absl::StatusCode::kInvalidArgument) << ordinal;
    EXPECT_THAT(Text(device.status()), HasSubstr("shows 1 device"));
  }
}

TEST(DeviceOpen, RetainsOneContextADeviceAndReleasesIt) {
  FakeDriver fake({FakeChip(), FakeChip()});
  {
    const auto first = OpenFake(fake, 0);
    const auto second = OpenFake(fake, 1);
    ASSERT_TRUE(first && second);
    EXPECT_NE(first->context(), second->context());
    EXPECT_EQ(fake.live().contexts, 2);
    EXPECT_EQ(first->limits().sm_count, 132);
    EXPECT_EQ(first->limits().max_shared_bytes, 232448);
    EXPECT_TRUE(first->limits().cooperative);
  }
  EXPECT_EQ(fake.live().Total(), 0);
  EXPECT_THAT(fake.ContextStack(), IsEmpty());
}

TEST(ContextScope, WorksOnAThreadWithoutAContextAndLeavesItWithout) {
  FakeDriver fake;
  const auto device = OpenFake(fake);
  ASSERT_TRUE(device);
  std::thread([&] {
    {
      const ContextScope scope(*device);
      EXPECT_TRUE(scope.status().ok());
      EXPECT_THAT(fake.ContextStack(), ElementsAre(device->context()));
    }
    EXPECT_THAT(fake.ContextStack(), IsEmpty());
  }).join();
}

TEST(ContextScope, RestoresAForeignContextAndNests) {
  FakeDriver fake({FakeChip(), FakeChip()});
  const auto first = OpenFake(fake, 0);
  const auto second = OpenFake(fake, 1);
  ASSERT_TRUE(first && second);
  fake.Table().CtxPushCurrent(Foreign());
  {
    const ContextScope outer(*first);
    {
      const ContextScope inner(*second);
      EXPECT_EQ(fake.ContextStack().back(), second->context());
    }
    EXPECT_EQ(fake.ContextStack().back(), first->context());
  }
  EXPECT_THAT(fake.ContextStack(), ElementsAre(Foreign()));
}

TEST(ContextScope, PushesNothingWhereTheContextIsCurrent) {
  FakeDriver fake;
  const auto device = OpenFake(fake);
  ASSERT_TRUE(device);
  fake.Table().CtxPushCurrent(device->context());
  const int before = fake.calls();
  { const ContextScope scope(*device); }
  EXPECT_EQ(fake.calls() - before, 1);
  EXPECT_THAT(fake.ContextStack(), ElementsAre(device->context()));
}

TEST(ContextScope, RestoresTheCallersContextThoughAPopFails) {
  FakeDriver fake;
  const auto device = OpenFake(fake);
  ASSERT_TRUE(device);
  fake.Table().CtxPushCurrent(Foreign());
  {
    const ContextScope scope(*device);
    fake.FailCall(1, CUDA_ERROR_UNKNOWN);
  }
  EXPECT_THAT(fake.ContextStack(), ElementsAre(Foreign()));
}

TEST(RelaxedCapture, RestoresTheModeThoughTheExchangeFails) {
  FakeDriver fake;
  const auto driver = Got(fake.Make());
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
  fake.Table().ThreadExchangeStreamCaptureMode(&mode);
  {
    const RelaxedCapture relaxed(*driver);
    EXPECT_TRUE(relaxed.status().ok());
    EXPECT_EQ(fake.CaptureMode(), CU_STREAM_CAPTURE_MODE_RELAXED);
    fake.FailCall(1, CUDA_ERROR_UNKNOWN);
  }
  EXPECT_EQ(fake.CaptureMode(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
}

TEST(Handles, MoveAndDestroyOnceInTheirContext) {
  FakeDriver fake;
  const auto device = OpenFake(fake);
  ASSERT_TRUE(device);
  {
    auto stream = MakeStream(device);
    auto event = MakeEvent(device);
    ASSERT_TRUE(stream.ok() && event.ok());
    Stream moved = std::move(*stream);
    Stream target;
    target = std::move(moved);
    EXPECT_EQ(fake.live().streams, 1);
    EXPECT_EQ(fake.live().events, 1);
  }
  EXPECT_EQ(fake.live().streams, 0);
  EXPECT_EQ(fake.live().events, 0);
}

TensorMapTemplate GoodMap() { return ExampleRecipe().tensor_maps[0]; }

TEST(TensorMapPrepare, RefusesElementsThatNoMapHas) {
  TensorMapTemplate map = GoodMap();
  map.dtype = DType::kS64;
  EXPECT_THAT(Text(PrepareTensorMap(map, 0x10000).status()), HasSubstr("elements of s64"));
}

TEST(TensorMapPrepare, RefusesAnAddressThatIsNotAligned) {
  const auto map = PrepareTensorMap(GoodMap(), 0x10008);
  EXPECT_THAT(Text(map.status()), HasSubstr("buffer 0: address 0x10008"));
}

DeviceLimits Limits() {
  FakeDriver fake;
  return OpenFake(fake)->limits();
}

TEST(RecipeCheck, RefusesWhatTheDeviceCannotRunWithBothNumbers) {
  const DeviceLimits limits = Limits();
  const auto check = [&](const LaunchRecipe& recipe) { return CheckRecipe(recipe, limits); };
  constexpr char kPath[] = "tests/unit/runtime/refused_recipes.txt";
  ExpectRefusedChanges(kPath, "fields", ExampleRecipe(), check);
  ExpectRefusedChanges(kPath, "device", ExampleRecipe(), check,
                       absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace sinter
