// Ranks of a test that are processes: the program of the test, started again.
#pragma once

#include "tests/support/common.h"

namespace sinter::gpu_testing {

// What a process does after it has made a group and some right calls over it.
//   run: closes the group. descriptors: the same over memory shared by descriptors.
//   killed, stopped: the last rank ends that way; the others must see it in time.
//   kills: the last rank calls until it is killed; the others go on with a new one, again and
//   again.
// The process is rank `number`, which meets the others in `folder`. Returns its exit status.
int RunRankProcess(int number, const std::string& folder, const std::string& mode);

}  // namespace sinter::gpu_testing
