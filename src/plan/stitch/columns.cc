#include "src/plan/stitch/columns.h"

#include <algorithm>

namespace sinter {
namespace {

constexpr int64_t kAlignment = 256, kSharedAlignment = 16;
constexpr int64_t kWordBytes = 4;
constexpr int64_t kReadBytes = 16;  // of a thread that joins parts for its block

int64_t RoundUp(int64_t bytes, int64_t to) { return (bytes + to - 1) / to * to; }

// A block's joins take turns in it: its groups' shares of a column, then its threads'.
int64_t OwnJoinBytes(const std::vector<ColumnPlace>& places, const StitchSchedule& s) {
  if (places.empty()) return 0;
  int64_t bytes = s.block_threads * (s.join_all ? kReadBytes : kWordBytes);
  if (s.UnitsPerBlock() == 1) return bytes;
  for (const ColumnPlace& place : places) {
    bytes = std::max(bytes, s.UnitsPerBlock() * place.columns * kWordBytes);
  }
  return bytes;
}

}  // namespace

ColumnLayout LayOutColumns(const Chain& body, const StitchProgram& program,
                           const StitchSchedule& schedule) {
  ColumnLayout layout;
  const int64_t parts = schedule.grid / schedule.column_cluster;
  int64_t end = 0, peers_end = 0, results_end = 0;
  for (const StitchPhase& phase : program.phases) {
    int64_t peers = 0;  // of one phase: the next writes behind a barrier of the grid
    for (const StitchLoop& loop : phase.loops) {
      for (const StitchRoot& root : loop.roots) {
        if (root.kind != StitchRoot::kColumn) continue;
        const int64_t bytes = loop.elements * kWordBytes;
        ColumnPlace place;
        place.value = root.value;
        place.columns = loop.elements;
        place.parts = static_cast<uint64_t>(end);
        end += RoundUp(bytes * parts, kAlignment);
        if (schedule.join_all) {
          place.block_results = results_end;
          results_end += RoundUp(bytes, kSharedAlignment);
        } else {
          place.results = static_cast<uint64_t>(end);
          end += RoundUp(bytes, kAlignment);
        }
        if (schedule.column_cluster > 1) {
          place.block_part = peers;
          peers += RoundUp(bytes, kSharedAlignment);
        }
        layout.places.push_back(place);
      }
    }
    peers_end = std::max(peers_end, peers);
  }
  const int64_t own = OwnJoinBytes(layout.places, schedule);
  const int64_t peers_begin = RoundUp(own, kSharedAlignment);
  for (ColumnPlace& place : layout.places) {
    place.block_part += peers_begin;
    place.block_results += peers_begin + peers_end;
  }
  layout.scratch_bytes = static_cast<uint64_t>(end);
  layout.shared_bytes = peers_end + results_end == 0 ? own : peers_begin + peers_end + results_end;
  return layout;
}

}  // namespace sinter
