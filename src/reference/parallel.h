// ParallelFor: splits an index range over short-lived threads.
#ifndef SINTER_SRC_REFERENCE_PARALLEL_H_
#define SINTER_SRC_REFERENCE_PARALLEL_H_

#include <cstdint>
#include <functional>

namespace sinter::reference {

// As many as run at once here; at least one.
int HardwareThreads();

// Calls body(begin, end) on pieces of [0, items) of at most `grain` items, from up to `threads`
// threads, the caller's among them; returns when all are done. One piece runs inline. Fewer threads
// are used when the system refuses more.
void ParallelFor(int threads, int64_t items, int64_t grain,
                 const std::function<void(int64_t begin, int64_t end)>& body);

}  // namespace sinter::reference

#endif  // SINTER_SRC_REFERENCE_PARALLEL_H_
