#include "src/engine/tuning_set.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
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
constexpr absl::string_view kFormat = "2";
constexpr absl::string_view kDigest = "sha256 ";
constexpr absl::string_view kIndent = "  ";
constexpr absl::string_view kRecord = "  record ";
constexpr size_t kMaxWords = 512;  // of a line for human readers

// One line of printable text for human readers. It is never empty, so that every line reads back
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
  for (const absl::string_view line : absl::StrSplit(e.about, '\n', absl::SkipEmpty())) {
    absl::StrAppend(out, kIndent, Words(line), "\n");
  }
  absl::StrAppend(out, kRecord, absl::BytesToHexString(e.record), "\n");
}

std::string Body(const std::map<TuningKey, TuningEntry>& entries) {
  std::string text = absl::StrCat(kHead, kFormat, "\n");
  for (const auto& entry : entries) Append(entry.second, &text);
  return text;
}

// Reads the lines between head and digest. Every method keeps the first error in `status`. A text
// that it reads may still be none that Body writes.
class Reader {
 public:
  // Takes line by line: a text of nothing but line ends must not become a huge list.
  explicit Reader(absl::string_view body) : rest_(body) { Line(); }
  bool More() const { return status_.ok() && !rest_.empty(); }
  const absl::Status& status() const { return status_; }

  TuningEntry Entry() {
    TuningEntry entry;
    entry.key = Key(absl::StrSplit(Line(), ' '));
    while (absl::StartsWith(rest_, kIndent) && !absl::StartsWith(rest_, kRecord)) {
      absl::StrAppend(&entry.about, Line().substr(kIndent.size()), "\n");
    }
    entry.record = Record(Line());
    return entry;
  }

 private:
  void Fail(absl::string_view why) {
    if (status_.ok()) status_ = DataLoss("line ", line_, ": ", why);
  }

  absl::string_view Line() {
    const absl::string_view line = rest_.substr(0, rest_.find('\n'));
    rest_.remove_prefix(std::min(rest_.size(), line.size() + 1));
    ++line_;
    return line;
  }

  TuningKey Key(const std::vector<absl::string_view>& words) {
    TuningKey key;
    const bool whole = words.size() == 8 && words[0] == "chain" && words[2] == "m" &&
                       words[4] == "chip" && words[6] == "flags";
    if (!whole || !absl::SimpleAtoi(words[3], &key.bucket) ||
        !absl::SimpleAtoi(words[7], &key.flags)) {
      Fail("expected \"chain <digest> m <integer> chip <digest> flags <integer>\"");
      return key;
    }
    key.chain = Hash(words[1]);
    key.chip = Hash(words[5]);
    return key;
  }

  Digest Hash(absl::string_view hex) {
    const absl::StatusOr<Digest> digest = Digest::FromHex(hex);
    if (!digest.ok()) Fail(digest.status().message());
    return digest.ok() ? *digest : Digest();
  }

  std::string Record(absl::string_view line) {
    const bool named = absl::ConsumePrefix(&line, kRecord);
    if (named && line.size() % 2 == 0 && std::all_of(line.begin(), line.end(), [](unsigned char c) {
          return absl::ascii_isxdigit(c);
        })) {
      return absl::HexStringToBytes(line);
    }
    Fail("expected \"record <hexadecimal bytes>\"");
    return "";
  }

  absl::string_view rest_;  // after the last line taken
  size_t line_ = 0;         // number of the last line taken, from 1
  absl::Status status_;
};

// The body of a text whose head and digest are right.
absl::StatusOr<absl::string_view> CheckedBody(absl::string_view text) {
  if (!absl::StartsWith(text, kHead)) return DataLoss("not a tuning set");
  const absl::string_view format = text.substr(kHead.size(), text.find('\n') - kHead.size());
  if (format != kFormat) {
    return DataLoss("format \"", format.substr(0, 16), "\", must be ", kFormat,
                    ": measure again by sinter tune");
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
  TuningSet set;
  while (reader.More()) set.Add(reader.Entry());
  SINTER_RETURN_IF_ERROR(reader.status());
  if (Body(set.entries_) != body) {
    return DataLoss("not in canonical form: an entry twice, out of order, or rewritten");
  }
  return set;
}

}  // namespace sinter
