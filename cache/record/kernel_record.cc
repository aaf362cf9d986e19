#include "cache/record/kernel_record.h"

#include <algorithm>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "src/base/codec.h"
#include "src/base/cubin_check.h"
#include "src/base/status.h"

namespace sinter {
namespace {

constexpr char kMagic[] = "SNTRKRN\n";
constexpr uint64_t kMagicSize = 8;
constexpr double kMaxCompileUs = 1e12;  // eleven days

// FAILED_PRECONDITION for another version.
absl::Status ReadStart(ByteReader* in, const RecordFormat& format) {
  const absl::string_view magic = in->Raw(kMagicSize);
  const uint32_t version = in->U32();
  if (!in->ok() || magic != absl::string_view(kMagic, kMagicSize)) {
    return absl::DataLossError("kernel record: magic differs");
  }
  if (version != format.kernel) {
    return absl::FailedPreconditionError(
        absl::StrCat("kernel record: version ", version, ", want ", format.kernel));
  }
  return absl::OkStatus();
}

absl::Status CheckBound(absl::string_view field, double value, double most) {
  if (value >= 0 && value <= most) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("kernel record: ", field, " ", value, ", must be 0..", most));
}

absl::Status CheckBounds(const KernelRecord& record) {
  const Verification& check = record.verification;
  SINTER_RETURN_IF_ERROR(CheckBound("device bytes", static_cast<double>(check.device.size()),
                                    static_cast<double>(kMostDeviceBytes)));
  SINTER_RETURN_IF_ERROR(CheckBound("error", check.error, std::numeric_limits<double>::max()));
  SINTER_RETURN_IF_ERROR(
      CheckBound("rows", static_cast<double>(check.rows), static_cast<double>(kMostCheckedRows)));
  SINTER_RETURN_IF_ERROR(CheckBound("log bytes", static_cast<double>(record.log.size()),
                                    static_cast<double>(kMostLogBytes)));
  if (record.entry.empty()) return absl::DataLossError("kernel record: entry is empty");
  return CheckBound("compile_us", record.compile_us, kMaxCompileUs);
}

}  // namespace

std::string EncodeKernelRecord(const KernelRecord& record, const RecordFormat& format) {
  ByteWriter out;
  out.Raw(absl::string_view(kMagic, kMagicSize));
  out.U32(format.kernel);
  out.Bytes(record.verification.device);
  out.U64(record.verification.seed);
  out.F64(record.verification.error);
  out.I64(record.verification.rows);
  out.Raw(record.key.View());
  out.Bytes(record.entry);
  out.U32(record.registers);
  out.U32(record.spill_bytes);
  out.F64(record.compile_us);
  out.Bytes(record.log);
  out.Bytes(record.cubin);
  return out.Take();
}

absl::StatusOr<KernelRecord> DecodeKernelRecord(absl::string_view payload,
                                                const RecordFormat& format) {
  ByteReader in(payload);
  const absl::Status start = ReadStart(&in, format);
  if (!start.ok()) return absl::DataLossError(start.message());
  KernelRecord record;
  record.verification.device = std::string(in.Bytes());
  record.verification.seed = in.U64();
  record.verification.error = in.F64();
  record.verification.rows = in.I64();
  const absl::string_view key = in.Raw(record.key.bytes.size());
  if (in.ok()) std::copy(key.begin(), key.end(), record.key.bytes.begin());
  record.entry = std::string(in.Bytes());
  record.registers = in.U32();
  record.spill_bytes = in.U32();
  record.compile_us = in.F64();
  record.log = std::string(in.Bytes());
  record.cubin = std::string(in.Bytes());
  SINTER_RETURN_IF_ERROR(in.Finish("kernel record"));
  SINTER_RETURN_IF_ERROR(CheckBounds(record));
  SINTER_RETURN_IF_ERROR(CheckCubin(record.cubin));
  return record;
}

bool KernelPayloadVerified(absl::string_view payload, const RecordFormat& format) {
  ByteReader in(payload);
  if (!ReadStart(&in, format).ok()) return false;
  const absl::string_view device = in.Bytes();
  return in.ok() && !device.empty();
}

absl::Status CheckKernelVersion(absl::string_view payload, const RecordFormat& format) {
  ByteReader in(payload);
  absl::Status start = ReadStart(&in, format);
  return absl::IsFailedPrecondition(start) ? start : absl::OkStatus();
}

}  // namespace sinter
