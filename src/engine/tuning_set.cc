#include "src/engine/tuning_set.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <system_error>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "src/base/digest.h"
#include "src/base/status.h"
#include "src/base/transfer.h"

namespace sinter {
namespace {

absl::Status Refused(const std::string& path, absl::string_view why) {
  return Invalid("tuning set ", path, ": ", why);
}

absl::Status SystemError(const std::string& path, absl::string_view what) {
  const int code = errno;
  return Refused(path, absl::StrCat(what, ": ", std::generic_category().message(code)));
}

}  // namespace

Digest ChipDigest(const DeviceModel& model) {
  return Sha256(absl::StrCat("sinter chip 1\n", model.name, "\n", model.arch, "\n", model.sm_count,
                             "\n", model.l2_bytes, "\n", model.shared_bytes_per_block, "\n",
                             model.registers_per_sm, "\n"));
}

void TuningSet::Add(TuningEntry entry) {
  const TuningKey key = entry.key;
  entries_[key] = std::move(entry);
}

void TuningSet::Merge(const TuningSet& other) {
  for (const auto& entry : other.entries_) entries_[entry.first] = entry.second;
}

const TuningEntry* TuningSet::Find(const TuningKey& key) const {
  const auto entry = entries_.find(key);
  return entry == entries_.end() ? nullptr : &entry->second;
}

bool TuningSet::HasChip(const Digest& chip) const {
  for (const auto& entry : entries_) {
    if (entry.first.chip == chip) return true;
  }
  return false;
}

absl::StatusOr<TuningSet> ReadTuningFile(const std::string& path) {
  // Opens without blocking: a named pipe is refused below, not waited for.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return SystemError(path, "cannot be opened");
  const auto closed = absl::MakeCleanup([fd] { close(fd); });
  struct stat info {};
  if (fstat(fd, &info) != 0) return SystemError(path, "cannot be read");
  const absl::Status trusted = CheckTrustedFile(info);
  if (!trusted.ok()) return Refused(path, trusted.message());
  const uint64_t bytes = static_cast<uint64_t>(info.st_size);
  if (bytes > kMaxTuningFile) {
    return Refused(path, absl::StrCat(bytes, " bytes, must be at most ", kMaxTuningFile));
  }
  std::string text(static_cast<size_t>(bytes), '\0');
  if (!ReadAll(fd, &text)) return SystemError(path, "cannot be read");
  absl::StatusOr<TuningSet> set = TuningSet::FromText(text);
  if (!set.ok()) return Refused(path, set.status().message());
  return set;
}

absl::Status WriteTuningFile(const TuningSet& set, const std::string& path) {
  const std::string text = set.ToText();
  if (text.size() > kMaxTuningFile) {
    return Refused(path, absl::StrCat(text.size(), " bytes, must be at most ", kMaxTuningFile));
  }
  const absl::StatusOr<std::string> place = ReplaceablePath(path);
  const absl::Status written =
      place.ok() ? ReplaceFile(*place, text, 0644, /*sync=*/true) : place.status();
  return absl::IsUnavailable(written)
             ? Refused(path, absl::StrCat("cannot be written: ", written.message()))
             : written;
}

// The text form of a set.

namespace {

constexpr absl::string_view kHead = "sinter tuning set ";
constexpr absl::string_view kFormat = "1";
constexpr absl::string_view kDigest = "sha256 ";
constexpr size_t kMaxWords = 512;      // of a line for human readers
constexpr size_t kMaxPlan = 1u << 20;  // bytes
constexpr size_t kMaxKernels = 64;     // of a plan

// The shortest decimal that reads back as the same double, in any locale.
std::string Number(double value) {
  char buffer[64];
  const std::to_chars_result end = std::to_chars(buffer, buffer + sizeof(buffer), value);
  return std::string(buffer, end.ptr);
}

// One line of printable text for human readers. It is never empty, so that every field reads back
// as it was written.
std::string Words(absl::string_view text) {
  std::string words;
  for (const char c : text.substr(0, kMaxWords)) {
    const bool space = static_cast<unsigned char>(c) <= ' ' || c == 0x7f;
    if (space && (words.empty() || words.back() == ' ')) continue;
    words.push_back(space ? ' ' : c);
  }
  while (!words.empty() && words.back() == ' ') words.pop_back();
  return words.empty() ? "unknown" : words;
}

void Append(const TuningEntry& e, std::string* out) {
  absl::StrAppend(out, "chain ", e.key.chain.Hex(), " m ", e.key.bucket, " chip ", e.key.chip.Hex(),
                  " flags ", e.key.flags, "\n");
  absl::StrAppend(out, "  on ", Words(e.chip), "\n  plan ", Words(e.plan), "\n");
  for (const std::string& schedule : e.schedules) {
    absl::StrAppend(out, "  schedule ", Words(schedule), "\n");
  }
  for (const Digest& kernel : e.kernels) absl::StrAppend(out, "  kernel ", kernel.Hex(), "\n");
  absl::StrAppend(out, "  predicted_us ", Number(e.predicted_us), "\n  measured_us ",
                  Number(e.measured_us), "\n  untuned_us ", Number(e.untuned_us), "\n");
  absl::StrAppend(out, "  device ", Words(e.device), "\n  driver ", Words(e.driver), "\n  seed ",
                  e.seed, "\n  error ", Number(e.error), "\n");
  absl::StrAppend(out, "  bytes ", absl::BytesToHexString(e.bytes), "\n");
}

std::string Body(const std::map<TuningKey, TuningEntry>& entries) {
  std::string text = absl::StrCat(kHead, kFormat, "\n");
  for (const auto& entry : entries) Append(entry.second, &text);
  return text;
}

// Reads the lines between head and digest. Every method keeps the first error in `status`.
class Reader {
 public:
  // Takes line by line: a text of nothing but line ends must not become a huge list.
  explicit Reader(absl::string_view body) : rest_(body) {}
  bool More() const { return status_.ok() && !rest_.empty(); }
  bool NextIs(absl::string_view key) const {
    return More() && absl::StartsWith(rest_, absl::StrCat(key, " "));
  }
  const absl::Status& status() const { return status_; }

  void Fail(absl::string_view why) {
    if (!status_.ok()) return;
    status_ = DataLoss("line ", line_, ": ", why);
  }

  // What follows `key` and a blank in the next line, which must begin with these.
  absl::string_view Field(absl::string_view key) {
    if (!status_.ok()) return "";
    ++line_;
    if (!NextIs(key)) {
      Fail(absl::StrCat("expected \"", absl::StripAsciiWhitespace(key), " ..\""));
      return "";
    }
    const absl::string_view line = rest_.substr(0, rest_.find('\n'));
    rest_.remove_prefix(std::min(rest_.size(), line.size() + 1));
    return line.substr(key.size() + 1);
  }

  std::string Text(absl::string_view key) {
    const absl::string_view text = Field(key);
    if (text.size() > kMaxWords) Fail(absl::StrCat("text of ", text.size(), " bytes"));
    return std::string(text);
  }

  double Figure(absl::string_view key) {
    const absl::string_view text = Field(key);
    double value = 0;
    const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
    if (end.ec != std::errc() || end.ptr != text.data() + text.size() || !std::isfinite(value) ||
        value < 0) {
      Fail(absl::StrCat("\"", text.substr(0, 32), "\" is not a number >= 0"));
    }
    return value;
  }

  Digest Hash(absl::string_view hex) {
    const absl::StatusOr<Digest> digest = Digest::FromHex(hex);
    if (!digest.ok()) Fail(digest.status().message());
    return digest.ok() ? *digest : Digest();
  }

  template <typename T>
  T Integer(absl::string_view text) {
    T value = 0;
    if (!absl::SimpleAtoi(text, &value)) {
      Fail(absl::StrCat("\"", text.substr(0, 32), "\" is not an integer"));
    }
    return value;
  }

  std::string Bytes(absl::string_view key) {
    const absl::string_view hex = Field(key);
    if (hex.size() % 2 != 0 || hex.size() / 2 > kMaxPlan) {
      Fail(absl::StrCat(hex.size(), " hexadecimal digits"));
      return "";
    }
    for (const char c : hex) {
      if (absl::ascii_isxdigit(static_cast<unsigned char>(c))) continue;
      Fail("not hexadecimal");
      return "";
    }
    return absl::HexStringToBytes(hex);
  }

 private:
  absl::string_view rest_;  // after the last line taken
  size_t line_ = 0;         // number of the last line taken, from 1
  absl::Status status_;
};

TuningKey ReadKey(Reader& r) {
  const std::vector<absl::string_view> words = absl::StrSplit(r.Field("chain"), ' ');
  TuningKey key;
  if (words.size() != 7 || words[1] != "m" || words[3] != "chip" || words[5] != "flags") {
    r.Fail("expected \"chain .. m .. chip .. flags ..\"");
    return key;
  }
  key.chain = r.Hash(words[0]);
  key.bucket = r.Integer<int64_t>(words[2]);
  key.chip = r.Hash(words[4]);
  key.flags = r.Integer<uint64_t>(words[6]);
  return key;
}

TuningEntry ReadEntry(Reader& r) {
  TuningEntry e;
  e.key = ReadKey(r);
  e.chip = r.Text("  on");
  e.plan = r.Text("  plan");
  while (r.NextIs("  schedule") && e.schedules.size() < kMaxKernels) {
    e.schedules.push_back(r.Text("  schedule"));
  }
  while (r.NextIs("  kernel") && e.kernels.size() < kMaxKernels) {
    e.kernels.push_back(r.Hash(r.Field("  kernel")));
  }
  e.predicted_us = r.Figure("  predicted_us");
  e.measured_us = r.Figure("  measured_us");
  e.untuned_us = r.Figure("  untuned_us");
  e.device = r.Text("  device");
  e.driver = r.Text("  driver");
  e.seed = r.Integer<uint64_t>(r.Field("  seed"));
  e.error = r.Figure("  error");
  e.bytes = r.Bytes("  bytes");
  return e;
}

// The body of a text whose head and digest are right.
absl::StatusOr<absl::string_view> CheckedBody(absl::string_view text) {
  if (!absl::StartsWith(text, kHead)) return DataLoss("not a tuning set");
  const absl::string_view format = text.substr(kHead.size(), text.find('\n') - kHead.size());
  if (format != kFormat) {
    return DataLoss("format \"", format.substr(0, 16), "\", must be ", kFormat);
  }
  const size_t tail = kDigest.size() + 64 + 1;
  const size_t head = kHead.size() + kFormat.size() + 1;
  if (text.size() < head + tail || !absl::StartsWith(text.substr(text.size() - tail), kDigest) ||
      text.back() != '\n') {
    return DataLoss("cut short: no digest at its end");
  }
  const absl::string_view body = text.substr(0, text.size() - tail);
  const absl::string_view digest = text.substr(body.size() + kDigest.size(), 64);
  const std::string want = Sha256(body).Hex();
  if (digest != want) {
    return DataLoss("damaged: its content has SHA-256 ", want, ", it says ", digest);
  }
  return body;
}

}  // namespace

Digest TuningSet::SetDigest() const { return Sha256(Body(entries_)); }

std::string TuningSet::ToText() const {
  std::string text = Body(entries_);
  absl::StrAppend(&text, kDigest, Sha256(text).Hex(), "\n");
  return text;
}

absl::StatusOr<TuningSet> TuningSet::FromText(absl::string_view text) {
  SINTER_ASSIGN_OR_RETURN(const absl::string_view body, CheckedBody(text));
  Reader reader(body);
  reader.Field("sinter");
  TuningSet set;
  while (reader.More()) set.Add(ReadEntry(reader));
  SINTER_RETURN_IF_ERROR(reader.status());
  if (Body(set.entries_) != body) {
    return DataLoss("not in canonical form: an entry twice, out of order, or rewritten");
  }
  return set;
}

}  // namespace sinter
