// Every driver call of a whole life fails once, and the caller's thread must not notice.
#include "runtime/measure/probes.h"
#include "runtime/peers/peers.h"
#include "runtime/query/model_choice.h"
#include "tests/unit/runtime/fixture.h"

namespace sinter {
namespace {

// A node in a graph that is tied, and its update in an instance.
absl::Status AddAndUpdate(const std::shared_ptr<const Device>& device, Loader& loader,
                          const LoadedKernel& kernel, const BoundKernel& bound) {
  const Driver& driver = device->driver();
  SINTER_ASSIGN_OR_RETURN(const Stream stream, MakeStream(device));
  SINTER_RETURN_IF_ERROR(
      driver.Check(driver->StreamBeginCapture(stream.get(), CU_STREAM_CAPTURE_MODE_RELAXED), "b"));
  CUgraph empty = nullptr;
  const absl::Status ended = driver.Check(driver->StreamEndCapture(stream.get(), &empty), "e");
  const Graph graph(device, empty);
  SINTER_RETURN_IF_ERROR(ended);
  SINTER_ASSIGN_OR_RETURN(const GraphNodeHandle first, loader.AddEmptyNode(graph.get(), {}));
  SINTER_ASSIGN_OR_RETURN(const GraphNodeHandle node,
                          kernel.AddNode(bound, graph.get(), {{first}, true}, 5, 0));
  SINTER_RETURN_IF_ERROR(loader.TieToGraph(graph.get(), std::make_shared<int>(1)));
  SINTER_ASSIGN_OR_RETURN(const GraphExec exec, Instantiate(device, graph));
  return kernel.UpdateNode(exec.get(), node, bound, 6, 0);
}

// A room, exported and opened, that another device reaches, and pinned words.
absl::Status ShareMemory(const std::shared_ptr<const Device>& device,
                         const std::shared_ptr<const Device>& other) {
  SINTER_ASSIGN_OR_RETURN(const std::unique_ptr<PeerMemory> memory, MakePeerMemory(device));
  SINTER_ASSIGN_OR_RETURN(const std::unique_ptr<PeerMemory> peer, MakePeerMemory(other));
  SINTER_RETURN_IF_ERROR(memory->DeviceUuid().status());
  SINTER_RETURN_IF_ERROR(memory->Reach(*peer));
  struct Room {
    PeerMemory& memory;
    DevicePtr pointer = 0, opened = 0;
    HostWords words = {};
    ~Room() {
      if (opened != 0) memory.Close(opened);
      if (pointer != 0) memory.Free(pointer);
      if (words.host != nullptr) memory.FreeWords(words);
    }
  };
  Room room{*memory};
  SINTER_ASSIGN_OR_RETURN(room.words, memory->AllocateWords());
  SINTER_ASSIGN_OR_RETURN(room.pointer, memory->Allocate(256, RoomSharing::kIpc));
  SINTER_ASSIGN_OR_RETURN(const PeerMemory::Handle handle, memory->Export(room.pointer));
  SINTER_ASSIGN_OR_RETURN(room.opened, memory->Open(handle));
  SINTER_RETURN_IF_ERROR(memory->Fill(room.pointer, 1, 256));
  SINTER_RETURN_IF_ERROR(memory->Push(room.opened, room.pointer, 16));
  Room by_descriptor{*memory};
  SINTER_ASSIGN_OR_RETURN(by_descriptor.pointer, memory->Allocate(256, RoomSharing::kDescriptor));
  SINTER_ASSIGN_OR_RETURN(const PeerMemory::Handle own, memory->Export(by_descriptor.pointer));
  SINTER_RETURN_IF_ERROR(memory->Offer(by_descriptor.pointer, own));
  SINTER_ASSIGN_OR_RETURN(by_descriptor.opened, memory->Open(own));
  return memory->Push(by_descriptor.opened, by_descriptor.pointer, 16);
}

// Open, query, load, bind, launch, tie, add to a graph, share memory, measure, release. Stops at
// the first error, which it returns.
absl::Status LiveOnce(const FakeDriver& fake) {
  SINTER_ASSIGN_OR_RETURN(const std::shared_ptr<const Driver> driver, fake.Make());
  SINTER_ASSIGN_OR_RETURN(const std::shared_ptr<const Device> device, Device::Open(driver, 0));
  SINTER_RETURN_IF_ERROR(QueryDevice(*device).status());
  SINTER_ASSIGN_OR_RETURN(const std::unique_ptr<Loader> loader, MakeLoader(device));
  LaunchRecipe recipe = ExampleRecipe();
  recipe.cluster[0] = 16;
  recipe.pdl = true;
  SINTER_ASSIGN_OR_RETURN(const std::shared_ptr<LoadedKernel> kernel,
                          loader->Load(FakeCubin("k"), recipe));
  SINTER_RETURN_IF_ERROR(kernel->MaxActiveClusters(recipe).status());
  SINTER_ASSIGN_OR_RETURN(const std::unique_ptr<Measurer> measurer, MakeMeasurer(device));
  SINTER_ASSIGN_OR_RETURN(const DeviceBuffer buffer, measurer->Allocate(256));
  struct Freer {
    Measurer& measurer;
    DeviceBuffer buffer;
    ~Freer() { measurer.Free(buffer); }
  } freer{*measurer, buffer};
  SINTER_RETURN_IF_ERROR(measurer->Fill(buffer, 3));
  const DevicePtr pointers[3] = {buffer.ptr, buffer.ptr, buffer.ptr};
  SINTER_ASSIGN_OR_RETURN(const std::unique_ptr<BoundKernel> bound,
                          kernel->Bind(recipe, {pointers, 3, buffer.ptr}));
  SINTER_RETURN_IF_ERROR(AddAndUpdate(device, *loader, *kernel, *bound));
  SINTER_ASSIGN_OR_RETURN(const std::shared_ptr<const Device> other, Device::Open(driver, 1));
  SINTER_RETURN_IF_ERROR(ShareMemory(device, other));
  const auto enqueue = [&](StreamHandle stream, int) -> absl::Status {
    SINTER_RETURN_IF_ERROR(loader->TieToCapture(stream, kernel));
    return kernel->Launch(*bound, stream, 5, 0, true);
  };
  SINTER_RETURN_IF_ERROR(measurer->TimeGraph({enqueue}, 2, 2).status());
  const auto add = [&](GraphHandle graph, const NodeEdges& edges,
                       int) -> absl::StatusOr<NodeEdges> {
    SINTER_ASSIGN_OR_RETURN(const GraphNodeHandle node,
                            kernel->AddNode(*bound, graph, edges, 5, 0));
    return NodeEdges{{node}};
  };
  SINTER_RETURN_IF_ERROR(measurer->TimeGraph({nullptr, add}, 2, 2).status());
  return measurer->RunAndWait([&](StreamHandle stream) -> absl::Status {
    SINTER_RETURN_IF_ERROR(loader->IsCapturing(stream).status());
    SINTER_RETURN_IF_ERROR(loader->MemsetAsync(buffer.ptr, 1, 16, stream));
    return enqueue(stream, 0);
  });
}

// Calls that destructors make too, where an error has nowhere to go.
bool MayBeTolerated(const std::string& name) {
  for (const char* part :
       {"Destroy", "Unload", "Release", "MemFree", "MemUnmap", "MemAddressFree", "IpcClose",
        "CtxPop", "CtxGetCurrent", "CtxPushCurrent", "ThreadExchange"}) {
    if (name.find(part) != std::string::npos) return true;
  }
  return false;
}

TEST(FailureSweep, EveryFailingCallRestoresContextAndCaptureModeAndLeaksNothing) {
  const CUcontext foreign = reinterpret_cast<CUcontext>(0xf0);
  int total = 0;
  std::vector<std::string> names;
  {
    FakeDriver fake({FakeChip(), FakeChip()});
    fake.kernel = ExampleKernel();
    ASSERT_TRUE(LiveOnce(fake).ok());
    total = fake.calls();
    names = fake.CallNames();
    EXPECT_EQ(fake.live().Total(), 0);
  }
  ASSERT_GT(total, 80);
  int errors = 0;
  for (int n = 1; n <= total; ++n) {
    SCOPED_TRACE(names[n - 1]);
    FakeDriver fake({FakeChip(), FakeChip()});
    fake.kernel = ExampleKernel();
    const DriverTable table = fake.Table();
    table.CtxPushCurrent(foreign);
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    table.ThreadExchangeStreamCaptureMode(&mode);
    fake.FailCall(n, CUDA_ERROR_UNKNOWN);
    const absl::Status status = LiveOnce(fake);
    EXPECT_THAT(fake.ContextStack(), ElementsAre(foreign));
    EXPECT_EQ(fake.CaptureMode(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    EXPECT_THAT(fake.violations(), IsEmpty());
    if (!MayBeTolerated(names[n - 1])) {
      EXPECT_FALSE(status.ok());
    }
    // Without its context a module cannot be unloaded; nothing else may stay.
    FakeLive live = fake.live();
    if (names[n - 1].find("cuCtx") == 0) live.modules = 0;
    EXPECT_EQ(live.Total(), 0);
    if (!status.ok() && n > 1) {
      EXPECT_EQ(DriverResultOf(status), CUDA_ERROR_UNKNOWN) << status;
      ++errors;
    }
  }
  EXPECT_GT(errors, total / 2);
}

}  // namespace
}  // namespace sinter
