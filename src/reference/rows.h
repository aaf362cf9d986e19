// A chain a few rows of M at a time: whether that is possible, and short-lived threads to do it.
#ifndef SINTER_SRC_REFERENCE_ROWS_H_
#define SINTER_SRC_REFERENCE_ROWS_H_

#include <cstdint>
#include <functional>
#include <string>

#include "src/chain/chain.h"

namespace sinter::reference {

// As many as run at once here; at least one.
int HardwareThreads();

// Calls body(begin, end) on pieces of [0, items) of at most `grain` items, from up to `threads`
// threads, the caller's among them; returns when all are done. One piece runs inline. Fewer threads
// are used when the system refuses more.
void ParallelFor(int threads, int64_t items, int64_t grain,
                 const std::function<void(int64_t begin, int64_t end)>& body);

// Calls `step(0) .. step(count - 1)`, each by itself, on at most `most` threads; 0:
// HardwareThreads.
inline void ForEachIndex(int count, const std::function<void(int)>& step, int most = 0) {
  ParallelFor(most > 0 ? most : HardwareThreads(), count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) step(static_cast<int>(i));
  });
}

// Empty when every value has M at most once and no op mixes rows of M; else the first op that does,
// in words.
std::string WhyRowsMix(const Chain& chain);

// Rows per pass that keep one intermediate value within about 64 MiB; at least 64, or as many as
// 2 GiB hold. For row-independent chains.
int64_t RowsPerPass(const Chain& chain, int64_t rows);

}  // namespace sinter::reference

#endif  // SINTER_SRC_REFERENCE_ROWS_H_
