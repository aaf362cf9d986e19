// One process of a serving host, only through the C ABI: opens a context for a target, makes
// chains, prepares a plan for each, and says when it did what.
//
//   child CACHE_DIR PACK NVRTC FIRST COUNT
//
// PACK and NVRTC may be "": no pack, the default compiler. A line an event: its name and the
// monotonic clock in microseconds; last "stats" and its numbers. Exit status: the first failure's.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "sinter/sinter.h"
#include "sinter/sinter_experimental.h"

namespace {

long long NowUs() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(now).count();
}

void Say(const char* event) {
  char line[128];
  const int n = std::snprintf(line, sizeof(line), "%s %lld\n", event, NowUs());
  if (write(STDOUT_FILENO, line, static_cast<size_t>(n)) != n) _exit(99);
}

[[noreturn]] void Fail(sinter_status status, const sinter_error* error) {
  std::fprintf(stderr, "child: %s\n", sinter_error_get_message(error));
  std::exit(status);
}

sinter_context* Open(const char* dir, const char* pack, const char* nvrtc) {
  sinter_context_options options = SINTER_INIT(sinter_context_options);
  options.target = "h200";
  options.cache_dir = dir;
  options.packs = &pack;
  options.pack_count = *pack != '\0' ? 1 : 0;
  options.unsigned_packs = SINTER_SWITCH_ON;
  if (*nvrtc != '\0') options.nvrtc_path = nvrtc;
  options.log_level = SINTER_LOG_ERROR;
  sinter_context* context = nullptr;
  sinter_error* error = nullptr;
  const sinter_status status = sinter_context_create(&options, &context, &error);
  if (status != SINTER_OK) Fail(status, error);
  return context;
}

// As the plan's JSON lists them.
uint32_t KernelsOf(const sinter_plan* plan) {
  constexpr char kKernel[] = "\"kernel_digest\"";
  sinter_x_text* json = nullptr;
  sinter_x_plan_to_json(plan, &json, nullptr);
  uint32_t count = 0;
  for (const char* at = sinter_x_text_get(json); (at = std::strstr(at, kKernel)) != nullptr; ++at) {
    ++count;
  }
  sinter_x_text_release(json);
  return count;
}

// Ten shapes, then the same in the next of ten buckets of M, whose kernels may be the same.
void Describe(int index, sinter_chain** chain, int64_t* m) {
  constexpr int64_t kRows[] = {8, 64, 16, 32, 48, 96, 128, 192, 256, 384};
  const std::string line = "gemm_chain m=M n=" + std::to_string(256 + 64 * (index % 10)) +
                           " k=64 l=64 act=relu layout=oi dtype=bf16";
  *m = kRows[index / 10];
  sinter_error* error = nullptr;
  const sinter_status status =
      sinter_x_chain_from_text(line.c_str(), chain, nullptr, nullptr, &error);
  if (status != SINTER_OK) Fail(status, error);
}

void OnProgress(uintptr_t, const char* stage, double) {
  if (std::string(stage).find(": compile") != std::string::npos) Say("compile");
}

}  // namespace

int main(int argc, char** argv) {
  Say("main");
  if (argc != 6) return 98;
  sinter_context* context = Open(argv[1], argv[2], argv[3]);
  Say("context");
  const int first = std::atoi(argv[4]), count = std::atoi(argv[5]);
  std::vector<sinter_chain*> chains(static_cast<size_t>(count));
  std::vector<int64_t> rows(chains.size());
  for (int i = 0; i < count; ++i) Describe(first + i, &chains[i], &rows[i]);
  Say("chains");
  sinter_prepare_options options = SINTER_INIT(sinter_prepare_options);
  options.progress = OnProgress;
  std::vector<sinter_plan*> plans(chains.size());
  sinter_error* error = nullptr;
  const sinter_status status =
      sinter_prepare_many(context, static_cast<uint32_t>(count), chains.data(), rows.data(),
                          &options, plans.data(), nullptr, &error);
  if (status != SINTER_OK) Fail(status, error);
  Say("plans");
  sinter_x_cache_flush(context, nullptr);
  Say("flushed");
  sinter_stats stats = SINTER_INIT(sinter_stats);
  sinter_context_get_stats(context, &stats, nullptr);
  uint32_t positions = 0;  // of kernels in plans; kernels of equal code are shared
  for (const sinter_plan* plan : plans) positions += KernelsOf(plan);
  std::printf("stats %llu %llu %llu %u %u\n", static_cast<unsigned long long>(stats.searched),
              static_cast<unsigned long long>(stats.kernels_compiled),
              static_cast<unsigned long long>(stats.kernel_hits), stats.nvrtc_loaded, positions);
  for (sinter_plan* plan : plans) sinter_plan_release(plan);
  for (sinter_chain* chain : chains) sinter_chain_release(chain);
  sinter_context_release(context);
  return 0;
}
