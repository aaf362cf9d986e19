// The kernels of sums and gathers over several GPUs, each form with data whose results the host
// knows bit by bit.
#pragma once

#include "src/collective/collective.h"
#include "tests/gpu/gpu_tests.h"
#include "tests/gpu/several_gpus.h"

namespace sinter::gpu_testing {

constexpr int kMostRows = 1024;

// The columns of x of a sum: 8192, or the most below it of which ranks have equal parts in whole
// vectors.
int Columns();

// What a kernel computes, and in how many shots.
struct Form {
  const char* name;
  CollectiveKind kind;
  bool two_shot, rounded, norm, by_rows;

  // Columns of x and of the result, in elements. Parts of ranks have their share of the columns.
  int XColumns() const;
  int OutColumns() const;
  bool residual() const;
};
// The forms over Ranks() ranks: sums over more than four have no norms.
const std::vector<Form>& Forms();

// One GPU with its buffers and kernels.
class Rank {
 public:
  // `cubins`: a folder that keeps compiled kernels for the processes of a test; "": none.
  static absl::StatusOr<std::unique_ptr<Rank>> Make(int ordinal, const std::string& cubins = "");
  ~Rank();

  // Called once, after `group` is joined. Binds for all rows that are launched.
  absl::Status Bind(size_t form, int rows, int plan = 1);
  absl::Status Launch(size_t form, int rows, StreamHandle stream) const;
  // Launches once and waits.
  absl::Status Run(size_t form, int rows) const;
  // Makes the bound launches of an earlier group useless; Bind follows.
  void Join(std::shared_ptr<RankGroup> joined);

  // How many elements of `rows` rows, or of their norms, are not what they should be.
  absl::StatusOr<int> Wrong(size_t form, int rows) const;

  Ports ports;
  std::shared_ptr<RankGroup> group;

 private:
  absl::StatusOr<std::string> CubinOf(const Form& form, const std::string& cubins) const;
  absl::StatusOr<int> WrongNorms(const std::vector<uint16_t>& sums, int rows) const;

  DeviceBuffer x_, residual_, gamma_, normed_, out_;
  std::vector<std::shared_ptr<LoadedKernel>> kernels_;                    // by form
  std::map<std::pair<size_t, int>, std::unique_ptr<BoundKernel>> bound_;  // by form and rows
};

}  // namespace sinter::gpu_testing
