// Schedules of stitched kernels, as plans print them.
#pragma once

#include "src/stitch/schedule.h"
#include "tests/support/test.h"

namespace sinter {
namespace testing {

// Of "block 128 unit 32 vec 8 keep x4 grid 2048", which does not say whose reduction has the units:
// `owner`, -1 for none.
inline StitchSchedule ScheduleOf(int owner, const std::string& text) {
  StitchSchedule s{.owner = owner};
  std::istringstream words(absl::StrReplaceAll(text, {{"+", " +"}, {" x", " x "}}));
  std::string word, list;
  while (words >> word) {
    if (word == "block") words >> s.block_threads;
    if (word == "unit") words >> s.unit_threads;
    if (word == "cluster") words >> s.cluster;
    if (word == "vec") words >> s.vector;
    if (word == "chunks") words >> s.chunks;
    if (word == "join") s.join_all = true;
    if (word == "split") words >> s.split;
    if (word == "keep") s.keep_inputs = true;
    if (word == "+values") s.keep_values = true;
    if (word == "+alike") s.keep_alike = true;
    if (word == "hold") words >> s.hold_bytes;
    if (word == "staged") s.staged = true;
    if (word == "handed" && words >> list) {
      for (const auto value : absl::StrSplit(list, ','))
        s.handed.push_back(std::stoi(std::string(value)));
    }
    if (word == "x") words >> s.blocks_per_sm;
    if (word == "grid") words >> s.grid;
  }
  if (owner < 0) s.unit_threads = s.block_threads;
  EXPECT_EQ(s.ToString(), text);
  return s;
}

}  // namespace testing
}  // namespace sinter
