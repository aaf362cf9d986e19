// Plans of chains that are split over ranks: two to eight ranks of one process, each with an engine
// of its own, whose kernels a host interpreter runs; binding, agreeing, refusing.
#include "src/reference/evaluator.h"
#include "tests/unit/engine/engine_tests.h"
#include "tests/unit/engine/fake_peer_memory.h"

namespace sinter {
namespace {

constexpr int64_t kRankColumns = 64, kRankRows = 5;

Chain SumWithResidual(int ranks = 2) {
  return ParseProblem(
             absl::StrCat("all_reduce rows=M cols=", kRankColumns, " ranks=", ranks, " residual=1"))
      ->chain;
}

std::vector<std::shared_ptr<RankGroup>> LocalGroups(int size = 2, uint64_t slot_bytes = 64 << 10) {
  std::vector<std::unique_ptr<PeerMemory>> memory;
  for (int r = 0; r < size; ++r) memory.push_back(std::make_unique<FakePeerMemory>(r));
  return Got(RankGroup::CreateLocal(std::move(memory), {.slot_bytes = slot_bytes}));
}

// A rank's group of those that meet in `gathering`. Counts its exchanges.
std::shared_ptr<RankGroup> GroupOf(const std::shared_ptr<Gathering>& gathering, int rank, int size,
                                   int* exchanges) {
  const RankGroupOptions options{.rank = rank, .size = size, .slot_bytes = 64 << 10};
  return Got(RankGroup::Create(std::make_unique<FakePeerMemory>(rank), options,
                               [=](const void* send, size_t bytes, void* recv) {
                                 ++*exchanges;
                                 return gathering->ExchangeOf(rank)(send, bytes, recv);
                               }));
}

// An engine of a rank, with the real planner.
struct Rank {
  FakeWorld world;
  std::shared_ptr<Engine> engine;
  std::shared_ptr<const PreparedPlan> plan;

  explicit Rank(const Chain& chain, int64_t m = 16) {
    world.normal = NormalFormOf;
    world.plan = PlanChain;
    world.generate = [](const KernelSpec& spec, const DeviceModel& model) {
      return Generate(spec, model);
    };
    world.run = [](const std::string&, const BufferList&, int64_t) { return absl::OkStatus(); };
    engine = world.MakeEngine();
    plan = Got(engine->Prepare(chain, m, {}));
  }
  absl::StatusOr<std::shared_ptr<const PlanBinding>> Bind(std::shared_ptr<RankGroup> group) const {
    return plan->BindGroup(testing::FarApart(3), 0, std::move(group));
  }
};

// The kernel of all ranks, as the host computes it: each gives its x, then all add in order.
class Meeting {
 public:
  explicit Meeting(int size) : x_(static_cast<size_t>(size)), rows_(x_.size()), plans_(x_.size()) {}

  absl::Status Run(int rank, const BufferList& buffers, int64_t m) {
    const size_t own = static_cast<size_t>(rank);
    rows_[own] = m;
    plans_[own] = buffers.plan;
    x_[own] = reinterpret_cast<const uint16_t*>(buffers.pointers[0]);
    Meet();
    for (size_t r = 0; r < x_.size(); ++r) {
      EXPECT_EQ(rows_[r], m);
      EXPECT_EQ(plans_[r], buffers.plan);
    }
    const auto* residual = reinterpret_cast<const uint16_t*>(buffers.pointers[1]);
    auto* out = reinterpret_cast<uint16_t*>(buffers.pointers[2]);
    for (int64_t i = 0; i < m * kRankColumns; ++i) {
      float total = 0;
      for (const uint16_t* x : x_) total += static_cast<float>(Of(x[i]));
      const double sum = reference::RoundTo(DType::kBF16, total);
      const double result = sum + Of(residual[i]);
      reference::StoreRun(&result, 1, out, reference::StorageOf(DType::kBF16), i, 1);
    }
    Meet();
    return absl::OkStatus();
  }

 private:
  static double Of(uint16_t bits) {
    reference::View view{.data = &bits, .storage = reference::StorageOf(DType::kBF16)};
    double value = 0;
    reference::ReadRun(view, 0, 1, 1, &value);
    return value;
  }

  // All ranks are here.
  void Meet() {
    std::unique_lock<std::mutex> lock(mutex_);
    const int round = round_;
    if (++here_ == x_.size()) {
      here_ = 0;
      ++round_;
      all_.notify_all();
    } else {
      all_.wait(lock, [&] { return round_ != round; });
    }
  }

  std::mutex mutex_;
  std::condition_variable all_;
  size_t here_ = 0;
  int round_ = 0;
  std::vector<const uint16_t*> x_;
  std::vector<int64_t> rows_;
  std::vector<uint64_t> plans_;
};

void ExpectTheReference(int size) {
  const Chain chain = SumWithResidual(size);
  const auto groups = LocalGroups(size);
  const size_t ranks = groups.size();
  Meeting meeting(size);
  std::vector<std::vector<std::string>> inputs;
  std::vector<std::string> got(ranks);
  for (int r = 0; r < size; ++r) inputs.push_back(*RandomInputs(chain, kRankRows, 3 + r));
  OnThreads(ranks, [&](int r) {
    Rank rank(chain);
    rank.world.run = [&, r](const std::string& name, const BufferList& buffers, int64_t m) {
      EXPECT_EQ(name, "sinter_all_reduce");
      EXPECT_EQ(buffers.room, groups[static_cast<size_t>(r)]->room());
      return meeting.Run(r, buffers, m);
    };
    const int64_t bytes = kRankRows * kRankColumns * 2;
    FakeBuffers buffers({bytes, bytes, bytes});
    for (size_t i = 0; i < 2; ++i) {
      std::memcpy(reinterpret_cast<void*>(buffers.pointers()[i]),
                  inputs[static_cast<size_t>(r)][i].data(), static_cast<size_t>(bytes));
    }
    const auto bound = rank.plan->BindGroup(buffers.pointers(), 0, groups[static_cast<size_t>(r)]);
    ASSERT_TRUE(bound.ok()) << bound.status();
    ASSERT_TRUE(rank.plan->Launch(**bound, nullptr, kRankRows, false).ok());
    got[static_cast<size_t>(r)].assign(reinterpret_cast<const char*>(buffers.pointers()[2]),
                                       static_cast<size_t>(bytes));
  });
  std::vector<const void*> in;
  std::vector<std::string> want(ranks, std::string(got[0].size(), '\0'));
  for (const auto& rank : inputs) {
    for (const std::string& input : rank) in.push_back(input.data());
  }
  std::vector<void*> out;
  for (std::string& one : want) out.push_back(&one[0]);
  ASSERT_TRUE(RunReference(chain, kRankRows, in, out).ok());
  EXPECT_EQ(got, want) << size << " ranks";
}

TEST(RankPlans, RanksComputeTheReference) {
  for (const int size : {2, 3, 4, 8}) ExpectTheReference(size);
}

TEST(RankPlans, WithoutAGroupTheWayOutIsNamed) {
  const Rank rank(SumWithResidual());
  const absl::Status bound = rank.plan->Bind(testing::FarApart(3), 0).status();
  EXPECT_EQ(bound.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(std::string(bound.message()),
            "the chain is split over 2 ranks: bind its plan to a group (sinter_plan_bind_group)");
  const Rank alone(ParseProblem("rmsnorm rows=M cols=64")->chain);
  const absl::Status grouped =
      alone.plan->BindGroup(testing::FarApart(3), 0, LocalGroups()[0]).status();
  EXPECT_TRUE(Fails(grouped, absl::StatusCode::kInvalidArgument, "split over no ranks"));
}

TEST(RankPlans, AGroupOfAnotherSizeIsRefused) {
  for (const auto& [ranks, size] : {std::pair(2, 4), {3, 2}, {4, 8}, {8, 3}}) {
    const absl::Status bound = Rank(SumWithResidual(ranks)).Bind(LocalGroups(size)[0]).status();
    EXPECT_EQ(bound.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(std::string(bound.message()),
              absl::StrCat("the chain is split over ", ranks, " ranks, the group has ", size,
                           ": describe the chain with ranks ", size));
  }
}

TEST(RankPlans, RanksThatBindOtherPlansAreTold) {
  const Rank first(SumWithResidual(), 16), same(SumWithResidual(), 16),
      other(SumWithResidual(), 64);
  const auto groups = LocalGroups();
  EXPECT_EQ(first.plan->ChosenDigest(), same.plan->ChosenDigest());
  ASSERT_TRUE(first.Bind(groups[0]).ok());
  EXPECT_TRUE(first.Bind(groups[0]).ok()) << "known";
  const absl::Status told = other.Bind(groups[1]).status();
  EXPECT_TRUE(Fails(told, absl::StatusCode::kFailedPrecondition, "another rank binds plan"));
  EXPECT_TRUE(Says(told, "prepare the same chain"));
  EXPECT_TRUE(same.Bind(groups[1]).ok());
}

// Two processes: both receive the error, by one exchange per plan.
TEST(RankPlans, RanksThatExchangeAreBothTold) {
  const Rank first(SumWithResidual(), 16),
      others[] = {Rank(SumWithResidual(), 64), Rank(SumWithResidual(), 128)};
  const auto gathering = std::make_shared<Gathering>(2);
  std::vector<absl::Status> same(2), differ(2);
  OnThreads(2, [&](int r) {
    int exchanges = 0;
    const auto group = GroupOf(gathering, r, 2, &exchanges);
    const int before = exchanges;
    same[static_cast<size_t>(r)] = first.Bind(group).status();
    same[static_cast<size_t>(r)].Update(first.Bind(group).status());
    EXPECT_EQ(exchanges - before, 1) << "the second time it is known";
    differ[static_cast<size_t>(r)] = others[r].Bind(group).status();
    EXPECT_TRUE(group->Close().ok());
  });
  for (int r = 0; r < 2; ++r) {
    EXPECT_TRUE(same[static_cast<size_t>(r)].ok()) << same[static_cast<size_t>(r)];
    EXPECT_EQ(differ[static_cast<size_t>(r)].code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_TRUE(Says(differ[static_cast<size_t>(r)], absl::StrCat("rank ", 1 - r, " binds plan")));
  }
}

// The last rank binds another plan: all the others name it, and it names the first.
TEST(RankPlans, AllRanksAreToldOfOneThatBindsAnotherPlan) {
  for (const int size : {3, 4, 8}) {
    const Rank same(SumWithResidual(size), 16), other(SumWithResidual(size), 64);
    const auto gathering = std::make_shared<Gathering>(size);
    std::vector<absl::Status> told(static_cast<size_t>(size));
    OnThreads(told.size(), [&](int r) {
      int exchanges = 0;
      const auto group = GroupOf(gathering, r, size, &exchanges);
      told[static_cast<size_t>(r)] = (r + 1 < size ? same : other).Bind(group).status();
      EXPECT_TRUE(group->Close().ok());
    });
    for (int r = 0; r < size; ++r) {
      const absl::Status& status = told[static_cast<size_t>(r)];
      EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << r;
      EXPECT_TRUE(Says(status, absl::StrCat("rank ", r + 1 < size ? size - 1 : 0, " binds plan")));
    }
  }
}

// A rank whose buffers are wrong has exchanged before it says so: the other is bound, and the next
// bind of this one is known.
TEST(RankPlans, ARankWithWrongBuffersKeepsNoOtherWaiting) {
  const Rank rank(SumWithResidual());
  const auto gathering = std::make_shared<Gathering>(2);
  const absl::Status wrong = absl::InvalidArgumentError("buffer_count is 2, the plan binds 3");
  std::vector<absl::Status> bound(2), again(2);
  OnThreads(2, [&](int r) {
    int exchanges = 0;
    const auto group = GroupOf(gathering, r, 2, &exchanges);
    const int before = exchanges;
    bound[static_cast<size_t>(r)] =
        r == 0 ? rank.Bind(group).status() : rank.plan->BindGroup(wrong, 0, group).status();
    EXPECT_EQ(exchanges - before, 1) << r;
    if (r == 1) again[1] = rank.Bind(group).status();
    EXPECT_TRUE(group->Close().ok());
  });
  EXPECT_TRUE(bound[0].ok()) << bound[0];
  EXPECT_EQ(bound[1], wrong);
  EXPECT_TRUE(again[1].ok()) << again[1];
}

TEST(RankPlans, LaunchesRefuseAGroupThatHasEnded) {
  const Rank rank(SumWithResidual());
  const auto groups = LocalGroups();
  const auto bound = *rank.Bind(groups[0]);
  EXPECT_TRUE(rank.plan->Launch(*bound, nullptr, kRankRows, false).ok());
  ASSERT_TRUE(groups[1]->Abort().ok());
  // The other rank's kernels tell this one's host; no kernel runs here.
  EXPECT_TRUE(rank.plan->Launch(*bound, nullptr, kRankRows, false).ok());
  ASSERT_TRUE(groups[0]->Abort().ok());
  const absl::Status aborted = rank.plan->Launch(*bound, nullptr, kRankRows, false);
  EXPECT_TRUE(Fails(aborted, absl::StatusCode::kAborted, "rank 0 aborted the group"));
}

// The kernel before has sent what is summed, which the next launch would send again. What a stream
// captures has not.
TEST(RankPlans, ALaunchThatFailsHalfwayEndsTheGroup) {
  Rank rank(ParseProblem("row_parallel m=M n=8192 k=4096 ranks=2")->chain);
  const auto groups = LocalGroups(2, 16 << 20);
  const std::vector<DevicePtr> places = testing::FarApart(7);
  const std::vector<DevicePtr> buffers(places.begin(), places.end() - 1);
  const auto bound = Got(rank.plan->BindGroup(buffers, places.back(), groups[0]));
  bool fails = true;
  rank.world.run = [&](const std::string& name, const BufferList&, int64_t) {
    const bool sums = name == "sinter_all_reduce";
    return fails && sums ? absl::InternalError("lost") : absl::OkStatus();
  };
  for (const bool captures : {true, false}) {
    rank.world.capturing = captures;
    EXPECT_TRUE(Says(rank.plan->Launch(*bound, nullptr, kRankRows, false), "lost"));
    EXPECT_EQ(groups[0]->GetStatus(nullptr).ok(), captures);
  }
  EXPECT_EQ(groups[0]->GetStatus(nullptr).code(), absl::StatusCode::kAborted);
  fails = false;
  EXPECT_EQ(rank.plan->Launch(*bound, nullptr, kRankRows, false).code(),
            absl::StatusCode::kAborted);
}

TEST(RankPlans, LaunchesAndBindsRefuseAClosedGroup) {
  const Rank rank(SumWithResidual());
  const auto groups = LocalGroups();
  const auto bound = *rank.Bind(groups[0]);
  ASSERT_TRUE(groups[0]->Close().ok());
  const absl::Status launched = rank.plan->Launch(*bound, nullptr, kRankRows, false);
  EXPECT_EQ(launched.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(std::string(launched.message()), "the group is closed: bind the plan to another one");
  EXPECT_EQ(Rank(SumWithResidual(), 64).Bind(groups[0]).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

// 64 KiB hold 512 rows of 128 bytes.
TEST(RankPlans, LongLaunchesAreMadeInPassesThatSlotsHold) {
  const Rank rank(SumWithResidual(), 2048);
  const auto bound = *rank.Bind(LocalGroups()[0]);
  ASSERT_TRUE(rank.plan->Launch(*bound, nullptr, 1100, false).ok());
  const std::lock_guard<std::mutex> lock(const_cast<FakeWorld&>(rank.world).mutex);
  ASSERT_EQ(rank.world.launches.size(), 3u);
  for (int i = 0; i < 3; ++i) {
    const auto& launch = rank.world.launches[static_cast<size_t>(i)];
    EXPECT_EQ(launch.m, i < 2 ? 384 : 332);
    EXPECT_EQ(launch.row_offset, 384 * i);
  }
}

// 64 KiB hold 512 rows that are gathered, or of which a rank gets half.
TEST(RankPlans, PartsOfColumnsTakeRowsInPasses) {
  for (const char* line :
       {"all_gather rows=M cols=64 ranks=2", "reduce_scatter rows=M cols=128 ranks=2"}) {
    const Rank rank(ParseProblem(line)->chain, 2048);
    const auto bound = *rank.plan->BindGroup(testing::FarApart(2), 0, LocalGroups()[0]);
    ASSERT_TRUE(rank.plan->Launch(*bound, nullptr, 1100, false).ok());
    const std::lock_guard<std::mutex> lock(const_cast<FakeWorld&>(rank.world).mutex);
    ASSERT_EQ(rank.world.launches.size(), 3u) << line;
    EXPECT_EQ(rank.world.launches[2].row_offset, 768);
    EXPECT_EQ(rank.world.launches[2].m, 332);
  }
}

// 64 KiB hold 400 rows of 160 bytes; each of six passes of 2048 rows needs fewer.
TEST(RankPlans, PassesAreEvenAndOfWholeTiles) {
  const Rank rank(ParseProblem("all_gather rows=M cols=80 ranks=2")->chain, 2048);
  const auto bound = *rank.plan->BindGroup(testing::FarApart(2), 0, LocalGroups()[0]);
  ASSERT_TRUE(rank.plan->Launch(*bound, nullptr, 2048, false).ok());
  const std::lock_guard<std::mutex> lock(const_cast<FakeWorld&>(rank.world).mutex);
  ASSERT_EQ(rank.world.launches.size(), 6u);
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(rank.world.launches[i].m, i < 5 ? 384 : 128);
}

// Their parts lie M rows apart, so that no pass can know where.
TEST(RankPlans, PartsOfRowsAreTakenAtOnceOrRefused) {
  for (const char* kind : {"all_gather", "reduce_scatter"}) {
    const auto bind = [&](int64_t m) {
      const Rank rank(ParseProblem(absl::StrCat(kind, " rows=M cols=64 ranks=2 along=rows"))->chain,
                      m);
      const auto bound = rank.plan->BindGroup(testing::FarApart(2), 0, LocalGroups()[0]);
      if (!bound.ok()) return bound.status();
      EXPECT_TRUE(rank.plan->Launch(**bound, nullptr, m, false).ok());
      EXPECT_EQ(rank.plan->Launch(**bound, nullptr, m + 1, false).code(),
                absl::StatusCode::kOutOfRange);
      const std::lock_guard<std::mutex> lock(const_cast<FakeWorld&>(rank.world).mutex);
      EXPECT_EQ(rank.world.launches.size(), 1u);
      return absl::OkStatus();
    };
    EXPECT_TRUE(bind(512).ok()) << bind(512);
    EXPECT_TRUE(Fails(bind(1024), absl::StatusCode::kFailedPrecondition,
                      "group.slot_bytes is 65536, the plan sends 1024 rows at once whose "
                      "messages are longer: make the group with larger slots"));
  }
}

// A pass has the buffers' next rows, and the same workspace.
TEST(RankPlans, PassesOfALayerReuseTheWorkspace) {
  Rank rank(ParseProblem("row_parallel m=M n=8192 k=4096 ranks=2")->chain, 2048);
  std::vector<LaunchRecipe> recipes;
  rank.world.name = [&](const LaunchRecipe& recipe) {
    recipes.push_back(recipe);
    return recipe.entry;
  };
  const std::vector<DevicePtr> places = testing::FarApart(7);
  const std::vector<DevicePtr> buffers(places.begin(), places.end() - 1);
  const auto bound = Got(rank.plan->BindGroup(buffers, places.back(), LocalGroups(2, 16 << 20)[0]));
  ASSERT_TRUE(rank.plan->Launch(*bound, nullptr, 2048, false).ok());
  ASSERT_EQ(rank.world.launches.size(), 2 * recipes.size());
  EXPECT_EQ(rank.world.launches.back().row_offset, 1024);
  bool reads_workspace = false;
  for (const LaunchRecipe& recipe : recipes) {
    for (const ArgSlot& arg : recipe.args) {
      if (arg.kind != ArgKind::kPointer || arg.index != kWorkspaceBuffer) continue;
      reads_workspace = true;
      EXPECT_EQ(arg.int_value, 0) << recipe.entry;
    }
  }
  EXPECT_TRUE(reads_workspace) << "the product of a rank lies there";
}

// A slot holds 682 rows of 96 bytes. A vector of a number per row placed after them would be
// misaligned.
TEST(RankPlans, PassesBeginAtAlignedRows) {
  const auto chain = [](int64_t columns) {
    return ParseProblem(absl::StrCat("all_reduce rows=M cols=", columns, " ranks=2 residual=1"))
        ->chain;
  };
  const Rank rank(chain(48), 2048);
  const auto bound = *rank.Bind(LocalGroups()[0]);
  ASSERT_TRUE(rank.plan->Launch(*bound, nullptr, 1344, false).ok());
  ASSERT_EQ(rank.world.launches.size(), 2u);
  EXPECT_EQ(rank.world.launches[0].m, 672);
  EXPECT_EQ(rank.world.launches[1].row_offset, 672);
  // Eight rows of 8192 bytes: too few for a pass, enough for a plan of no more rows.
  EXPECT_TRUE(Rank(chain(4096), 8).Bind(LocalGroups()[0]).ok());
  const absl::Status few = Rank(chain(4096), 64).Bind(LocalGroups()[0]).status();
  EXPECT_EQ(few.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(std::string(few.message()),
            "group.slot_bytes is 65536, the plan sends at least 16 rows at once whose messages are "
            "longer: make the group with larger slots");
}

TEST(RankPlans, NodesAreUpdatedForTheirGroupAlone) {
  const Rank rank(SumWithResidual());
  const auto group = LocalGroups()[0];
  const auto bound = *rank.Bind(group);
  const auto added = Got(rank.plan->AddToGraph(*bound, nullptr, {}, kRankRows));
  EXPECT_TRUE(rank.plan->UpdateInGraph(added, nullptr, **rank.Bind(group), kRankRows + 1).ok());
  const auto other = *rank.Bind(LocalGroups()[0]);
  EXPECT_TRUE(Fails(rank.plan->UpdateInGraph(added, nullptr, *other, kRankRows),
                    absl::StatusCode::kFailedPrecondition, "the nodes run over another group"));
  const std::lock_guard<std::mutex> lock(const_cast<FakeWorld&>(rank.world).mutex);
  EXPECT_EQ(rank.world.nodes.at(added.nodes[0]).m, kRankRows + 1) << "nothing changed";
}

TEST(RankPlans, AGraphKeepsTheGroupOfItsNodes) {
  for (const bool captured : {true, false}) {  // or its nodes are added
    Rank rank(SumWithResidual());
    std::shared_ptr<RankGroup> group = LocalGroups()[0];
    const std::weak_ptr<RankGroup> alive = group;
    {
      const auto bound = *rank.Bind(std::move(group));
      rank.world.capturing = captured;
      if (captured) {
        ASSERT_TRUE(rank.plan->Launch(*bound, nullptr, kRankRows, false).ok());
      } else {
        ASSERT_TRUE(rank.plan->AddToGraph(*bound, nullptr, {}, kRankRows).ok());
      }
    }
    EXPECT_FALSE(alive.expired()) << captured;
    rank.world.graph.clear();
    EXPECT_TRUE(alive.expired()) << captured;
  }
}

TEST(RankPlans, RowsThatNoSlotHoldsAreRefused) {
  const Rank rank(ReadChain("out all_reduce({f32[8,4096]}, 2)"), 1);
  const absl::Status bound =
      rank.plan->BindGroup(testing::FarApart(2), 0, LocalGroups()[0]).status();
  EXPECT_TRUE(Fails(bound, absl::StatusCode::kFailedPrecondition, "group.slot_bytes is 65536"));
  EXPECT_TRUE(Says(bound, "make the group with larger slots"));
}

TEST(RankPlans, AreNotTuned) {
  const Chain chain = SumWithResidual();
  const Rank rank(chain);
  const absl::Status tuned = rank.engine->Tune(chain, 16, {}).status();
  EXPECT_TRUE(
      Fails(tuned, absl::StatusCode::kFailedPrecondition, "a single rank cannot be measured"));
}

TEST(RankPlans, RecordsAreFoundAgain) {
  Rank first(SumWithResidual());
  FakeWorld next;
  next.disk = first.world.disk;
  next.normal = NormalFormOf;
  next.plan = PlanChain;
  next.generate = first.world.generate;
  const auto again = Got(next.MakeEngine()->Prepare(SumWithResidual(), 16, {}));
  EXPECT_EQ(next.plans, 0);
  EXPECT_EQ(again->ChosenDigest(), first.plan->ChosenDigest());
}

}  // namespace
}  // namespace sinter
