// What the replays of fuzz targets over bytes share: seeded mutations, and one call of the target.
#pragma once

#include "tests/support/common.h"

namespace sinter {

using FuzzTarget = int (*)(const uint8_t* data, size_t size);  // tests/fuzz/target.h

// The bytes of a file of a corpus.
inline std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// One to four edits after the first `kept` bytes: one, where the first byte selects the decoder.
inline std::string Mutate(std::string bytes, std::mt19937_64* random, size_t kept = 1) {
  const int edits = 1 + static_cast<int>((*random)() % 4);
  for (int i = 0; i < edits && bytes.size() > kept; ++i) {
    const size_t at = kept + (*random)() % (bytes.size() - kept);
    switch ((*random)() % 5) {
      case 0:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << ((*random)() % 8)));
        break;
      case 1:
        bytes[at] = static_cast<char>((*random)());
        break;
      case 2:
        bytes.erase(at, 1 + (*random)() % 16);
        break;
      case 3:
        bytes.insert(at, bytes.substr(at, 1 + (*random)() % 16));
        break;
      default:
        for (size_t j = at; j < std::min(at + 8, bytes.size()); ++j) bytes[j] = '\xff';
    }
  }
  return bytes;
}

inline void Replay(FuzzTarget target, const std::string& bytes) {
  target(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
}

// Each file of a folder, `mutations` of it, and its beginnings of every 16th length. Returns the
// number of files, each of which `visit` sees.
template <typename Visit>
int ReplayCorpus(FuzzTarget target, const std::string& folder, int mutations, size_t kept,
                 const Visit& visit) {
  std::mt19937_64 random(7);
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string seed = ReadFile(entry.path());
    visit(entry.path().filename().string(), seed);
    Replay(target, seed);
    for (int i = 0; i < mutations; ++i) Replay(target, Mutate(seed, &random, kept));
    const size_t step = std::max<size_t>(16, seed.size() / 64);
    for (size_t size = 0; size < seed.size(); size += step) Replay(target, seed.substr(0, size));
    ++files;
  }
  return files;
}

inline void WriteSeed(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

}  // namespace sinter
