// The modes that measure, each in its own file. A mode prints as it goes, keeps the results file up
// to date, and returns the exit status: 0, or 1 when something was wrong.
#pragma once

#include "tests/bench/graph_cases.h"
#include "tests/bench/session.h"

namespace sinter::bench {

// Both plans, the chosen one, cuBLASLt: checked and timed.
int RunCases(Session* session);
// The chosen plan against the better of unfused and cuBLASLt.
int RunNeverSlower(Session* session);
// The top of each ranking.
int RunSweep(Session* session);
// Prints the rows and keeps them; false where the run cannot go on.
bool KeepRows(Session* session, const std::vector<SweepRow>& rows, void (*print)(const SweepRow&));
// Every schedule of the space, as far as the time goes.
int RunBruteForce(Session* session);
// Schedules stratified over predicted time, and the predicted top.
int RunRank(Session* session);
// What each step of FlashFuser's adds.
int RunAblation(Session* session);
// Graphs of memory-intensive ops: chosen and unfused plan, checked and timed.
int RunGraphs(Session* session);
// The graphs that the options ask for.
absl::StatusOr<std::vector<GraphCase>> GraphCasesOf(const Options& options);
// Schedules of each graph in one kernel, the best of each kind.
int RunGraphSchedules(Session* session);
// Host time of launches compared with the driver's own calls.
int RunHost(Session* session);
// FlashFuser's space of each case, and what its rules leave. Needs no GPU.
int PrintPaper(const Options& options);
// One computation cold between the profiler's start and stop, and its predicted bytes.
int RunProfile(Session* session);

// "  12.34", or a dash.
std::string Figure(const std::optional<double>& value);

}  // namespace sinter::bench
