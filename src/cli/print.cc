#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <optional>
#include <sstream>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "src/base/dtype.h"
#include "src/base/format.h"
#include "src/base/transfer.h"
#include "src/cli/options.h"
#include "src/cli/outcome.h"

namespace sinter::cli {
namespace {

// Where the continuation of a broken line begins: after the first gap of two blanks, if that leaves
// enough room, else under the start of the line's text.
size_t IndentOf(const std::string& line, size_t columns) {
  const size_t text = line.find_first_not_of(' ');
  const size_t gap = line.find("  ", text);
  const size_t second = gap == std::string::npos ? gap : line.find_first_not_of(' ', gap);
  if (second != std::string::npos && second < columns / 2) return second;
  constexpr size_t kColumn = 8;  // a second column begins here at the earliest
  return text < kColumn ? text + 2 : text;
}

std::string Broken(std::string line, size_t columns) {
  if (line.size() <= columns) return line;
  const std::string indent(IndentOf(line, columns), ' ');
  std::string out;
  while (line.size() > columns) {
    const size_t blank = line.rfind(' ', columns);
    if (blank == std::string::npos || blank <= indent.size()) break;  // one long word is not broken
    out += line.substr(0, blank) + "\n";
    line = indent + line.substr(blank + 1);
  }
  return out + line;
}

}  // namespace

std::string Wrapped(const std::string& text, size_t columns) {
  std::istringstream in(text);
  std::string out;
  for (std::string line; std::getline(in, line);) out += Broken(line, columns) + "\n";
  return out;
}

std::string PrintableAt(const Json& json, const char* key) {
  const auto at = json.find(key);
  return at != json.end() && at->is_string() ? Printable(at->get<std::string>()) : std::string();
}

void PrintJson(const Json& json) {
  std::printf("%s\n", json.dump(2, ' ', true, Json::error_handler_t::replace).c_str());
}

int TerminalColumns() {
  constexpr int kUsual = 80;
  winsize size{};
  const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : kUsual;
}

std::string Fitted(const std::string& text, int columns) {
  constexpr size_t kGap = 2;  // ".."
  const auto room = static_cast<size_t>(std::max(columns, 0));
  if (text.size() <= room) return text;
  if (room <= kGap) return text.substr(0, room);
  const size_t front = (room - kGap + 1) / 2, back = room - kGap - front;
  return text.substr(0, front) + ".." + text.substr(text.size() - back);
}

Progress::Progress()
    : terminal_(isatty(STDERR_FILENO) == 1), start_(std::chrono::steady_clock::now()) {}

Progress::~Progress() {
  if (shown_) std::fputs("\r\033[K", stderr);
}

void Progress::Show(const std::string& bar, const std::string& stage, double fraction) {
  if (!IsDue()) return;
  char percent[16];
  std::snprintf(percent, sizeof(percent), "%3.0f %% ", 100 * std::clamp(fraction, 0.0, 1.0));
  // One column stays free: text in the last one makes a terminal wrap, and then the line cannot be
  // wiped.
  const int columns = TerminalColumns() - 1;
  const std::string head = Fitted(percent + bar, columns);
  Write(head + Fitted(stage, columns - static_cast<int>(head.size())));
}

void Progress::ShowElapsed(const std::string& stage) {
  if (!IsDue()) return;
  const auto took = std::chrono::steady_clock::now() - start_;
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(took).count();
  Write(Fitted(stage + ": " + std::to_string(seconds) + " s", TerminalColumns() - 1));
}

bool Progress::IsDue() const {
  return terminal_ && std::chrono::steady_clock::now() - start_ >= std::chrono::seconds(1);
}

void Progress::Write(const std::string& line) {
  std::lock_guard<std::mutex> lock(mutex_);
  shown_ = true;
  std::fprintf(stderr, "\r\033[K%s", line.c_str());
  std::fflush(stderr);
}

void Progress::Callback(uintptr_t user_data, const char* stage, double fraction) {
  reinterpret_cast<Progress*>(user_data)->Show("", stage, fraction);
}

Elapsed::Elapsed(std::string stage) {
  if (!progress_.on_terminal()) return;
  try {
    thread_ = std::thread([this, stage = std::move(stage)] {
      std::unique_lock<std::mutex> lock(mutex_);
      while (!ended_.wait_for(lock, std::chrono::seconds(1), [this] { return end_; })) {
        progress_.ShowElapsed(stage);
      }
    });
  } catch (const std::system_error&) {  // no thread: the work goes on without progress
  }
}

Elapsed::~Elapsed() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    end_ = true;
  }
  ended_.notify_one();
  thread_.join();
}

namespace {

constexpr size_t kMostFileBytes = size_t{64} << 20;

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ > STDERR_FILENO) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int fd() const { return fd_; }

 private:
  const int fd_;
};

std::string KindOf(const struct stat& info) {
  if (S_ISREG(info.st_mode)) return "";
  if (S_ISDIR(info.st_mode)) return "a folder";
  if (S_ISFIFO(info.st_mode)) return "a pipe";
  return S_ISSOCK(info.st_mode) ? "a socket" : "a device";
}

Outcome NotAFile(const std::string& path, const std::string& kind, const char* stream) {
  return Usage(path + " is " + kind + ", not a file" +
               (kind == "a folder" ? "" : " (\"-\" is " + std::string(stream) + ")"));
}

Outcome CannotRead(const std::string& path) {
  return Usage("cannot read " + path + ": " + std::strerror(errno));
}

Outcome CannotWrite(const std::string& path, int error) {
  return Usage("cannot write " + path + ": " + std::strerror(error));
}

Outcome ReadAll(int fd, const std::string& path, std::string* out) {
  out->clear();
  char part[1 << 16];
  for (;;) {
    const ssize_t n = read(fd, part, sizeof(part));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return CannotRead(path);
    if (n == 0) break;
    out->append(part, static_cast<size_t>(n));
    if (out->size() > kMostFileBytes) return Usage(path + " has more than 64 MiB");
  }
  if (out->find('\0') != std::string::npos) return Usage(path + " is not a text file");
  return {};
}

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

bool IsFile(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

std::string OtherThanFile(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 ? KindOf(info) : "";
}

Outcome ReadFile(const std::string& path, std::string* out) {
  if (path == kStandardStream) return ReadAll(STDIN_FILENO, "standard input", out);
  // Checked before opening, since opening may act on a device, and after, in case it changed.
  const std::string other = OtherThanFile(path);
  if (!other.empty()) return NotAFile(path, other, "standard input");
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat info;
  if (file.fd() < 0 || fstat(file.fd(), &info) != 0) return CannotRead(path);
  if (!S_ISREG(info.st_mode)) return NotAFile(path, KindOf(info), "standard input");
  return ReadAll(file.fd(), path, out);
}

Outcome CheckReadable(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0 || access(path.c_str(), R_OK) != 0) return CannotRead(path);
  if (S_ISREG(info.st_mode)) return {};
  return Usage(path + " is " + KindOf(info) + ", not a file");
}

Outcome CheckWritable(const std::string& path) {
  if (path == kStandardStream) return {};
  struct stat info;
  if (stat(path.c_str(), &info) == 0) {
    if (!S_ISREG(info.st_mode)) return NotAFile(path, KindOf(info), "standard output");
    return access(path.c_str(), W_OK) == 0 ? Outcome{} : CannotWrite(path, errno);
  }
  if (errno != ENOENT) return CannotWrite(path, errno);
  return access(FolderOf(path).c_str(), W_OK | X_OK) == 0 ? Outcome{} : CannotWrite(path, errno);
}

Outcome WriteFile(const std::string& path, const std::string& text) {
  if (path == kStandardStream) {
    std::fwrite(text.data(), 1, text.size(), stdout);  // the end of the command reports a failure
    return {};
  }
  SINTER_CLI_TRY(CheckWritable(path));
  const absl::Status written = ReplaceFile(path, text, 0644);
  return written.ok() ? Outcome{}
                      : Failure("cannot write " + path + ": " + std::string(written.message()));
}

namespace {

template <typename T>
bool ParseWhole(const std::string& text, T* out) {
  const char* const end = text.data() + text.size();
  const std::from_chars_result result = std::from_chars(text.data(), end, *out);
  return result.ec == std::errc() && result.ptr == end;
}

// "300000000", not "3e+08".
std::string Plain(double value) {
  return value == std::floor(value) ? std::to_string(static_cast<int64_t>(value))
                                    : std::to_string(value);
}

CLI::Validator Checked(std::function<std::string(std::string&)> check, const std::string& name) {
  return CLI::Validator(std::move(check), name);
}

// "MemAvailable:   123 kB"; 0 without.
uint64_t Available() {
  std::ifstream in("/proc/meminfo");
  std::string word;
  while (in >> word) {
    uint64_t kilobytes = 0;
    if (word == "MemAvailable:" && in >> kilobytes) return kilobytes << 10;
  }
  return 0;
}

bool ReadNumber(const char* path, uint64_t* out) {
  std::ifstream in(path);
  return static_cast<bool>(in >> *out);  // "max" is not a number: no limit
}

}  // namespace

CLI::Validator Integer(int64_t low, uint64_t high) {
  const std::string wanted =
      "is not an integer from " + std::to_string(low) + " to " + std::to_string(high);
  return Checked(
      [=](std::string& text) {
        uint64_t value = 0;
        int64_t negative = 0;
        const bool fits = ParseWhole(text, &value)
                              ? value <= high && (low <= 0 || value >= static_cast<uint64_t>(low))
                              : ParseWhole(text, &negative) && negative >= low;
        return fits ? std::string() : "\"" + text + "\" " + wanted;
      },
      std::to_string(low) + ".." + std::to_string(high));
}

CLI::Validator Number(double low, double high) {
  const std::string wanted = "is not a number from " + Plain(low) + " to " + Plain(high);
  return Checked(
      [=](std::string& text) {
        double value = 0;
        const bool fits = ParseWhole(text, &value) && value >= low && value <= high;
        return fits ? std::string() : "\"" + text + "\" " + wanted;
      },
      Plain(low) + ".." + Plain(high));
}

CLI::Validator Bytes() {
  return Checked(
      [](std::string& text) {
        const absl::StatusOr<uint64_t> bytes = ParseByteSize(text);
        if (!bytes.ok()) return std::string(bytes.status().message());
        if (*bytes == 0) return "\"" + text + "\" is not a size of at least 1 byte";
        text = std::to_string(*bytes);
        return std::string();
      },
      "SIZE");
}

namespace {

constexpr char kRangeDots[] = "..";

struct RowRange {
  int64_t low = 1, high = 0;
};

// Nothing for a word that is not a range.
std::optional<RowRange> ReadRange(const std::string& word) {
  const size_t dots = word.find(kRangeDots);
  if (dots == std::string::npos) return std::nullopt;
  const std::string low = dots == 0 ? "1" : word.substr(0, dots), high = word.substr(dots + 2);
  uint64_t from = 0, to = 0;
  const bool fits =
      ParseWhole(low, &from) && ParseWhole(high, &to) && from >= 1 && from <= to && to <= kMostRows;
  if (!fits) return std::nullopt;
  return RowRange{static_cast<int64_t>(from), static_cast<int64_t>(to)};
}

}  // namespace

CLI::Validator RowsOrRange() {
  return Checked(
      [](std::string& text) {
        uint64_t rows = 0;
        if ((ParseWhole(text, &rows) && rows <= kMostRows) || ReadRange(text)) return std::string();
        const std::string most = std::to_string(kMostRows);
        if (text.find(kRangeDots) != std::string::npos) {
          return "\"" + text +
                 "\" is not a range ..HIGH or LOW..HIGH with 1 <= LOW <= HIGH <= " + most;
        }
        return "\"" + text + "\" is neither an integer from 0 to " + most + " nor a range ..HIGH";
      },
      "ROWS");
}

void AddRows(const std::string& word, Rows* rows) {
  const std::optional<RowRange> range = ReadRange(word);
  if (!range) {
    uint64_t given = 0;
    if (ParseWhole(word, &given)) rows->given.push_back(static_cast<int64_t>(given));
    return;
  }
  std::vector<int64_t> buckets = {BucketOf(range->high)};
  while (buckets.back() > BucketOf(range->low)) buckets.push_back(BucketBelow(buckets.back()));
  rows->buckets.insert(rows->buckets.end(), buckets.rbegin(), buckets.rend());
}

CLI::Validator OneOf(const std::vector<std::string>& words) {
  return Checked(
      [words](std::string& text) {
        const bool known = std::find(words.begin(), words.end(), text) != words.end();
        return known ? std::string() : "\"" + text + "\" is not one of " + Join(words, ", ");
      },
      "{" + Join(words, ",") + "}");
}

CLI::Validator Path() {
  return Checked(
      [](std::string& text) { return std::string(text.empty() ? "\"\" is not a path" : ""); },
      "PATH");
}

int64_t MicrosecondsOf(double seconds) { return static_cast<int64_t>(std::ceil(seconds * 1e6)); }

uint64_t FreeMemory() {
  uint64_t limit = 0, used = 0, free = Available();
  if (ReadNumber("/sys/fs/cgroup/memory.max", &limit) &&
      ReadNumber("/sys/fs/cgroup/memory.current", &used)) {
    const uint64_t left = limit > used ? limit - used : 1;
    free = free == 0 ? left : std::min(free, left);
  }
  return free;
}

uint32_t JobsThatFit() {
  const uint64_t processors = std::max(1u, std::thread::hardware_concurrency());
  const uint64_t free = FreeMemory();
  const uint64_t fit = free == 0 ? processors : std::max<uint64_t>(1, free / kBytesPerJob);
  return static_cast<uint32_t>(std::min(processors, fit));
}

}  // namespace sinter::cli
