#include "src/base/log.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <new>

#include "absl/strings/str_format.h"
#include "src/base/format.h"
#include "src/base/transfer.h"

namespace sinter {
namespace {

int64_t Nanoseconds(Trace::Clock::duration duration) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count();
}

}  // namespace

Trace::Trace(absl::string_view path) : path_(PathOfProcess(path)), process_(getpid()) {}

void Trace::Add(const char* name, std::string detail, Clock::time_point begin,
                Clock::time_point end) noexcept {
  try {
    const auto spans = spans_.Lock();
    if (spans->kept.size() >= kMostSpans) {
      ++spans->dropped;
      return;
    }
    spans->kept.push_back({name, std::move(detail), syscall(SYS_gettid),
                           Nanoseconds(begin.time_since_epoch()), Nanoseconds(end - begin)});
  } catch (const std::bad_alloc&) {
  }
}

std::string Trace::Text() {
  const auto spans = spans_.Lock();
  std::string text = absl::StrFormat(
      "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"dropped\":%d},\"traceEvents\":[\n"
      "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%d,\"args\":{\"name\":\"sinter\"}}",
      spans->dropped, process_);
  for (const Span& span : spans->kept) {
    absl::StrAppendFormat(
        &text,
        ",\n{\"name\":\"%s\",\"cat\":\"sinter\",\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"ts\":%d.%03d,"
        "\"dur\":%d.%03d,\"args\":{\"detail\":%s}}",
        span.name, process_, span.thread, span.begin_ns / 1000, span.begin_ns % 1000,
        span.duration_ns / 1000, span.duration_ns % 1000, JsonString(span.detail));
  }
  return text + "\n]}\n";
}

absl::Status Trace::Write() {
  if (getpid() != process_) return absl::OkStatus();
  return ReplaceFile(path_, Text(), 0600);
}

}  // namespace sinter
