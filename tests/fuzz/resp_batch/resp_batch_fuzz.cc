// Fuzz target over what a Redis answers to a call of several commands: how many, how it is cut and
// what it may take are the first three bytes, the rest is what the server sends.
#include "cache/remote/redis.h"
#include "tests/fuzz/target.h"
#include "tests/support/common.h"

namespace sinter::resp_batch_fuzz {
namespace {

struct Held {
  uint64_t bytes = 0, items = 0;
};

void Add(const sinter::RespValue& value, Held* held) {
  held->bytes += value.text.size();
  ++held->items;
  for (const sinter::RespValue& item : value.items) Add(item, held);
}

// The answer must not depend on `step`, the size of the pieces: the number of replies, or 0 on an
// error.
size_t Feed(sinter::RespBatch* batch, absl::string_view bytes, size_t step,
            const sinter::RespLimits& each) {
  while (!bytes.empty() && !batch->done()) {
    const size_t n = std::min(step, bytes.size());
    std::copy_n(bytes.data(), n, batch->Room(n));
    if (!batch->Received(n).ok()) return 0;
    Require(batch->waiting() <= each.bytes + step);
    bytes.remove_prefix(n);
  }
  return batch->done() ? 1 : 0;
}

}  // namespace

SINTER_FUZZ_TARGET(const uint8_t* data, size_t size) {
  if (size < 3) return 0;
  const size_t count = 1 + data[0] % 8, step = 1 + data[1];
  const sinter::RespLimits each{uint64_t{16} << (data[2] % 8), 1u + (data[2] >> 3)};
  const sinter::RespLimits all{2 * each.bytes, 2 * each.items};
  const absl::string_view bytes(reinterpret_cast<const char*>(data) + 3, size - 3);
  sinter::RespBatch batch(count, each, all);
  if (Feed(&batch, bytes, step, each) == 0) return 0;
  Held held;
  for (const sinter::RespValue& reply : batch.Take()) Add(reply, &held);
  Require(held.bytes <= all.bytes && held.items <= all.items);
  Require(held.items >= count);
  return 0;
}

}  // namespace sinter::resp_batch_fuzz
