// Streams, threads, contexts, capture, workspaces and programmatic edges on a real driver.
#include <cuda.h>
#include <dlfcn.h>

#include "tests/gpu/late_kernel.h"
#include "tests/gpu/stream_fixture.h"

namespace sinter::gpu_testing::runtime {
namespace {

constexpr auto kFused = PrepareOptions::Choice::kFused;
constexpr auto kUnfused = PrepareOptions::Choice::kUnfused;

Chain Square(int64_t n, int64_t k, bool gated) {
  return MakeFfnChain({.gated = gated, .n = n, .k = k, .l = k, .act = Activation::kSilu}).value();
}

class Runtime : public StreamTest {
 protected:
  static absl::StatusOr<PreparedPlanPtr> Prepare(const Chain& chain, int64_t m,
                                                 PrepareOptions::Choice choice) {
    return engine()->Prepare(chain, m, {.choice = choice});
  }

  // One launch on `stream`, waited for; checked.
  void ExpectRuns(DeviceChain& data, const BoundRun& run, const Stream& stream, int64_t m) {
    ASSERT_OK(data.Poison(run));
    ASSERT_OK(run.launch(stream.get(), m, false));
    ASSERT_OK(Synchronize(stream));
    EXPECT_OK(data.Check(Got(data.DownloadOutput()), m));
  }
};

TEST_F(Runtime, TwoStreamsRunAtOnce) {
  const Chain chains[] = {Square(3072, 1024, true), Square(2048, 512, false)};
  std::vector<std::unique_ptr<DeviceChain>> data;
  std::vector<BoundRun> runs;
  std::vector<Stream> streams;
  for (const Chain& chain : chains) {
    const auto plan = Got(Prepare(chain, 128, kFused));
    auto made = Got(DeviceChain::Make(ports(), chain, 128, 3));
    const auto run = Got(made->Bind(plan));
    auto stream = Got(MakeStream(device_));
    data.push_back(std::move(made));
    runs.push_back(run);
    streams.push_back(std::move(stream));
  }
  for (int round = 0; round < Repeats(); ++round) {
    for (size_t i = 0; i < 2; ++i) ASSERT_OK(data[i]->Poison(runs[i]));
    for (int launch = 0; launch < 10; ++launch) {
      for (size_t i = 0; i < 2; ++i) ASSERT_OK(runs[i].launch(streams[i].get(), 128, false));
    }
    for (size_t i = 0; i < 2; ++i) {
      ASSERT_OK(Synchronize(streams[i]));
      const auto output = Got(data[i]->DownloadOutput());
      ASSERT_OK(data[i]->Check(output, 128)) << "stream " << i << " round " << round;
    }
  }
}

TEST_F(Runtime, TwoThreadsShareAPlan) {
  const Chain chain = Square(3072, 1024, true);
  const auto plan = Got(Prepare(chain, 128, kFused));
  const auto work = [&](uint64_t seed) {
    const auto data = DeviceChain::Make(ports(), chain, 128, seed);
    ASSERT_OK(data);
    const auto run = (*data)->Bind(plan);
    ASSERT_OK(run);
    const auto stream = MakeStream(device_);
    ASSERT_OK(stream);
    for (int round = 0; round < Repeats(); ++round) ExpectRuns(**data, *run, *stream, 128);
  };
  std::thread other([&] { work(2); });
  work(1);
  other.join();
}

TEST_F(Runtime, ACapturedLaunchReplaysAfterItsPlanIsGone) {
  const Chain chain = Square(2048, 512, false);
  for (auto choice : {kFused, kUnfused}) {
    const auto data = Got(DeviceChain::Make(ports(), chain, 128, 3));
    const auto stream = Got(MakeStream(device_));
    absl::StatusOr<Graph> graph = absl::UnknownError("");
    DeviceBuffer workspace;
    {
      auto run = Got(data->Bind(Got(Prepare(chain, 128, choice))));
      workspace = run.workspace;
      ASSERT_OK(BeginCapture(stream));
      for (int i = 0; i < 3; ++i) EXPECT_OK(run.launch(stream.get(), 100, false));
      graph = EndCapture(stream);
      ASSERT_OK(graph);
    }
    const auto exec = Got(Instantiate(device_, *graph));
    for (int round = 0; round < 5; ++round) {
      ASSERT_OK(data->Poison({.workspace = workspace}));
      ASSERT_OK(Replay(exec, stream));
      ASSERT_OK(data->Check(Got(data->DownloadOutput()), 100));
    }
  }
}

TEST_F(Runtime, PreparingDuringCaptureIsRefusedAndLeavesTheCaptureValid) {
  const Chain chain = Square(1024, 256, false);
  const Chain other = Square(1152, 256, false);
  const auto plan = Got(Prepare(chain, 64, kFused));
  const auto data = Got(DeviceChain::Make(ports(), chain, 64, 3));
  const auto run = Got(data->Bind(plan));
  const auto stream = Got(MakeStream(device_));
  EXPECT_OK(engine()->RefuseDuringCapture(stream.get()));
  ASSERT_OK(BeginCapture(stream));
  EXPECT_OK(run.launch(stream.get(), 64, false));
  EXPECT_EQ(StatusNumber(engine()->RefuseDuringCapture(stream.get())),
            static_cast<int32_t>(ErrorCode::kStreamCapturing));
  std::thread preparing([&] { EXPECT_OK(Prepare(other, 64, kFused)); });
  preparing.join();
  EXPECT_OK(run.launch(stream.get(), 64, false));
  const auto exec = Got(Instantiate(device_, Got(EndCapture(stream))));
  ASSERT_OK(data->Poison(run));
  ASSERT_OK(Replay(exec, stream));
  EXPECT_OK(data->Check(Got(data->DownloadOutput()), 64));
}

TEST_F(Runtime, AThreadWithoutAContextKeepsNone) {
  const Chain chain = Square(1280, 256, false);
  std::thread thread([&] {
    CUcontext current = nullptr;
    ASSERT_EQ(driver()->CtxGetCurrent(&current), CUDA_SUCCESS);
    ASSERT_EQ(current, nullptr);
    const auto plan = Prepare(chain, 64, kFused);
    ASSERT_OK(plan);
    const auto data = DeviceChain::Make(ports(), chain, 64, 3);
    ASSERT_OK(data);
    ExpectCorrect(**data, *plan, 64, 2);
    ASSERT_EQ(driver()->CtxGetCurrent(&current), CUDA_SUCCESS);
    EXPECT_EQ(current, nullptr);
  });
  thread.join();
}

// A context that the caller creates, in addition to the primary one.
class OwnContext {
 public:
  explicit OwnContext(const Device& device) {
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (library == nullptr) return;
    const auto create = reinterpret_cast<CUresult (*)(CUcontext*, unsigned, CUdevice)>(
        dlsym(library, "cuCtxCreate_v2"));
    destroy_ = reinterpret_cast<CUresult (*)(CUcontext)>(dlsym(library, "cuCtxDestroy_v2"));
    if (create == nullptr || destroy_ == nullptr) return;
    if (create(&context_, 0, device.handle()) != CUDA_SUCCESS) context_ = nullptr;
  }
  ~OwnContext() {
    if (context_ != nullptr) destroy_(context_);
  }
  CUcontext get() const { return context_; }

 private:
  CUcontext context_ = nullptr;
  CUresult (*destroy_)(CUcontext) = nullptr;
};

TEST_F(Runtime, TheCallersContextIsRestored) {
  const OwnContext own(*device_);
  if (own.get() == nullptr) GTEST_SKIP() << "the driver makes no second context";
  const Chain chain = Square(1408, 256, false);
  const auto expect_own = [&](const char* after) {
    CUcontext current = nullptr;
    ASSERT_EQ(driver()->CtxGetCurrent(&current), CUDA_SUCCESS);
    EXPECT_EQ(current, own.get()) << after;
  };
  expect_own("creating it");
  const auto plan = Got(Prepare(chain, 64, kFused));
  expect_own("prepare");
  const auto data = Got(DeviceChain::Make(ports(), chain, 64, 3));
  const auto run = Got(data->Bind(plan));
  expect_own("bind");
  const auto output = Got(data->Run(run, 64));
  expect_own("launch");
  EXPECT_OK(data->Check(output, 64));
  EXPECT_FALSE(data->Run(run, 65).ok());
  expect_own("a refused launch");
}

TEST_F(Runtime, TwoPlansUseOneWorkspaceInTurn) {
  const Chain chains[] = {Square(3072, 1024, true), Square(4096, 1024, false)};
  for (auto choice : {kFused, kUnfused}) {
    std::vector<std::unique_ptr<DeviceChain>> data;
    std::vector<PreparedPlanPtr> plans;
    uint64_t bytes = 0;
    for (const Chain& chain : chains) {
      const auto plan = Got(Prepare(chain, 128, choice));
      auto made = Got(DeviceChain::Make(ports(), chain, 128, 3));
      plans.push_back(plan);
      data.push_back(std::move(made));
      bytes = std::max(bytes, plan->WorkspaceBytes());
    }
    if (bytes == 0) continue;
    const auto workspace = Got(data[0]->MakeWorkspace(bytes));
    ASSERT_OK(ports().measurer->RunAndWait([&](StreamHandle stream) -> absl::Status {
      const size_t larger = plans[0]->WorkspaceBytes() == bytes ? 0 : 1;
      return plans[larger]->InitWorkspace(workspace.ptr, bytes, stream);
    }));
    std::vector<BoundRun> runs;
    for (size_t i = 0; i < 2; ++i) runs.push_back(Got(data[i]->BindOn(plans[i], workspace)));
    const int64_t rows[] = {128, 65};
    for (int round = 0; round < 2 * Repeats(); ++round) {
      const size_t i = static_cast<size_t>(round % 2);
      const int64_t m = rows[round / 2 % 2];
      ASSERT_OK(data[i]->Check(Got(data[i]->Run(runs[i], m)), m)) << "round " << round;
    }
  }
}

TEST_F(Runtime, ALatePredecessorIsWaitedForOnAProgrammaticEdge) {
  const Chain chain = Square(3072, 1024, true);
  const int a = MatchProducts(chain).value().rows;
  for (auto choice : {kFused, kUnfused}) {
    const auto plan = Got(Prepare(chain, 128, choice));
    const auto data = Got(DeviceChain::Make(ports(), chain, 128, 3));
    const auto run = Got(data->Bind(plan));
    const DeviceBuffer input = data->input_buffer(a);
    const std::string& bytes = data->inputs()[static_cast<size_t>(a)];
    const auto kept = Got(data->MakeWorkspace(bytes.size()));
    ASSERT_OK(ports().measurer->Upload(kept, bytes.data(), bytes.size()));
    const auto late =
        Got(LateKernel::Make(ports().compiler.get(), ports().loader.get(), kept, input));
    for (int round = 0; round < Repeats(); ++round) {
      ASSERT_OK(data->Poison(run));
      ASSERT_OK(ports().measurer->Fill(input, 0xff));
      ASSERT_OK(ports().measurer->RunAndWait([&](StreamHandle stream) -> absl::Status {
        SINTER_RETURN_IF_ERROR(late->Enqueue(stream));
        return run.launch(stream, 128, true);
      }));
      ASSERT_OK(data->Check(Got(data->DownloadOutput()), 128)) << "round " << round;
    }
  }
}

// One layer's output is the next one's input, as in a model: E = f(f(f(A))).
TEST_F(Runtime, LayersOnProgrammaticEdgesGiveWhatPlainEdgesGive) {
  const Chain chain = Square(2048, 512, true);
  const MatchedSequence view = MatchProducts(chain).value();
  for (auto choice : {kFused, kUnfused}) {
    const auto plan = Got(Prepare(chain, 128, choice));
    const auto data = Got(DeviceChain::Make(ports(), chain, 128, 3));
    const uint64_t bytes = data->inputs()[static_cast<size_t>(view.rows)].size();
    const auto workspace = Got(data->MakeWorkspace(plan->WorkspaceBytes()));
    ASSERT_OK(ports().measurer->RunAndWait([&](StreamHandle stream) {
      return (plan)->InitWorkspace(workspace.ptr, workspace.bytes, stream);
    }));
    std::vector<DeviceBuffer> layers = {data->input_buffer(view.rows)};
    std::vector<std::shared_ptr<const PlanBinding>> bindings;
    for (int layer = 0; layer < 6; ++layer) {
      const auto out = Got(data->MakeWorkspace(bytes));
      layers.push_back(out);
      std::vector<DevicePtr> buffers(static_cast<size_t>(chain.num_inputs()) + 1);
      for (int i = 0; i < chain.num_inputs(); ++i) {
        const size_t caller = static_cast<size_t>(chain.InputOrder()[static_cast<size_t>(i)]);
        buffers[caller] = data->input_buffer(i).ptr;
        if (i == view.rows) buffers[caller] = layers[static_cast<size_t>(layer)].ptr;
      }
      buffers.back() = out.ptr;
      bindings.push_back(Got(plan->Bind(buffers, workspace.ptr)));
    }
    std::string plain;
    for (int round = 0; round < Repeats(); ++round) {
      for (size_t i = 1; i < layers.size(); ++i) ASSERT_OK(ports().measurer->Fill(layers[i], 0xff));
      ASSERT_OK(ports().measurer->RunAndWait([&](StreamHandle stream) -> absl::Status {
        for (const auto& binding : bindings) {
          SINTER_RETURN_IF_ERROR(plan->Launch(*binding, stream, 128, round > 0));
        }
        return absl::OkStatus();
      }));
      std::string output(bytes, '\0');
      ASSERT_OK(ports().measurer->Download(&output[0], layers.back(), bytes));
      if (round == 0) {
        plain = output;
        EXPECT_EQ(plain.find("\xff\xff"), std::string::npos) << "some of it was not written";
      }
      ASSERT_TRUE(output == plain) << "round " << round;
    }
  }
}

}  // namespace
}  // namespace sinter::gpu_testing::runtime
