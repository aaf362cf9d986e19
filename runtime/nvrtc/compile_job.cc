#include "runtime/nvrtc/compile_job.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "src/base/fork_local.h"
#include "src/base/status.h"

namespace sinter {
namespace {

constexpr std::chrono::milliseconds kPollPause(10);

// Compiles of this process that nobody waits for.
struct LeftOver {
  int count = 0;
  std::condition_variable fewer;
};

// Never destroyed: threads come by until the process is gone.
ForkLocal<LeftOver, /*kKeep=*/false>& LeftOvers() {
  static auto* const left = new ForkLocal<LeftOver, /*kKeep=*/false>;
  return *left;
}

struct Job {
  CompileWork work;
  std::atomic<bool> unwanted{false};
  std::mutex mutex;
  std::condition_variable ended;
  // Guarded by the mutex.
  bool done = false;
  bool left = false;
  absl::StatusOr<CompiledKernel> result = absl::ResourceExhaustedError("");
  std::exception_ptr thrown;
};

void Run(const std::shared_ptr<Job>& job) noexcept {
  absl::StatusOr<CompiledKernel> result = absl::ResourceExhaustedError("");
  std::exception_ptr thrown;
  try {
    result = job->work(job->unwanted);
  } catch (...) {
    thrown = std::current_exception();
  }
  job->work = nullptr;
  std::unique_lock<std::mutex> lock(job->mutex);
  job->result = std::move(result);
  job->thrown = thrown;
  job->done = true;
  job->ended.notify_all();
  const bool left = job->left;
  lock.unlock();
  if (!left) return;
  const auto all = LeftOvers().Lock();
  --all->count;
  all->fewer.notify_all();
}

absl::Status AwaitPlace(const KeepGoing& keep_going) {
  static const int most = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  auto left = LeftOvers().Lock();
  while (left->count >= most) {
    SINTER_RETURN_IF_ERROR(keep_going.Check());
    left->fewer.wait_for(left.lock(), kPollPause);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CompiledKernel> RunCompileJob(CompileWork work, const KeepGoing& keep_going) {
  SINTER_RETURN_IF_ERROR(AwaitPlace(keep_going));
  const auto job = std::make_shared<Job>();
  job->work = std::move(work);
  try {
    std::thread(Run, job).detach();
  } catch (const std::system_error&) {
    return absl::ResourceExhaustedError("compiling: no thread could be started");
  }
  std::unique_lock<std::mutex> lock(job->mutex);
  while (!job->done) {
    job->ended.wait_for(lock, kPollPause);
    absl::Status wanted = job->done ? absl::OkStatus() : keep_going.Check();
    if (wanted.ok()) continue;
    job->unwanted = true;
    job->left = true;
    ++LeftOvers().Lock()->count;
    return wanted;
  }
  if (job->thrown != nullptr) std::rethrow_exception(job->thrown);
  return std::move(job->result);
}

}  // namespace sinter
