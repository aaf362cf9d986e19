// Envelope: the bytes in which every tier stores a record, and the one verifier that all tiers use.
//
// Layout, little-endian (strings are u64 length + bytes):
//   8 bytes magic, u32 format version, 32 bytes SHA-256 of all that follows,
//   u8 kind, u8 verified, u32 flags (0), i64 creation time (unix seconds),
//   producer, arch, full key, payload; nothing behind.
// Magic and version are at the same place in every version. Of another version nothing else is
// read, not even the hash, which it may compute differently. The hash guards against accidents. Who
// may write the store is another matter: see the README of cache/store.
#ifndef SINTER_CACHE_RECORD_ENVELOPE_H_
#define SINTER_CACHE_RECORD_ENVELOPE_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "src/base/ports.h"

namespace sinter {

constexpr uint32_t kEnvelopeVersion = 4;
constexpr uint32_t kKernelRecordVersion = 4;

// The versions that a codec writes and accepts. Only tests set other numbers, to act as another
// version of the library.
struct RecordFormat {
  uint32_t envelope = kEnvelopeVersion;
  uint32_t kernel = kKernelRecordVersion;  // of the payload of a kernel entry
};

struct Envelope {
  RecordKind kind = RecordKind::kPlan;
  bool verified = false;       // a kernel that was checked on a device; false for plans
  int64_t created_unix_s = 0;  // for people and the janitor; not compared
  std::string producer;        // library version and the like; not compared
  std::string arch;            // of a kernel: equals the key's; "" for plans
  absl::string_view key;       // full canonical key; borrowed
  absl::string_view payload;   // borrowed
};

std::string EncodeEnvelope(const Envelope& envelope, const RecordFormat& format = {});

struct EnvelopeVerdict {
  bool ok = false;
  MissReason reason = MissReason::kDamaged;  // when not ok
  std::string detail;                        // when not ok
  Envelope envelope;                         // when ok; its views point into the input
};

// Trusts nothing in `bytes`. ok only if magic, version, hash, lengths and flags are right, and the
// envelope is marked as verified exactly when its payload is. All errors are in the verdict.
EnvelopeVerdict ReadEnvelope(absl::string_view bytes, const RecordFormat& format = {});

// As above; the record must also be of `kind` and hold `key` byte for byte. A key that differs in
// arch, toolchain or format is reported as that when both keys can be read, as damage otherwise. A
// kernel record of another version is kOtherFormat.
EnvelopeVerdict ReadEnvelopeFor(absl::string_view bytes, RecordKind kind, absl::string_view key,
                                const RecordFormat& format = {});

// As above for bytes that were already verified in another way (a signed pack, a file that this
// process knows): the envelope's own hash is not computed.
EnvelopeVerdict ReadVouchedEnvelopeFor(absl::string_view bytes, RecordKind kind,
                                       absl::string_view key, const RecordFormat& format = {});

// The key in an envelope, read from its first bytes alone; "" when they do not hold all of it.
// Nothing is checked: for explanations only.
std::string PeekEnvelopeKey(absl::string_view head);

// A check by code that understands payloads: OK if the record is what its key says, or if it cannot
// tell; else an error that says why not.
using RecordCheck =
    std::function<absl::Status(RecordKind kind, absl::string_view key, absl::string_view payload)>;

// OK for an empty check.
inline absl::Status RunCheck(const RecordCheck& check, RecordKind kind, absl::string_view key,
                             absl::string_view payload) {
  return check ? check(kind, key, payload) : absl::OkStatus();
}

}  // namespace sinter

#endif  // SINTER_CACHE_RECORD_ENVELOPE_H_
