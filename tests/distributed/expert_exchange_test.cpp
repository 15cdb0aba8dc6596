// Overlap of computation with the exchange of rows between ranks, shown by the order of events and by a rank
// that waits for the other's computation.
#include "expert_exchange.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "distributed/groups.h"
#include "distributed/rendezvous.h"
#include "mesh_runs.h"
#include "spec/spec_json.h"
#include "train/run_setup.h"
#include "train/trainer.h"

namespace optrush::testing {
namespace {
using ::testing::ElementsAre;

struct Pair {
  c10::intrusive_ptr<c10d::Store> store;
  Groups groups;
  Group* group;
  explicit Pair(const Ranks& ranks) : store(rendezvous(ranks, "pair")) {
    groups.connect(ranks, store, at::kCPU);
    group = &groups.make("pair", {0, 1}, ranks.rank);
    static std::vector<c10::intrusive_ptr<c10d::Store>> kept;  // the store must outlive the first rank
    kept.push_back(store);
  }

  void tell(const std::string& what) const { store->add(what, 1); }
  /// Waits for a message of the other rank. It never comes if that rank waits for this one.
  void await(const std::string& what) const {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (store->add(what, 0) == 0) {
      if (std::chrono::steady_clock::now() > end) throw std::runtime_error("no " + what + " meanwhile");
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
};

/// Returns `x`, and tells the other rank when its forward and its backward ran.
Differentiable notifying(const Pair& pair) {
  return {{.name = "notifying",
           .forward = [&pair](const Tensors& in) -> Differentiable::Result {
             pair.tell("forward");
             return {{in[0] * 1}, {}};
           },
           .backward = [&pair](const Tensors&, const Tensors& gradients) -> Tensors {
             pair.tell("backward");
             return {gradients[0]};
           }}};
}

std::vector<double> doubles(const Tensor& tensor) {
  const Tensor flat = tensor.contiguous();
  return {flat.const_data_ptr<double>(), flat.const_data_ptr<double>() + flat.numel()};
}

/// Four rows: one stays, and three go to the other rank. Two rows come from it.
Json exchanging(const Pair& pair) {
  const expert_parallel::ExpertExchange exchange(*pair.group);
  const Tensor rows = at::arange(8, at::kDouble).view({4, 2}).requires_grad_();
  const Tensor x = at::ones({2}, at::kDouble).requires_grad_();
  const Differentiable beside = notifying(pair);
  Tensor meanwhile;
  const auto twice = [](const Tensor& arrived, const Tensor&, const Batch&) { return arrived * 2; };
  const Tensor out =
      exchange(twice, rows, at::tensor({1, 3}, at::kLong), {}, [&] { meanwhile = call(beside, {x}).at(0); });
  (out.sum() + meanwhile.sum()).backward();
  return {{"out", doubles(out)}, {"gradient", doubles(rows.grad())}, {"rows", exchange.computed_rows()}};
}

/// The other side. It sends rows and gradients only after the first rank has finished its overlapped
/// computation.
Json answering(const Pair& pair) {
  const std::vector<int64_t> to = {2, 1}, from = {3, 1};
  const auto send = [&](const Tensor& rows, bool to_experts) {
    const auto& [leaving, coming] = to_experts ? std::tie(to, from) : std::tie(from, to);
    Tensor arrived = at::empty({coming[0] + coming[1], 2}, at::kDouble);
    pair.group->all_to_all(arrived, coming, rows, leaving).wait();
    return arrived;
  };
  const Tensor counts = at::tensor({2, 1}, at::kLong);
  pair.group->all_to_all(at::empty_like(counts), counts).wait();
  pair.await("forward");
  const Tensor arrived = send(at::full({3, 2}, 10.0, at::kDouble), true);
  const Tensor out = send(arrived * 3, false);
  const Tensor gradient = send(at::ones({3, 2}, at::kDouble), true);
  pair.await("backward");
  send(gradient * 3, false);
  return {{"arrived", doubles(arrived)}, {"out", doubles(out)}};
}

Json meanwhile(const Ranks& ranks, const Json&) {
  at::set_num_threads(1);
  const Pair pair(ranks);
  return ranks.rank == 0 ? exchanging(pair) : answering(pair);
}

/// The order of events in the first mixture of the first micro-batch.
Json order(const Ranks& ranks, const Json& spec) {
  at::set_num_threads(1);
  std::vector<std::string> events;
  const auto note = [&events](const std::string& what) {
    if (std::ranges::find(events, what) == events.end()) events.push_back(what);
  };
  const auto note_gradient = [note](const Tensor& tensor, const std::string& what) {
    if (tensor.requires_grad()) tensor.register_hook([note, what](const Tensor&) { note(what); });
  };
  const auto around = [note, note_gradient](Phase phase, const std::string& name, RunRecipe& recipe) {
    recipe.ops.experts.wrap(phase,
                            [=](Ops::Experts::Fn inner) -> Ops::Experts::Fn {
                              return [=, inner = std::move(inner)](const Tensor& rows, const Tensor& counts,
                                                                   const Batch& batch) {
                                note(name + " begin");
                                note_gradient(rows, name + " gradient");
                                Tensor out = inner(rows, counts, batch);
                                note(name + " end");
                                return out;
                              };
                            },
                            {.trace = Trace::aten});
  };
  const auto session =
      RunSetup::open(run_spec_from_json(spec, "test"), at::kCPU, ranks, [&](RunRecipe& recipe) {
        recipe.edit_as("test");
        around(Phase::base, "experts", recipe);     // with rows of other ranks
        around(Phase::context, "mixture", recipe);  // with rows of this rank
        recipe.unit.wrap(Phase::base,
                         [=](UnitFunction inner, const Unit& unit) -> UnitFunction {
                           if (!unit.path.ends_with("shared_expert")) return inner;
                           return [=, inner = std::move(inner)](const Tensor& x, const Batch& batch) {
                             note("shared expert");
                             Tensor out = inner(x, batch);
                             note_gradient(out, "shared expert gradient");
                             return out;
                           };
                         },
                         {.trace = Trace::aten});
      });
  session->connect();
  session->declare();
  session->make_ready();
  train(*session, [](const Json&) {});
  return events;
}

TEST(ExpertExchange, RowsAreSentDuringOtherComputation) {
  const auto answers = pool().run("meanwhile", 2, {});
  for (const Json& answer : answers) ASSERT_FALSE(answer.contains("error")) << answer;
  EXPECT_EQ(answers[0].at("out"), Json({0, 2, 6, 9, 12, 15, 18, 21}));
  EXPECT_EQ(answers[0].at("gradient"), Json({2, 2, 3, 3, 3, 3, 3, 3}));
  EXPECT_EQ(answers[0].at("rows"), 3);
  EXPECT_EQ(answers[1].at("arrived"), Json({2, 3, 4, 5, 6, 7, 10, 10}));
  EXPECT_EQ(answers[1].at("out"), Json({20, 20, 20, 20, 30, 30}));
}

std::vector<std::string> order_of(Stack plugins) {
  RunSpec spec =
      small_spec(2, std::move(plugins), {{"n_layers", 1}, {"n_experts", 4}, {"shared_expert_ffn_dim", 12}});
  const Json events = pool().run("order of exchange", 2, to_json(spec)).front();
  EXPECT_TRUE(events.is_array()) << events;
  return events.is_array() ? events.get<std::vector<std::string>>() : std::vector<std::string>{};
}

TEST(ExpertExchange, SharedExpertIsComputedWhileRowsAreSent) {
  EXPECT_THAT(order_of({use("expert_parallel"), use("ddp")}),
              ElementsAre("mixture begin", "shared expert", "experts begin", "experts end", "mixture end",
                          "experts gradient", "shared expert gradient", "mixture gradient"));
  EXPECT_THAT(order_of({use("ddp")}),
              ElementsAre("mixture begin", "experts begin", "experts end", "mixture end", "shared expert",
                          "shared expert gradient", "mixture gradient", "experts gradient"));
}
const bool kExchangeJobs = add_jobs({{"meanwhile", meanwhile}, {"order of exchange", order}});
}  // namespace
}  // namespace optrush::testing
