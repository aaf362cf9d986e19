// PlanKey and KernelKey: what records are looked up by. Envelope: the bytes in which every tier
// stores a record, and the one verifier that all tiers use. KernelRecord: the payload of a kernel
// entry.
//
// Layout of an envelope, little-endian (strings are u64 length + bytes):
//   8 bytes magic, u32 format version, 32 bytes SHA-256 of all that follows,
//   u8 kind, u8 verified, u32 flags (0), i64 creation time (unix seconds),
//   producer, arch, full key, payload; no byte follows.
// Magic and version are at the same place in every version. A reader of another version reads
// nothing else, not even the hash, which that version may compute differently. The hash guards
// against accidents. The README of cache/store says who may write the store.
#ifndef SINTER_CACHE_RECORD_RECORD_H_
#define SINTER_CACHE_RECORD_RECORD_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "src/base/digest.h"
#include "src/base/fields.h"
#include "src/base/ports.h"

namespace sinter {

// Keys: structs of plain fields, and the one function that turns each into canonical bytes. Records
// with equal key bytes are interchangeable. Everything that can change a record is a field; paths,
// times, names and compiler output are not. Strings are opaque here. Thread-compatible values;
// making one cannot fail.

// Layout of the key bytes themselves. Raise it when a field is added, removed or reordered.
constexpr uint32_t kKeyVersion = 2;

struct PlanKey {
  uint32_t format_version = 0;  // of the plan record's payload
  std::string chain;            // canonical chain bytes
  int64_t bucket = 0;           // BucketOf(m)
  Digest device_model;          // DeviceModel::ModelDigest()
  std::string library_version;
  uint32_t search_version = 0;
  uint64_t flags = 0;  // what the planner may not use, and the like
  Digest tuning_set;   // all zero: none
  SINTER_FIELDS(PlanKey, format_version, chain, bucket, device_model, library_version,
                search_version, flags, tuning_set);
};

struct KernelKey {
  uint32_t format_version = 0;  // of the kernel record's payload
  std::string code;       // the compiled code, M symbolic; without buffers, offsets, rows or grid
  std::string schedule;   // schedule bytes
  Digest device_headers;  // of the device headers that the source reaches
  std::string arch;       // exact: "sm_90a" is not "sm_90"
  std::vector<std::string> options;  // compile options, in order
  std::string toolchain_id;          // Compiler::ToolchainId()
  Digest source;                     // of the generated source
};

std::string EncodeKey(const PlanKey& key);
std::string EncodeKey(const KernelKey& key);

// DATA_LOSS unless `bytes` is exactly what EncodeKey makes for this version. `bytes` is untrusted.
absl::StatusOr<PlanKey> DecodePlanKey(absl::string_view bytes);
absl::StatusOr<KernelKey> DecodeKernelKey(absl::string_view bytes);

// The arch field of kernel key bytes; "" for anything else.
std::string ArchOfKey(absl::string_view key_bytes);

// Envelopes.

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

// The envelope of a record: it takes `verified` and `arch` from the payload and the key.
Envelope MakeEnvelope(RecordKind kind, absl::string_view key, absl::string_view payload,
                      std::string producer, int64_t created_unix_s,
                      const RecordFormat& format = {});

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

// As ReadEnvelopeFor for a record whose key is not known: the key in it must have this digest.
EnvelopeVerdict ReadEnvelopeOf(absl::string_view bytes, RecordKind kind, const Digest& digest,
                               const RecordFormat& format = {});

// The key in an envelope, read only from its first bytes; "" when they do not hold all of it.
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

// Whether a record is to be taken.
using RecordFilter =
    std::function<bool(RecordKind kind, absl::string_view key, absl::string_view payload)>;

// KernelRecord: the payload of a kernel entry. Plan payloads are opaque here.

// A check of the kernel's output on a device. An empty device: never checked.
struct Verification {
  std::string device;  // with the driver: "NVIDIA H200, CUDA 13.0"
  uint64_t seed = 0;   // of the inputs
  double error = 0;    // relative error found
  int64_t rows = 0;    // of the check, which says nothing about positions of more rows
  bool verified() const { return !device.empty(); }
  SINTER_FIELDS(Verification, device, seed, error, rows);
};

// A record with a longer log or device, or a check of more rows, is damaged.
constexpr uint64_t kMostLogBytes = 4096;
constexpr uint64_t kMostDeviceBytes = 1024;
constexpr int64_t kMostCheckedRows = int64_t{1} << 40;

// A compiled kernel. Buffers, rows and blocks of a launch belong to the plan, so a record serves
// every position of every plan with this code.
struct KernelRecord {
  Digest key;  // SHA-256 of the kernel's key bytes
  std::string cubin;
  std::string entry;  // extern "C" kernel name
  std::string log;    // summary of the compile log
  uint32_t registers = 0;
  uint32_t spill_bytes = 0;
  double compile_us = 0;  // time the compile took, which a hit saves
  Verification verification;
  SINTER_FIELDS(KernelRecord, verification, key, entry, registers, spill_bytes, compile_us, log,
                cubin);
};

std::string EncodeKernelRecord(const KernelRecord& record, const RecordFormat& format = {});

// DATA_LOSS unless `payload` is a whole record of this version within its bounds, with a cubin that
// passes CheckCubin. `payload` is untrusted.
absl::StatusOr<KernelRecord> DecodeKernelRecord(absl::string_view payload,
                                                const RecordFormat& format = {});

// Whether `payload` starts as a kernel record that was checked on a device. False for any other
// bytes.
bool KernelPayloadVerified(absl::string_view payload, const RecordFormat& format = {});

// FAILED_PRECONDITION when `payload` begins as a kernel record of another version, else OK: whether
// it can be decoded is not checked.
absl::Status CheckKernelVersion(absl::string_view payload, const RecordFormat& format = {});

}  // namespace sinter

#endif  // SINTER_CACHE_RECORD_RECORD_H_
