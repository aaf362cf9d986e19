// RecordStory: what a cached record is, for people, from its key alone.
#ifndef SINTER_SRC_ENGINE_RECORD_STORY_H_
#define SINTER_SRC_ENGINE_RECORD_STORY_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "src/base/ports.h"
#include "src/chain/chain.h"

namespace sinter {

struct RecordStory {
  std::string what;    // of a plan: the chain; of a kernel: what it computes, and how
  int64_t bucket = 0;  // of a plan of a chain that uses M
  bool uses_m = false;
  std::string
      device;  // of a plan the device model, "h200" or "model 1f2e3d4c"; of a kernel its arch
};

// Empty for bytes that are no key of this version. Trusts nothing.
RecordStory StoryOfKey(RecordKind kind, absl::string_view key);

// "gated_ffn n=3072 k=1024 l=1024 act=silu layout=oi dtype=bf16" of a sequence of products with as
// many names as it takes; of any other chain its ops by kind and what it reads and writes:
// "9 ops: 2 reduce, 2 broadcast, .. of bf16[M,4096] to bf16[M,4096]".
std::string ChainStory(const Chain& chain);

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_RECORD_STORY_H_
