// The bytes that cache keys and records are made of: they change only together with the version
// that they begin with, else a library meets records of another layout under its own names.
// bytes.txt: a line an encoding, its first twelve bytes and its SHA-256.
#include "absl/strings/escaping.h"
#include "cache/record/record.h"
#include "tests/support/golden_file.h"
#include "tests/support/random_stitch_graph.h"
#include "tests/support/stitch_schedules.h"
#include "tests/unit/plan/sample_kernels.h"

namespace sinter {
namespace {

constexpr char kFile[] = "tests/golden/keys/bytes.txt";
constexpr size_t kHead = 12;  // holds the version of every encoding

using Encodings = std::vector<std::pair<std::string, std::string>>;  // name, bytes

std::string DecisionBytes(const KernelSpec& spec) {
  Plan plan{.bucket = 128};
  plan.kernels.push_back({});
  plan.kernels[0].spec = spec;
  plan.kernels[0].ops.values = {2};
  return EncodeDecisions(DecisionsOf(plan));
}

KernelSpec StitchedSpec() {
  auto stitch = std::make_shared<StitchSpec>();
  stitch->body = ParseProblem("softmax rows=M cols=1024")->chain;
  stitch->schedule = testing::ScheduleOf(2, "block 128 unit 32 vec 8 keep x4 grid 2048");
  stitch->operands = {{0, 0}, {1, 0}};
  return KernelSpec{.family = &StitchFamily(), .body = MakeBody(std::move(*stitch))};
}

void AddProducts(Encodings* all) {
  ProductSequence residual = SampleG7(), scaled = SampleS8();
  SetResidual(&residual, Residual::kAdded);
  SetScale(&scaled, 0, 0.125f);
  SetFactor(&scaled, 0, RowFactor::kF32);
  all->emplace_back("products", SampleS8().Canonical());
  all->emplace_back("products with a residual", residual.Canonical());
  all->emplace_back("products with scalings", scaled.Canonical());
  ProductSequence columns = SampleS8();
  SetColumnScale(&columns, 0, DType::kF32);
  SetColumnScale(&columns, 1, DType::kBF16);
  const KernelSpec of_columns = SampleSpec(columns, Dataflow::kGridExchange);
  all->emplace_back("products with scales of columns", columns.Canonical());
  all->emplace_back("code of scales of columns", CodeOf(of_columns)->Bytes());
  for (Dataflow dataflow : DataflowsOf(SampleS8())) {
    const KernelSpec spec = SampleSpec(SampleS8(), dataflow);
    const std::string name(NameOf(dataflow));
    all->emplace_back("schedule " + name, ProductOf(spec).schedule.Canonical());
    all->emplace_back("code of " + name, CodeOf(spec)->Bytes());
    all->emplace_back("recipe " + name, Generate(spec, *BuiltinModel("h200"))->recipe.Encode());
    all->emplace_back("decisions of " + name, DecisionBytes(spec));
  }
}

void AddStitched(Encodings* all) {
  const KernelSpec spec = StitchedSpec();
  all->emplace_back("stitch schedule", StitchOf(spec)->schedule.Canonical());
  StitchSchedule handing = StitchOf(spec)->schedule;
  handing.handed = {3};
  all->emplace_back("stitch schedule with hand-overs", handing.Canonical());
  all->emplace_back("code of a stitch", CodeOf(spec)->Bytes());
  all->emplace_back("schedule of a stitch's code", CodeOf(spec)->ScheduleBytes());
  all->emplace_back("stitch recipe", Generate(spec, *BuiltinModel("h200"))->recipe.Encode());
  all->emplace_back("decisions of a stitch", DecisionBytes(spec));
}

Encodings AllEncodings() {
  Encodings all;
  all.emplace_back("chain gated_ffn",
                   ParseProblem("gated_ffn m=M n=64 k=32 l=32 act=silu")->chain.CanonicalBytes());
  all.emplace_back("chain random7", testing::MakeRandomStitchGraph(7).CanonicalBytes());
  AddProducts(&all);
  AddStitched(&all);
  PlanKey plan{
      .format_version = 3, .chain = "chain", .bucket = 128, .library_version = "0.1.0", .flags = 1};
  all.emplace_back("plan key", EncodeKey(plan));
  KernelKey kernel{.code = "dag",
                   .schedule = "schedule",
                   .arch = "sm_90a",
                   .options = {"-DA"},
                   .toolchain_id = "nvrtc-13.0-aaaa",
                   .source = Sha256("source")};
  all.emplace_back("kernel key", EncodeKey(kernel));
  return all;
}

std::string HeadOf(const std::string& bytes) {
  return absl::BytesToHexString(bytes.substr(0, kHead));
}

// Lines by name: head and digest.
std::map<std::string, std::pair<std::string, std::string>> ReadLines() {
  std::map<std::string, std::pair<std::string, std::string>> lines;
  std::ifstream in(kFile);
  std::string head, digest, name;
  while (in >> head >> digest && std::getline(in >> std::ws, name)) lines[name] = {head, digest};
  return lines;
}

TEST(KeysGolden, BytesChangeWithTheirVersionOnly) {
  const auto golden = ReadLines();
  std::string text;
  bool unversioned = false;
  for (const auto& [name, bytes] : AllEncodings()) {
    const std::string head = HeadOf(bytes), digest = Sha256(bytes).Hex();
    absl::StrAppend(&text, head, " ", digest, " ", name, "\n");
    const auto line = golden.find(name);
    if (line == golden.end() || line->second.first != head || line->second.second == digest)
      continue;
    unversioned = true;
    ADD_FAILURE()
        << name
        << ": its bytes are others than those committed under this version, which begin with "
        << head
        << "; raise the version that it is encoded with. ./dev golden --update does not mend this";
  }
  if (!unversioned) testing::ExpectGoldenFile(kFile, text);
}

}  // namespace
}  // namespace sinter
