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

// The bytes of each file of a folder, in the order of the bytes.
inline std::vector<std::string> SortedCorpus(const std::string& folder) {
  std::vector<std::string> corpus;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    corpus.push_back(ReadFile(entry.path()));
  }
  std::sort(corpus.begin(), corpus.end());
  return corpus;
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

// Each file of a folder, then each of `seeds`, by name, and `mutations` of it. Returns the number
// of files. SINTER_UPDATE_CORPUS=1 writes the seeds into the folder first.
inline int ReplaySeeds(FuzzTarget target, const std::string& folder,
                       const std::map<std::string, std::string>& seeds, int mutations) {
  std::mt19937_64 random(5);
  for (const auto& [name, seed] : seeds) {
    if (std::getenv("SINTER_UPDATE_CORPUS") != nullptr) WriteSeed(folder + "/" + name, seed);
    Replay(target, seed);
    for (int i = 0; i < mutations; ++i) Replay(target, Mutate(seed, &random));
  }
  const std::vector<std::string> corpus = SortedCorpus(folder);
  for (const std::string& bytes : corpus) Replay(target, bytes);
  return static_cast<int>(corpus.size());
}

}  // namespace sinter
