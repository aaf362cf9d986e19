// Reads all of a pack and compares it with its manifest, and the manifest with what a reader of
// LevelDB tables would find by the table's index.
#ifndef SINTER_CACHE_PACK_PACK_VERIFY_H_
#define SINTER_CACHE_PACK_PACK_VERIFY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cache/pack/pack_reader.h"
#include "cache/record/record_check.h"

namespace sinter {

struct PackFindings {
  uint64_t plans = 0, kernels = 0, verified_kernels = 0;  // sound records
  uint64_t unsound = 0;
  std::vector<std::string> findings;  // one a damaged record or part, at most 100
  bool ok() const { return unsound == 0; }
};

// Every byte of the file is covered: each damaged one is a finding here, if Open did not refuse it.
// What `check` finds wrong is unsound too.
PackFindings VerifyPack(const PackReader& pack, const RecordCheck& check = nullptr);

}  // namespace sinter

#endif  // SINTER_CACHE_PACK_PACK_VERIFY_H_
