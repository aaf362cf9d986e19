#include "src/base/tree_digest.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

namespace sinter {
namespace {

using Parts = std::array<absl::string_view, kShaLanes>;
using Digests = std::array<Digest, kShaLanes>;

Parts Split(absl::string_view data) {
  const size_t blocks = data.size() / kShaBlock + (data.size() % kShaBlock != 0 ? 1 : 0);
  // blocks * i / 16 without overflow.
  const auto begin = [&](size_t i) {
    const size_t block = blocks / kShaLanes * i + blocks % kShaLanes * i / kShaLanes;
    return std::min(data.size(), block * kShaBlock);
  };
  Parts parts;
  for (size_t i = 0; i < kShaLanes; ++i) parts[i] = data.substr(begin(i), begin(i + 1) - begin(i));
  return parts;
}

Digest Join(const Digests& digests) {
  char all[kShaLanes * 32];
  for (size_t i = 0; i < kShaLanes; ++i) std::memcpy(all + 32 * i, digests[i].bytes.data(), 32);
  return Sha256(absl::string_view(all, sizeof(all)));
}

// A part's last bytes with SHA-256's padding. Every part but the last is whole blocks, and no two
// differ by more than one block. So behind the blocks that all parts have, a part has at most one
// block, which may be incomplete.
struct Tail {
  static constexpr size_t kMostBlocks = 2;
  char bytes[kMostBlocks * kShaBlock] = {};
  size_t blocks = 0;

  Tail() = default;
  Tail(absl::string_view message, size_t done) {
    const absl::string_view rest = message.substr(done);
    if (!rest.empty()) std::memcpy(bytes, rest.data(), rest.size());
    bytes[rest.size()] = static_cast<char>(0x80);
    blocks = (rest.size() + 9 + kShaBlock - 1) / kShaBlock;
    const uint64_t bits = uint64_t{message.size()} * 8;
    for (size_t i = 0; i < 8; ++i) {
      bytes[blocks * kShaBlock - 1 - i] = static_cast<char>(bits >> (8 * i));
    }
  }
};

void CompressTails(CompressLanes compress, const std::array<Tail, kShaLanes>& tails,
                   ShaLanes* lanes) {
  for (size_t block = 0; block < Tail::kMostBlocks; ++block) {
    LanePointers at;
    for (size_t i = 0; i < kShaLanes; ++i) at[i] = tails[i].bytes + block * kShaBlock;
    ShaLanes next = *lanes;
    compress(&next, at, 1);
    for (size_t i = 0; i < kShaLanes; ++i) {
      if (block >= tails[i].blocks) continue;  // it is complete
      for (int word = 0; word < 8; ++word) lanes->word[word][i] = next.word[word][i];
    }
  }
}

Digests InLanes(CompressLanes compress, const Parts& parts) {
  size_t common = SIZE_MAX;  // blocks
  for (const absl::string_view part : parts) common = std::min(common, part.size() / kShaBlock);
  ShaLanes lanes = StartLanes();
  LanePointers at;
  std::array<Tail, kShaLanes> tails;
  for (size_t i = 0; i < kShaLanes; ++i) {
    at[i] = parts[i].data();
    tails[i] = Tail(parts[i], common * kShaBlock);
  }
  if (common > 0) compress(&lanes, at, common);
  CompressTails(compress, tails, &lanes);
  Digests digests;
  for (size_t i = 0; i < kShaLanes; ++i) digests[i] = DigestOfLane(lanes, i);
  return digests;
}

Digests OneByOne(const Parts& parts) {
  Digests digests;
  for (size_t i = 0; i < kShaLanes; ++i) digests[i] = Sha256(parts[i]);
  return digests;
}

}  // namespace

Digest TreeSha256By(CompressLanes compress, absl::string_view data) {
  const Parts parts = Split(data);
  return Join(compress != nullptr ? InLanes(compress, parts) : OneByOne(parts));
}

Digest TreeSha256(absl::string_view data) {
  static const CompressLanes kBest = WaysToCompressLanes()[0];
  return TreeSha256By(kBest, data);
}

}  // namespace sinter
