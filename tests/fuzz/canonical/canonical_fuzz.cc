// Fuzz target over the decoders of canonical bytes. The first byte picks one: 0 Schedule, 1
// StitchSchedule, 2 ProductSequence, 3 Decisions, 4 KernelCode. Accepted input encodes to the same
// bytes.
#include "src/base/codec.h"
#include "src/plan/kernel_code.h"
#include "src/plan/plan.h"
#include "src/product/schedule.h"
#include "src/product/sequence.h"
#include "src/stitch/schedule.h"
#include "tests/fuzz/reader.h"
#include "tests/fuzz/target.h"

namespace sinter::canonical_fuzz {
namespace {

template <typename T>
void ReadCanonical(absl::string_view bytes) {
  const auto value = T::FromCanonical(bytes);
  if (value.ok()) Require(value->Canonical() == bytes);
}

void ReadDecisions(absl::string_view bytes) {
  const auto decisions = sinter::DecodeDecisions(bytes);
  if (decisions.ok()) Require(EncodeDecisions(*decisions) == bytes);
}

void ReadKernelCode(absl::string_view bytes) {
  sinter::ByteReader r(bytes);
  const absl::string_view code = r.Bytes(), schedule = r.Bytes();
  if (!r.ok()) return;
  const auto read = sinter::ReadCode(code, schedule);
  if (!read.ok()) return;
  Require(read->Bytes() == code && read->ScheduleBytes() == schedule);
  Require(!read->ProblemText().empty() && !read->ScheduleText().empty());
}

}  // namespace

SINTER_FUZZ_TARGET(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const absl::string_view bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  switch (ReaderOf(data[0], 5)) {
    case 0:
      ReadCanonical<sinter::Schedule>(bytes);
      break;
    case 1:
      ReadCanonical<sinter::StitchSchedule>(bytes);
      break;
    case 2:
      ReadCanonical<sinter::ProductSequence>(bytes);
      break;
    case 3:
      ReadDecisions(bytes);
      break;
    default:
      ReadKernelCode(bytes);
  }
  return 0;
}

}  // namespace sinter::canonical_fuzz
