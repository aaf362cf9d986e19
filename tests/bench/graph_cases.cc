#include "tests/bench/graph_cases.h"

#include "src/reference/reference.h"
#include "tests/support/chains.h"
#include "tests/support/random_stitch_graph.h"

namespace sinter::bench {
namespace {

namespace fs = std::filesystem;

// Distinct elements: an axis of stride 0 has one.
int64_t Distinct(const TensorType& type, const std::vector<Stride>& strides, int64_t m) {
  int64_t count = 1;
  for (int i = 0; i < type.rank(); ++i) {
    if (strides[i].value != 0) count *= type.dims[i].At(m);
  }
  return count;
}

absl::StatusOr<std::string> ReadFile(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return absl::NotFoundError(absl::StrCat("cannot read '", path.string(), "'"));
  return std::string(std::istreambuf_iterator<char>(in), {});
}

absl::Status AddJson(const fs::path& path, std::vector<GraphCase>* cases) {
  SINTER_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  absl::StatusOr<Chain> chain = ChainFromJson(text);
  if (!chain.ok()) return Annotate(chain.status(), path.string());
  if (chain->UsesM()) {
    return absl::InvalidArgumentError(absl::StrCat(path.string(), ": M is left open"));
  }
  cases->push_back({.id = path.stem().string(), .chain = *std::move(chain)});
  return absl::OkStatus();
}

absl::Status AddFolder(const fs::path& path, std::vector<GraphCase>* cases) {
  std::vector<fs::path> files;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(path, error)) {
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  }
  if (files.empty()) {
    return absl::NotFoundError(absl::StrCat("no graph (*.json) in '", path.string(), "'"));
  }
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) SINTER_RETURN_IF_ERROR(AddJson(file, cases));
  return absl::OkStatus();
}

absl::Status AddList(const fs::path& path, std::vector<GraphCase>* cases) {
  SINTER_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  const absl::StatusOr<std::vector<Problem>> problems = ParseProblems(text);
  if (!problems.ok()) return Annotate(problems.status(), path.string());
  for (const Problem& problem : *problems) {
    if (!problem.m.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path.string(), ": ", problem.id, ": M is left open"));
    }
    cases->push_back({problem.id, WriteProblem(problem), problem.chain, *problem.m});
  }
  return absl::OkStatus();
}

// The rows of axis 0 as M, in a type and in what an op says about its result.
void RowsToM(int64_t rows, Op* op) {
  if (op->type.rank() == 0 || op->type.dims[0] != Dim::Constant(rows)) return;
  op->type.dims[0] = Dim::M();
}

}  // namespace

int GraphCase::Ops() const { return static_cast<int>(chain.ops().size()) - chain.num_inputs(); }

int64_t GraphCase::Bytes() const {
  int64_t bytes = 0;
  for (int i = 0; i < chain.num_inputs(); ++i) {
    const Op& op = chain.input_op(i);
    bytes += Distinct(op.type, op.strides, m) * SizeOf(op.type.dtype);
  }
  for (int i = 0; i < chain.num_outputs(); ++i) {
    const TensorType& type = chain.output_type(i);
    bytes += Distinct(type, chain.outputs()[i].strides, m) * SizeOf(type.dtype);
  }
  return bytes;
}

int64_t GraphCase::Elements() const {
  int64_t most = 0;
  for (const Op& op : chain.ops()) {
    int64_t count = 1;
    for (Dim dim : op.type.dims) count *= dim.At(m);
    most = std::max(most, count);
  }
  return most;
}

double GraphCase::LimitUs(const DeviceModel& model) const {
  return static_cast<double>(Bytes()) / model.hbm_bytes_per_us + model.launch_us + model.fill_us;
}

absl::StatusOr<std::vector<GraphCase>> LoadGraphCases(const std::vector<std::string>& paths,
                                                      const std::vector<std::string>& ids) {
  std::vector<GraphCase> all;
  for (const std::string& name : paths) {
    const fs::path path(name);
    std::error_code error;
    SINTER_RETURN_IF_ERROR(fs::is_directory(path, error) ? AddFolder(path, &all)
                           : path.extension() == ".json" ? AddJson(path, &all)
                                                         : AddList(path, &all));
  }
  return Selected(std::move(all), ids);
}

absl::StatusOr<std::vector<GraphCase>> Selected(std::vector<GraphCase> all,
                                                const std::vector<std::string>& ids) {
  std::vector<GraphCase> cases;
  std::set<std::string> missing(ids.begin(), ids.end());
  for (GraphCase& one : all) {
    if (!ids.empty() && std::find(ids.begin(), ids.end(), one.id) == ids.end()) continue;
    missing.erase(one.id);
    cases.push_back(std::move(one));
  }
  if (missing.empty()) return cases;
  return absl::NotFoundError(absl::StrCat("no graph '", *missing.begin(), "'"));
}

std::vector<GraphCase> RandomGraphCases(int count, int64_t max_elements, uint64_t first) {
  std::vector<GraphCase> cases;
  for (int i = 0; i < count; ++i) {
    const uint64_t seed = first + static_cast<uint64_t>(i);
    cases.push_back({.id = absl::StrCat("random", seed),
                     .chain = testing::MakeRandomStitchGraph(seed, {max_elements})});
  }
  return cases;
}

std::optional<Chain> WithRowsAsM(const Chain& chain, int64_t rows) {
  if (chain.UsesM()) return std::nullopt;
  ChainBuilder builder;
  for (const Op& op : chain.ops()) {
    Op now = op;
    RowsToM(rows, &now);
    // Strides stay as they are: only axis 0 becomes M, and no other's depends on its extent.
    if (!Replay(builder, now, true).ok()) return std::nullopt;
  }
  for (const ChainOutput& out : chain.outputs()) {
    if (!builder.Output(out.value, {out.strides, -1}).ok()) return std::nullopt;
  }
  absl::StatusOr<Chain> result = builder.Finish();
  if (!result.ok() || !IsRowIndependent(*result)) return std::nullopt;
  return *std::move(result);
}

}  // namespace sinter::bench
